//! Why a target gives no sample.

use std::fmt;

/// A wrong password; no right to use the server; a host that may not connect; a way to log in that
/// one side does not know; a password that has expired; an account that is locked.
const NO_ENTRY: [u16; 11] = [1045, 1698, 1044, 1130, 1251, 1275, 1524, 1820, 1862, 3118, 4151];

/// Why a server gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It is not there, or went away: to try again may help.
    Gone(String),
    /// The user may not do this, or the server does not know it: to try again is useless.
    Refused {
        /// The number of the server's error; 0 if it is an error of the client.
        code: u16,
        /// The sentence.
        why: String,
    },
}

impl Trouble {
    /// Whether only a person can end it: the user may not log in. All else may pass by itself, also
    /// a refusal: a statement that was killed or took too long, too many connections or statements
    /// in an hour, no memory or no disk for an answer.
    pub fn is_final(&self) -> bool {
        match self {
            Trouble::Gone(_) => false,
            Trouble::Refused { code, .. } => *code == 0 || NO_ENTRY.contains(code),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Trouble::Gone(why) | Trouble::Refused { why, .. }) = self;
        f.write_str(why)
    }
}
