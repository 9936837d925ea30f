//! The command line: what is run, and what becomes of the differences.

use crate::share::Share;

/// What to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only these tests, SUITE.TEST; a star at the end stands for any rest
    pub(super) tests: Vec<String>,
    #[command(flatten)]
    pub(super) share: Share,
    /// Pin the differences of the tests that are listed in `differs`
    #[arg(long)]
    pub(super) pin: bool,
    /// Run nothing: compare once more what the tests printed when they ran last
    #[arg(long)]
    pub(super) again: bool,
}
