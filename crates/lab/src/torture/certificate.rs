//! The certificate: what was shown, and what was not.

use super::shown::Shown;
use crate::block_device::BlockDevice;
use crate::report::machine_facts;
use output::units::{now_us, show_count, show_date, show_size};
use std::fmt::Write;
use std::path::Path;

/// What the certificate is about.
pub(super) struct Certificate<'a> {
    pub(super) shown: &'a Shown,
    pub(super) dir: &'a Path,
    pub(super) durable: bool,
    /// Why there were no cuts.
    pub(super) no_cuts: Option<&'a str>,
    /// Of all random choices.
    pub(super) seed: u64,
    pub(super) page_bytes: u32,
    pub(super) seconds: f64,
}

impl Certificate<'_> {
    /// Returns it.
    pub(super) fn text(&self) -> String {
        let mut out = String::from("\nCERTIFICATE OF TORTURE\n\n");
        let mut line = |name: &str, text: String| {
            let _ = writeln!(out, "{name:<15} {text}");
        };
        line("millpond", env!("CARGO_PKG_VERSION").to_owned());
        line("date", show_date(now_us()));
        for (name, fact) in machine_facts(Some(self.dir), self.durable) {
            line(name, fact);
        }
        let cache = BlockDevice::below(self.dir).and_then(|device| device.write_cache);
        let cache = cache.unwrap_or_else(|| "unknown".to_owned());
        line("device cache", cache);
        line("directory", self.dir.display().to_string());
        line("seed", format!("{}, pages of {}", self.seed, show_size(f64::from(self.page_bytes))));
        line("time", format!("{:.0} s", self.seconds));
        out.push_str(
            "\nShown: one database lived these lives, one after the other. After each it was opened, every\n",
        );
        out.push_str("row and index entry compared, and every page and tree checked.\n\n");
        self.figures(&mut out);
        self.findings(&mut out);
        out.push_str("\nNot shown:\n\n");
        for what in self.not_shown() {
            let _ = writeln!(out, "- {what}");
        }
        out
    }

    fn figures(&self, out: &mut String) {
        let Shown { kills, cuts, in_opening, syncs, left, acknowledged, allowed, in_flight, .. } = self.shown;
        let count = |n: u64| show_count(n as f64);
        let mut line = |name: &str, text: String| {
            let _ = writeln!(out, "{name:<15} {text}");
        };
        line("kills", format!("{kills}, of the process, at random moments"));
        match self.no_cuts {
            None => {
                let blocks = format!("{} of {} unsynced blocks", count(left.blocks), count(left.of_blocks));
                let names =
                    format!("{} of {} changes of directories", count(left.names), count(left.of_names));
                line(
                    "power cuts",
                    format!("{cuts}, with {} syncs before; they kept {blocks} and {names}", count(*syncs)),
                );
            }
            Some(why) => line("power cuts", format!("none: {why}")),
        }
        line("in the opening", format!("{in_opening} of these lives ended before the database was open"));
        line("acknowledged", format!("{} transactions", count(*acknowledged)));
        line(
            "not durable",
            format!("{} of them were acknowledged without a sync, and lost as allowed", count(*allowed)),
        );
        line("in flight", format!("{} were not acknowledged, and are there as a whole", count(*in_flight)));
    }

    fn findings(&self, out: &mut String) {
        let findings = &self.shown.findings;
        let _ = writeln!(out, "{:<15} {}", "findings", findings.len());
        for finding in findings {
            let _ = writeln!(out, "- {finding}");
        }
        if !findings.is_empty() {
            let dir = self.dir.display();
            let _ = writeln!(
                out,
                "evidence: {dir}/before is what that life left, {dir}/disk what opening made of it"
            );
        }
    }

    fn not_shown(&self) -> Vec<&'static str> {
        let mut all = vec![
            "What the device does: its cache cannot be cut from here. A device that answers a sync before the \
             data is safe is not found.",
            "What the file system of this directory keeps after a cut: the cuts are those of a file system of \
             this program that lies over it.",
            "Blocks of 4 KiB that are torn, bytes that decay, writes that go astray.",
            "Commits into mapped memory, in cuts: that file system gives them as calls. The kills have them \
             where the directory is on ext4.",
            "Other options, sizes and loads than those that the seed chose.",
        ];
        if self.no_cuts.is_some() {
            all.push("Power cuts of any kind.");
        }
        all
    }
}
