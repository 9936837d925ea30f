//! What the program does when nobody takes its output.

use std::fs::File;
use std::process::{Command, Output, Stdio};

fn list(out: impl Into<Stdio>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sim")).arg("list").stdout(out).stderr(Stdio::piped()).output().unwrap()
}

/// `sim planted ... | head -1` panicked.
#[test]
fn it_ends_quietly_if_the_reader_of_its_output_has_ended() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = list(writer);
    assert_eq!((ended.status.code(), ended.stderr), (Some(1), Vec::new()));
}

#[test]
fn output_that_cannot_be_written_is_one_sentence() {
    let ended = list(File::options().write(true).open("/dev/full").unwrap());
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(said, "sim: cannot write the output: No space left on device (os error 28)\n");
}
