//! A difference that is permitted, and whether the case can go on after it.

/// A permitted difference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permitted {
    /// What differs, and why that is right.
    pub(crate) reason: &'static str,
    /// The contents of the databases may differ from here on, so the case ends.
    pub(crate) ends_case: bool,
}

pub(crate) fn ends(reason: &'static str) -> Option<Permitted> {
    Some(Permitted { reason, ends_case: true })
}

pub(crate) fn goes_on(reason: &'static str) -> Option<Permitted> {
    Some(Permitted { reason, ends_case: false })
}
