//! The command line: what is run, and what becomes of the differences.

use crate::share::Share;

/// What to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only these: sqlalchemy, django, a test file of SQLAlchemy or an app of Django's tests
    pub(super) only: Vec<String>,
    #[command(flatten)]
    pub(super) share: Share,
    /// Without a package index, run nothing and succeed
    #[arg(long)]
    pub(super) if_reached: bool,
    /// Pin the differences of the tests that are listed in `differs`
    #[arg(long)]
    pub(super) pin: bool,
    /// Run nothing: compare once more how the tests ended when they ran last
    #[arg(long)]
    pub(super) again: bool,
}
