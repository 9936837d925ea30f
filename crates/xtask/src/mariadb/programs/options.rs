//! The command line: what is run, and what becomes of the differences.

use crate::mariadb::share::share;

/// What to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only these: sqlalchemy, django, a test file of SQLAlchemy or an app of Django's tests
    pub(super) only: Vec<String>,
    /// Only a share of the files and apps, N/M, without slow ones
    #[arg(long, value_parser = share)]
    pub(super) share: Option<(u64, u64)>,
    /// Which share
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
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
