//! The flags of `millpond run` that name a server.

use client::LoginFlags;
use output::failure::{Failure, Outcome};

/// The flags of a run on a server.
#[derive(Debug, clap::Args)]
pub(crate) struct ServerFlags {
    /// Run over SQL on this server, as mysql://user@host:port/, and change none of its settings
    #[arg(long, value_name = "URL", conflicts_with_all = [
        "db", "ephemeral", "pool", "recovery_target", "redo_capacity", "redo_dir",
        "unsafe_no_doublewrite", "law", "durability", "page",
    ])]
    target: Option<String>,
    /// Engine of the tables [default: the server's]
    #[arg(long, value_name = "NAME", requires = "target")]
    pub(super) engine: Option<String>,
    /// Schema of the tables; made if it is not there [default: sbtest; of napkin: napkin]
    #[arg(long, value_name = "NAME", requires = "target")]
    pub(super) schema: Option<String>,
    /// The same load on these engines, or other servers by URL, too: in turns, with ratios to the
    /// first
    #[arg(
        long,
        value_name = "ENGINE|URL,…",
        value_delimiter = ',',
        requires = "target",
        conflicts_with = "ramp"
    )]
    pub(super) compare: Vec<String>,
    /// Turns of each engine or server that is compared
    #[arg(long, value_name = "N", default_value_t = 3, requires = "compare", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: u32,
    /// Trace which files the server syncs, why, and how long it takes, as trace-fsync does; needs
    /// root, and a server on this machine
    #[arg(long, requires = "target", conflicts_with_all = ["ramp", "compare"])]
    pub(super) syncs: bool,
    /// Say what would be made, loaded and run on the server, and change nothing
    #[arg(long, requires = "target", conflicts_with_all = ["compare", "json", "report"])]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) login: LoginFlags,
}

impl ServerFlags {
    /// Returns the server's URL; `None` if the run works on a database in this process.
    pub(super) fn target(&self) -> Outcome<Option<&str>> {
        if self.target.is_none() && self.login != LoginFlags::default() {
            return Err(Failure::misuse("--defaults-file and --password need --target"));
        }
        Ok(self.target.as_deref())
    }
}
