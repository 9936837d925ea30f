//! Command lines: parsed by clap, and a wrong one is answered with one sentence.

use clap::Parser;
use clap::error::ErrorKind;
use std::io::Write;
use std::process::ExitCode;

/// Returns the arguments of this process.
///
/// # Errors
///
/// The exit status, if there is nothing to run: 0 after `--help` or `--version`; 2 after a wrong
/// command line, which one sentence on stderr names. If the command is missing, the help is
/// printed instead, and the status is 2 too.
pub fn parse<T: Parser>(program: &str) -> Result<T, ExitCode> {
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
