//! The root: two slots, of which the newer valid one says where recovery starts.
//!
//! ```text
//! slot at 0 and at 4096, each 4,096 bytes, little-endian: 0   magic "MILLPOND"           8
//! format u16 | 0 u16   12  page bytes u32 16  database id u64            24  sequence u64
//! 32  checkpoint LSN u64 40  checkpoint record LSN u64  48  durable LSN u64      56  segment
//! blocks u32 60  ring blocks u32 64  clean shutdown u8 | protection u8 | 0 ×2 | number of epochs
//! u32     72  replay rate, bytes a second u64 104 epochs: epoch u32, 0 u32, first LSN u64 each
//! 2024 directories, 2,048 bytes: `directories` 4092 crc32c of the slot before it
//! ```
//! A slot is written over the older one and synced, so a torn write loses only the new slot.

use super::directories::{DIRS_BYTES, RootDirs};
use super::protection::Protection;
use crate::error::{Error, Result};
use crate::log::block::PAYLOAD_BYTES;
use crate::log::group::GROUP_BYTES_MAX;
use crate::log::reader::EpochStart;
use crate::planted::{Bug, planted};
use crate::role;
use base::aligned::AlignedBuf;
use base::codec::fixed::{get_u16, get_u32, get_u64, set_u16, set_u32, set_u64};
use base::{Lsn, crc};
use metrics::{FileKind, Metrics, SyncReason};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::{Create, File, OpenMode, Vfs};

const MAGIC: &[u8; 8] = b"MILLPOND";
/// The format that this program writes, and the only one that it reads.
pub(crate) const FORMAT: u16 = 9;
/// Bytes of a slot.
pub(crate) const SLOT_BYTES: usize = 4096;
const EPOCHS_AT: usize = 104;
const EPOCH_BYTES: usize = 16;
/// The longest segment, 256 MiB: a new segment is written as a whole.
const SEGMENT_BLOCKS_MAX: u64 = 1 << 16;
/// A log buffer holds two of the longest groups.
const RING_BLOCKS_MIN: usize = (2 * GROUP_BYTES_MAX).div_ceil(PAYLOAD_BYTES);
/// The largest log buffer, 256 MiB: it is memory.
const RING_BLOCKS_MAX: usize = 1 << 16;
/// Epochs that a slot can list. Each is a crash since the checkpoint passed the epoch before.
pub(crate) const EPOCHS_MAX: usize = 120;
/// After the epochs.
const DIRS_AT: usize = EPOCHS_AT + EPOCHS_MAX * EPOCH_BYTES;
const _: () = assert!(DIRS_AT + DIRS_BYTES <= SLOT_BYTES - 4);

/// The content of a root slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    /// The id of the database, which is in every file.
    pub db_id: u64,
    /// Page size.
    pub page_bytes: usize,
    /// Blocks of a log segment.
    pub segment_blocks: u64,
    /// Blocks of the log buffer: the window W.
    pub ring_blocks: usize,
    /// Grows with every slot written.
    pub sequence: u64,
    /// Recovery replays from here.
    pub checkpoint: Lsn,
    /// Where the list of unfinished transactions of the checkpoint begins; [`Lsn::MAX`] if there is
    /// none.
    pub record: Lsn,
    /// The log is known to be durable up to here.
    pub durable: Lsn,
    /// The database was closed: nothing follows `durable`.
    pub clean: bool,
    /// Whether pages may be torn in place without a copy.
    pub protection: Protection,
    /// Where the log and the doublewrite are, if they were moved.
    pub dirs: RootDirs,
    /// How fast earlier recoveries replayed redo, bytes a second; 0 if none had enough redo to
    /// tell.
    pub replay_rate: u64,
    /// The list of unfinished transactions says all about the log below.
    pub undo_from: Lsn,
    /// The list of dirty pages, if there is one from after the checkpoint.
    pub dirty: Option<DirtyListAt>,
    /// Epochs whose blocks lie at or above the checkpoint, by position.
    pub epochs: Vec<EpochStart>,
}

/// Where a list of dirty pages is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirtyListAt {
    /// The LSN of its first record.
    pub record: Lsn,
    /// It names every page that lacks redo from below.
    pub from: Lsn,
}

impl Root {
    /// Returns where the log begins that an opening must read: the lists say what it needs of the
    /// log before.
    pub(crate) fn read_from(&self) -> Lsn {
        let pages_from = self.dirty.map_or(self.checkpoint, |list| list.from.max(self.checkpoint));
        self.undo_from.min(pages_from)
    }

    fn encode(&self) -> AlignedBuf {
        assert!(!self.epochs.is_empty() && self.epochs.len() <= EPOCHS_MAX);
        let mut s = AlignedBuf::zeroed(SLOT_BYTES);
        s[..8].copy_from_slice(MAGIC);
        set_u16(&mut s, 8, FORMAT);
        set_u32(&mut s, 12, self.page_bytes as u32);
        set_u64(&mut s, 16, self.db_id);
        set_u64(&mut s, 24, self.sequence);
        set_u64(&mut s, 32, self.checkpoint.0);
        set_u64(&mut s, 40, self.record.0);
        set_u64(&mut s, 48, self.durable.0);
        set_u32(&mut s, 56, self.segment_blocks as u32);
        set_u32(&mut s, 60, self.ring_blocks as u32);
        s[64] = u8::from(self.clean);
        s[65] = self.protection as u8;
        set_u32(&mut s, 68, self.epochs.len() as u32);
        set_u64(&mut s, 72, self.replay_rate);
        set_u64(&mut s, 80, self.undo_from.0);
        let DirtyListAt { record, from } =
            self.dirty.unwrap_or(DirtyListAt { record: Lsn::MAX, from: Lsn::ZERO });
        set_u64(&mut s, 88, record.0);
        set_u64(&mut s, 96, from.0);
        for (n, epoch) in self.epochs.iter().enumerate() {
            set_u32(&mut s, EPOCHS_AT + n * EPOCH_BYTES, epoch.epoch);
            set_u64(&mut s, EPOCHS_AT + n * EPOCH_BYTES + 8, epoch.first.0);
        }
        self.dirs.encode(&mut s[DIRS_AT..DIRS_AT + DIRS_BYTES]);
        let crc = crc::crc32c(&s[..SLOT_BYTES - 4]);
        set_u32(&mut s, SLOT_BYTES - 4, crc);
        // Without a readable root the database is lost. The check costs nothing compared with the
        // sync.
        base::check!(Root::decode(&s).as_ref() == Some(self), "{self:?} is not read back");
        s
    }

    /// Decodes a slot; `None` if it is not whole or makes no sense.
    pub(crate) fn decode(s: &[u8]) -> Option<Root> {
        if &s[..8] != MAGIC || get_u32(s, SLOT_BYTES - 4) != crc::crc32c(&s[..SLOT_BYTES - 4]) {
            return None;
        }
        let count = get_u32(s, 68) as usize;
        if count == 0 || count > EPOCHS_MAX {
            return None;
        }
        let epochs = (0..count)
            .map(|n| EPOCHS_AT + n * EPOCH_BYTES)
            .map(|at| EpochStart { epoch: get_u32(s, at), first: Lsn(get_u64(s, at + 8)) })
            .collect::<Vec<_>>();
        let root = Root {
            page_bytes: get_u32(s, 12) as usize,
            db_id: get_u64(s, 16),
            sequence: get_u64(s, 24),
            checkpoint: Lsn(get_u64(s, 32)),
            record: Lsn(get_u64(s, 40)),
            durable: Lsn(get_u64(s, 48)),
            segment_blocks: u64::from(get_u32(s, 56)),
            ring_blocks: get_u32(s, 60) as usize,
            clean: s[64] != 0,
            protection: Protection::decode(s[65])?,
            dirs: RootDirs::decode(&s[DIRS_AT..DIRS_AT + DIRS_BYTES])?,
            replay_rate: get_u64(s, 72),
            undo_from: Lsn(get_u64(s, 80)),
            dirty: Some(DirtyListAt { record: Lsn(get_u64(s, 88)), from: Lsn(get_u64(s, 96)) })
                .filter(|list| list.record != Lsn::MAX),
            epochs,
        };
        let sound = [4096, 8192, 16384].contains(&root.page_bytes)
            && (1..=SEGMENT_BLOCKS_MAX).contains(&root.segment_blocks)
            && root.ring_blocks.is_power_of_two()
            && (RING_BLOCKS_MIN..=RING_BLOCKS_MAX).contains(&root.ring_blocks)
            && root.epochs.is_sorted_by_key(|e| e.first)
            && root.epochs[0].first <= root.checkpoint
            && (root.checkpoint..=root.durable).contains(&root.undo_from)
            && root.dirty.is_none_or(|list| list.from <= list.record && list.record < root.durable)
            && root.checkpoint <= root.durable;
        sound.then_some(root)
    }
}

/// The file of the root.
#[derive(Debug)]
pub(crate) struct RootFile {
    vfs: Vfs,
    path: PathBuf,
    file: Arc<dyn File>,
    metrics: Arc<Metrics>,
}

impl RootFile {
    /// Opens the root and reads the newer valid slot. `None` if the file does not exist. An error
    /// if the file is damaged, or of another program or format.
    pub(crate) fn open(vfs: &Vfs, path: &Path, metrics: &Arc<Metrics>) -> Result<Option<(RootFile, Root)>> {
        let mode = OpenMode { create: Create::Never, direct: true, read_only: false };
        let file = match vfs.disk.open(path, mode) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("open", path, e)),
        };
        let len = file.len().map_err(|e| Error::io("measure", path, e))?;
        let mut bytes = AlignedBuf::zeroed(2 * SLOT_BYTES);
        if len < bytes.len() as u64 {
            return Err(Error::Foreign {
                file: path.to_owned(),
                what: "is not the root of a database".into(),
            });
        }
        file.read_at(&mut bytes, 0).map_err(|e| Error::io("read", path, e))?;
        let slots = [&bytes[..SLOT_BYTES], &bytes[SLOT_BYTES..]];
        for slot in slots {
            let whole = get_u32(slot, SLOT_BYTES - 4) == crc::crc32c(&slot[..SLOT_BYTES - 4]);
            if &slot[..8] == MAGIC && whole && get_u16(slot, 8) != FORMAT {
                return Err(Error::other_format(path, get_u16(slot, 8).into(), FORMAT.into()));
            }
        }
        if slots.iter().all(|s| &s[..8] != MAGIC && s.iter().any(|b| *b != 0)) {
            return Err(Error::Foreign {
                file: path.to_owned(),
                what: "is not the root of a database".into(),
            });
        }
        let newest = slots.iter().filter_map(|s| Root::decode(s)).max_by_key(|r| r.sequence);
        let Some(root) = newest else {
            return Err(Error::corrupt(path, "neither of its two slots is whole"));
        };
        let file = RootFile { vfs: vfs.clone(), path: path.to_owned(), file, metrics: Arc::clone(metrics) };
        Ok(Some((file, root)))
    }

    /// Creates the file with `root` in it, under another name first, so that the file exists as a
    /// whole or not at all. The caller syncs the directory.
    pub(crate) fn create(vfs: &Vfs, path: &Path, root: &Root, metrics: &Arc<Metrics>) -> Result {
        let draft = path.with_extension("new");
        Self::write_draft(vfs, &draft, root, metrics)?;
        vfs.disk.rename(&draft, path).map_err(|e| Error::io("rename", &draft, e))
    }

    fn write_draft(vfs: &Vfs, path: &Path, root: &Root, metrics: &Arc<Metrics>) -> Result {
        let mode = OpenMode { create: Create::IfMissing, direct: true, read_only: false };
        let file = vfs.disk.open(path, mode).map_err(|e| Error::io("create", path, e))?;
        let this = RootFile { vfs: vfs.clone(), path: path.to_owned(), file, metrics: Arc::clone(metrics) };
        let both = AlignedBuf::zeroed(2 * SLOT_BYTES);
        this.file.write_at(&both, 0).map_err(|e| Error::io("write", path, e))?;
        this.write(root, SyncReason::Create)
    }

    /// Writes `root` over the older slot and syncs it. An error is fatal: the caller poisons.
    pub(crate) fn write(&self, root: &Root, reason: SyncReason) -> Result {
        let at = (root.sequence % 2) * SLOT_BYTES as u64;
        self.file.write_at(&root.encode(), at).map_err(|e| Error::io("write", &self.path, e))?;
        let start = self.vfs.clock.now_us();
        if !planted(Bug::NoRootSync) {
            self.file.sync().map_err(|e| Error::io("sync", &self.path, e))?;
        }
        self.metrics.fsync(FileKind::Root, reason, self.vfs.clock.now_us() - start, role::callers());
        Ok(())
    }
}
