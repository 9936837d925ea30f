//! Whether pages are protected against torn writes.

/// Whether a page is written to the doublewrite before it is written in place
/// ([`Options::doublewrite`], [`Db::set_doublewrite`]).
///
/// [`Options::doublewrite`]: crate::Options::doublewrite
/// [`Db::set_doublewrite`]: crate::Db::set_doublewrite
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doublewrite {
    /// A power cut tears no page for good: what is torn is restored from its copy.
    #[default]
    On,
    /// Pages are written in place without a copy. **A power cut may tear pages, and they are
    /// lost**: opening and reading name each of them, and give no wrong rows, but the rows in them
    /// are gone. A killed process tears nothing. This is safe only where file system and device
    /// write a whole page or nothing, which the engine cannot tell. `docs/media.md` says more.
    UnsafeOff,
}

impl Doublewrite {
    pub(crate) fn is_off(self) -> bool {
        self == Doublewrite::UnsafeOff
    }
}
