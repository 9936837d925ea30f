//! What the program prints on its standard output.

use crate::failure::Failure;
use crate::stop;
use std::io::{ErrorKind, Write};

/// Prints to stdout. If the reader has ended (`| head`), this is no failure. If the text cannot be
/// written for another reason, such as a full disk, the program ends with status 1.
pub(crate) fn print(text: &str) {
    print_bytes(text.as_bytes());
}

/// The same for bytes.
pub(crate) fn print_bytes(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_all(bytes).and_then(|()| out.flush())
        && error.kind() != ErrorKind::BrokenPipe
    {
        Failure::failed(format!("cannot write the output: {error}")).complain();
        stop::leave();
    }
}
