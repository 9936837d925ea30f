//! The secret in the address of the dashboard: random, or kept in a file, so that Prometheus can
//! use the same one after a restart.

use output::failure::{Failure, Outcome};
use rustix::rand::{GetRandomFlags, getrandom};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// How short and how long a token may be.
const LENGTHS: std::ops::RangeInclusive<usize> = 16..=128;

/// Returns a new token of 128 random bits.
pub(super) fn random() -> Outcome<String> {
    let mut bytes = [0; 16];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(16) => Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        _ => Err(Failure::failed("the kernel gives no random bytes for a token")),
    }
}

/// Returns the token of a file. Where there is no file, it makes one with a new token.
pub(super) fn from_file(path: &Path) -> Outcome<String> {
    let failed = |what: &str, e: std::io::Error| {
        Failure::failed(format!("cannot {what} the token file {}: {e}", path.display()))
    };
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => {
            let token = random()?;
            let written = file.write_all(format!("{token}\n").as_bytes());
            return match written {
                Ok(()) => Ok(token),
                Err(e) => {
                    // A file without a token would be refused by the next start.
                    let _ = fs::remove_file(path);
                    Err(failed("write", e))
                }
            };
        }
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
        Err(e) => return Err(failed("make", e)),
    }
    let mode = fs::metadata(path).map_err(|e| failed("read", e))?.permissions().mode();
    if mode & 0o007 != 0 {
        let why = "every user of this machine can read it; chmod o= closes it";
        return Err(Failure::misuse(format!("the token file {}: {why}", path.display())));
    }
    let token = fs::read_to_string(path).map_err(|e| failed("read", e))?.trim().to_owned();
    if is_token(&token) {
        Ok(token)
    } else {
        let (least, most) = (LENGTHS.start(), LENGTHS.end());
        let why = format!("a token is {least} to {most} letters, digits, - and _, alone in its file");
        Err(Failure::misuse(format!("the token file {}: {why}", path.display())))
    }
}

/// Tells whether a text can be a token: it is a part of an address and of a header.
fn is_token(text: &str) -> bool {
    LENGTHS.contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn tokens_are_long_and_differ() {
        let (one, other) = (random().unwrap(), random().unwrap());
        assert!(is_token(&one) && one.len() == 32 && one != other);
    }

    #[test]
    fn a_token_file_is_made_once_and_must_be_closed_to_others() {
        let scratch = Scratch::new("token");
        let path = scratch.0.join("token");
        let made = from_file(&path).unwrap();
        assert_eq!(from_file(&path).unwrap(), made);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(from_file(&path).unwrap_err().to_string().contains("chmod o="));
        for text in ["short", "with a blank in the middle", "../../../../../../etc"] {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            assert!(from_file(&path).unwrap_err().to_string().contains("a token is"), "{text}");
        }
    }
}
