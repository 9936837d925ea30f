//! View of the root: both slots, and which one is valid.

use super::db_dir::DbDir;
use crate::checkpoint::protection::Protection;
use crate::checkpoint::root::{Root, SLOT_BYTES};
use crate::error::{Error, Result};
use base::Lsn;
use base::aligned::AlignedBuf;
use std::fmt::Write;
use std::path::Path;
use vfs::{Create, OpenMode, Vfs};

pub(super) fn view(vfs: &Vfs, dir: &Path) -> Result<String> {
    let db = DbDir::open(vfs, dir)?;
    let path = &db.paths.root;
    let newest = match db.root() {
        Ok(root) => Some(root),
        // Both slots are damaged. They are shown as far as possible.
        Err(Error::Corrupt { .. }) => None,
        Err(other) => return Err(other),
    };
    let mode = OpenMode { create: Create::Never, direct: true, read_only: true };
    let file = db.vfs.disk.open(path, mode).map_err(|e| Error::io("open", path, e))?;
    let mut slots = AlignedBuf::zeroed(2 * SLOT_BYTES);
    file.read_at(&mut slots, 0).map_err(|e| Error::io("read", path, e))?;

    let mut out = format!("{}: {}\n", db.dir.display(), db.in_use.sentence());
    if newest.is_none() {
        writeln!(out, "DAMAGED: neither slot of the root is whole; the database cannot be opened").unwrap();
    }
    for (n, slot) in slots.chunks(SLOT_BYTES).enumerate() {
        let at = n * SLOT_BYTES;
        match Root::decode(slot) {
            None if slot.iter().all(|b| *b == 0) => {
                writeln!(out, "slot {n}, at {at}: never written").unwrap();
            }
            None => {
                writeln!(out, "slot {n}, at {at}: NOT WHOLE (torn, damaged, or impossible)").unwrap();
            }
            Some(root) => {
                let counts = newest.as_ref() == Some(&root);
                let verdict = if counts { "whole, the newer one: it counts" } else { "whole, the older one" };
                writeln!(out, "slot {n}, at {at}: {verdict}").unwrap();
                fields(&root, &mut out);
            }
        }
    }
    Ok(out)
}

fn fields(root: &Root, out: &mut String) {
    let mut line = |name: &str, value: String| writeln!(out, "  {name:<18}{value}").unwrap();
    line("database", format!("{:016x}", root.db_id));
    line("page bytes", root.page_bytes.to_string());
    line("sequence", root.sequence.to_string());
    line("checkpoint LSN", root.checkpoint.to_string());
    line(
        "checkpoint record",
        match root.record {
            Lsn::MAX => "none".to_owned(),
            lsn => format!("LSN {lsn}"),
        },
    );
    line("durable LSN", root.durable.to_string());
    line("closed", if root.clean { "cleanly".to_owned() } else { "not (open, or cut off)".to_owned() });
    let doublewrite = match root.protection {
        Protection::On => "on",
        Protection::Off => "OFF: a power cut may tear pages that cannot be restored",
        Protection::WasOff => "on; it was OFF before a crash, and redo of then is left",
    };
    line("doublewrite", doublewrite.to_owned());
    let purposes = [("redo", &root.dirs.redo), ("doublewrite", &root.dirs.doublewrite)];
    for (what, dirs) in purposes {
        if let Some(now) = &dirs.now {
            line(&format!("{what} in"), now.display().to_string());
        }
        if let Some(before) = &dirs.before {
            line("  and still in", before.display().to_string());
        }
    }
    line("segment blocks", root.segment_blocks.to_string());
    line("log buffer blocks", root.ring_blocks.to_string());
    line(
        "replay rate",
        match root.replay_rate {
            0 => "not measured yet".to_owned(),
            rate => format!("{rate} bytes a second"),
        },
    );
    for epoch in &root.epochs {
        line("epoch", format!("{} from LSN {}", epoch.epoch, epoch.first));
    }
}
