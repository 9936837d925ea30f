//! The command line: what is run, and what becomes of the differences.

use crate::mariadb::share::share;

/// What to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only these tests, SUITE.TEST; a star at the end stands for any rest
    pub(super) tests: Vec<String>,
    /// Only a share of them, N/M, without slow ones
    #[arg(long, value_parser = share)]
    pub(super) share: Option<(u64, u64)>,
    /// Which share
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Pin the differences of the tests that are listed in `differs`
    #[arg(long)]
    pub(super) pin: bool,
    /// Run nothing: compare once more what the tests printed when they ran last
    #[arg(long)]
    pub(super) again: bool,
}
