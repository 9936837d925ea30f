//! What a command prints on its standard output, or writes to the file of `--json`.

use crate::failure::{Failure, Outcome};
use crate::stop;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// Prints to stdout. If the reader has ended (`| head`), this is no failure. If the text cannot be
/// written for another reason, such as a full disk, the program ends with status 1.
pub fn print(text: &str) {
    print_bytes(text.as_bytes());
}

/// The same for bytes.
pub fn print_bytes(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_all(bytes).and_then(|()| out.flush())
        && error.kind() != ErrorKind::BrokenPipe
    {
        Failure::failed(format!("cannot write the output: {error}")).complain();
        stop::leave();
    }
}

/// Writes a result to the file of `--json`. If the disk is full, half a file is not left behind.
pub fn write_json(file: &Path, json: &str) -> Outcome {
    let cannot = |e: io::Error| Failure::failed(format!("cannot write {}: {e}", file.display()));
    let mut opened = File::create(file).map_err(cannot)?;
    opened.write_all(json.as_bytes()).map_err(|e| {
        // Not a pipe or a device.
        if opened.metadata().is_ok_and(|found| found.is_file()) {
            let _ = std::fs::remove_file(file);
        }
        cannot(e)
    })
}
