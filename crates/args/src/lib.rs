//! Command lines: parsed by clap, and a wrong one is answered with one sentence. A program also
//! ends quietly when the reader of its output has ended.

use clap::Parser;
use clap::error::ErrorKind;
use std::io::{self, Write};
use std::process::ExitCode;

/// `EPIPE` of Linux.
const BROKEN_PIPE: i32 = 32;

/// Returns the arguments of this process.
///
/// # Errors
///
/// The exit status, if there is nothing to run: 0 after `--help` or `--version`; 2 after a wrong
/// command line, which one sentence on stderr names. If the command is missing, the help is
/// printed instead, and the status is 2 too.
///
/// Also ends the program when its output cannot be written: without a message if the reader has
/// ended, otherwise with one sentence.
pub fn parse<T: Parser>(program: &'static str) -> Result<T, ExitCode> {
    end_with_the_output(program);
    T::try_parse().map_err(|error| {
        let help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
        if help || !error.use_stderr() {
            let _ = error.print();
        } else {
            let _ = writeln!(std::io::stderr(), "{program}: {}", sentence(&error));
        }
        ExitCode::from(if error.use_stderr() { 2 } else { 0 })
    })
}

/// `println!` panics if it cannot write. This ends the program with status 1 instead: quietly if
/// the reader has ended (`| head`), otherwise with one sentence.
fn end_with_the_output(program: &'static str) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let Some(why) = info.payload_as_str().and_then(why_unprinted) else { return before(info) };
        if why != io::Error::from_raw_os_error(BROKEN_PIPE).to_string() {
            let _ = writeln!(io::stderr(), "{program}: cannot write the output: {why}");
        }
        std::process::exit(1)
    }));
}

/// Returns why `println!` or `eprintln!` could not write, if that is what the message of a panic
/// says.
fn why_unprinted(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("failed printing to std")?;
    rest.strip_prefix("out: ").or_else(|| rest.strip_prefix("err: "))
}

/// Returns clap's first sentence in one line, without its usage text.
pub fn sentence(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let sentence = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<_> = sentence.split_whitespace().collect();
    format!("{} (--help tells more)", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[arg(long)]
        seed: u64,
    }

    #[test]
    fn a_wrong_command_line_gets_one_sentence() {
        let wrong = [
            (&["p", "--sead=1"][..], "unexpected argument '--sead' found"),
            (&["p", "--seed=x"], "invalid value 'x' for '--seed <SEED>': invalid digit found in string"),
            (&["p"], "the following required arguments were not provided: --seed <SEED>"),
        ];
        for (arguments, answer) in wrong {
            let error = Cli::try_parse_from(arguments).expect_err(answer);
            assert_eq!(sentence(&error), format!("{answer} (--help tells more)"));
        }
        assert_eq!(Cli::try_parse_from(["p", "--seed=7"]).map(|cli| cli.seed).ok(), Some(7));
    }
}
