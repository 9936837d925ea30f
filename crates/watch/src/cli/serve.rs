//! `millpond serve TARGET`: the write path live in a browser, and for Prometheus.

use super::plot::parse_past;
use crate::serve::{self, DEFAULT_LISTEN, Job, parse_listen};
use client::LoginFlags;
use output::failure::Outcome;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Watch a server or a database live in a browser, and by Prometheus
#[derive(Debug, clap::Args)]
pub struct Serve {
    /// mysql://user@host:port/, mysql://user@localhost/?socket=PATH, a database directory, or a
    /// directory of `record` or `collect`; several have one page together and a page each
    #[arg(value_name = "TARGET", required = true)]
    targets: Vec<String>,
    #[command(flatten)]
    login: LoginFlags,
    /// The hour before this time, in UTC: 14:03, -10m, 2026-11-24T14:03; TARGET is a directory
    /// [default: live; of a recording its last hour]
    #[arg(
        long, value_name = "TIME", value_parser = parse_past, allow_hyphen_values = true,
        conflicts_with_all = ["enable_metrics", "wait", "error_log"]
    )]
    at: Option<u64>,
    /// Where browsers come to; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = DEFAULT_LISTEN, value_parser = parse_listen)]
    listen: SocketAddr,
    /// Let other machines look too, if --listen has an address that they reach
    #[arg(long)]
    network: bool,
    /// A name of this machine that browsers use, besides localhost and its addresses
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
    /// Keep the token in this file, so that it stays the same; it is made if it is not there
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Let a server count more meanwhile: metrics of InnoDB that are switched off, and then again
    #[arg(long)]
    enable_metrics: bool,
    /// Begin also if the target is not there yet: /ready and /progress tell of its recovery
    #[arg(long, conflicts_with = "enable_metrics")]
    wait: bool,
    /// The error log of a server, which tells of its recovery [default: what a server here says]
    #[arg(long, value_name = "FILE")]
    error_log: Option<PathBuf>,
}

impl Serve {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let Serve { targets, login, listen, network, names, token_file, .. } = self;
        let Serve { at: at_us, enable_metrics, wait, error_log, .. } = self;
        serve::run(Job {
            targets,
            login,
            listen,
            network,
            names,
            token_file,
            enable_metrics,
            wait,
            error_log,
            at_us,
        })
    }
}
