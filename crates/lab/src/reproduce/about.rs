//! What an experiment repeats.

/// An experiment of an article.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    /// Article and number, as `D2.B19`.
    pub(crate) id: &'static str,
    /// Other figures of the same article that come from the same run.
    pub(crate) with: &'static [&'static str],
    /// Who published it, and on what.
    pub(crate) article: &'static str,
    /// What the article concludes, in a sentence.
    pub(crate) claim: &'static str,
}

impl About {
    /// Says whether it has this name, or answers for the figure of this name.
    pub(super) fn is_called(&self, name: &str) -> bool {
        let (article, own) = self.id.split_once('.').unwrap_or(("", self.id));
        let mut numbers = std::iter::once(own).chain(self.with.iter().copied());
        numbers.any(|number| {
            name.eq_ignore_ascii_case(number) || name.eq_ignore_ascii_case(&format!("{article}.{number}"))
        })
    }
}
