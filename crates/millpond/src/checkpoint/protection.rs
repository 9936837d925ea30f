//! What the root says about the protection of pages against torn writes (To5).

/// Whether pages may be torn in place without a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Protection {
    /// Each page that may be torn has a copy.
    On = 0,
    /// Pages may be written in place without a copy now.
    Off = 1,
    /// They are not now, but were in a run that was cut off, and not all redo of that run has been
    /// applied. What was torn then is found when its redo is applied.
    WasOff = 2,
}

impl Protection {
    pub(crate) fn decode(byte: u8) -> Option<Protection> {
        [Protection::On, Protection::Off, Protection::WasOff].into_iter().find(|p| *p as u8 == byte)
    }

    /// Whether pages without a copy may be torn.
    pub(crate) fn may_be_torn(self) -> bool {
        self != Protection::On
    }

    /// Returns what an opening writes to the root, before it changes any page. `clean`: the
    /// database was closed, so nothing was being written.
    pub(crate) fn at_open(self, off: bool, clean: bool) -> Protection {
        match (off, clean || self == Protection::On) {
            (true, _) => Protection::Off,
            (false, true) => Protection::On,
            (false, false) => Protection::WasOff,
        }
    }

    /// Returns what the next root says, if pages are written without copies from then on (`off`),
    /// or are not any more and all such writes are synced. `replaying`: redo of the last run is
    /// left.
    pub(crate) fn next(self, off: bool, replaying: bool) -> Protection {
        self.at_open(off, !replaying)
    }
}

#[cfg(test)]
mod tests {
    use super::Protection::{self, Off, On, WasOff};
    use std::fmt::Write;

    #[test]
    fn what_the_root_says_next() {
        let mut table = String::new();
        for (off, clean) in [(false, true), (false, false), (true, true), (true, false)] {
            let after = [On, Off, WasOff].map(|before| before.at_open(off, clean));
            writeln!(table, "off {off:5} clean {clean:5}: On, Off, WasOff -> {after:?}").unwrap();
            assert_eq!([On, Off, WasOff].map(|before| before.next(off, !clean)), after);
        }
        let expected = "\
off false clean true : On, Off, WasOff -> [On, On, On]
off false clean false: On, Off, WasOff -> [On, WasOff, WasOff]
off true  clean true : On, Off, WasOff -> [Off, Off, Off]
off true  clean false: On, Off, WasOff -> [Off, Off, Off]
";
        assert_eq!(table, expected);
        assert_eq!([0, 1, 2, 3].map(Protection::decode), [Some(On), Some(Off), Some(WasOff), None]);
    }
}
