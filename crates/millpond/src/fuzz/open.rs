//! Fuzz target for opening: damages a whole database as the input says, opens it, checks it, reads
//! it and closes it. It writes no rows. Where the target corrects checksums, pages may contradict
//! each other in ways that only a writer notices, and a writer that finds such a page stops the
//! process on purpose.

use crate::btree::Tree;
use crate::engine::Engine;
use crate::error::Result;
use crate::log::block::{self, BLOCK_BYTES};
use crate::mtr::Mtr;
use crate::options::{Options, Tuning};
use crate::page::header;
use crate::page::node::{Leaf, Version};
use crate::page::op::{PageOp, RowChange, RowOp};
use crate::page_file;
use base::codec::fixed::set_u32;
use base::{TreeId, TxnId, crc};
use metrics::SyncReason;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use vfs::fault::FaultDisk;
use vfs::mem::MemDisk;
use vfs::{Create, Disk, OpenMode, Vfs};

const DIR: &str = "/db";
const TREE: TreeId = TreeId(7);
const PAGE: usize = 4096;
/// The greatest length that a file is extended to.
const LONGEST: usize = 1 << 20;

fn options() -> Options {
    let mut options = Options::new().page_bytes(PAGE).redo_capacity_bytes(1 << 20);
    options.tuning = Tuning {
        segment_blocks: 32,
        ring_blocks: 64,
        grow_pages: 32,
        doublewrite_pages: 4,
        frames: 32,
        ..Tuning::default()
    };
    options
}

/// Paths and contents of files.
type Files = Vec<(PathBuf, Vec<u8>)>;

/// Returns the files of a small database that was killed, and its tree.
fn base_database() -> &'static (Files, Tree) {
    static BASE: OnceLock<(Files, Tree)> = OnceLock::new();
    BASE.get_or_init(|| make_base().expect("a database on a sound disk"))
}

fn make_base() -> Result<(Files, Tree)> {
    let disk = MemDisk::default();
    let engine = Engine::open(&disk.vfs(1), Path::new(DIR), &options())?;
    let tree = Tree::create(&engine.store, TREE)?;
    for n in 0..90u64 {
        insert(&engine, tree, n)?;
        if n == 60 {
            engine.checkpoint()?;
        }
    }
    drop(engine);
    let mut files = Vec::new();
    let mut dirs = vec![PathBuf::from(DIR)];
    while let Some(dir) = dirs.pop() {
        for name in disk.list(&dir).unwrap_or_default() {
            let path = dir.join(name);
            match disk.list(&path) {
                Ok(_) => dirs.push(path),
                Err(_) => files.push((path.clone(), read(&disk, &path))),
            }
        }
    }
    files.sort();
    Ok((files, tree))
}

fn insert(engine: &Engine, tree: Tree, n: u64) -> Result {
    let store = &engine.store;
    let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let value = vec![n as u8; 200 + n as usize % 100];
    store.log.make_room()?;
    let page = tree.leaf_write(store, &key, crate::btree::row_bytes(key.len(), value.len()))?;
    let mut mtr = Mtr::try_begin(&store.log, &store.pool).expect("no other thread writes");
    let slot = mtr.add(page);
    let Err(at) = Leaf::new(mtr.page(slot)).search(&key) else { return Ok(()) };
    let version = Version { txn: TxnId(n + 1), undo_at: 0 };
    let change = RowChange::Insert { flags: 0, value: &value };
    mtr.apply(slot, &PageOp::Row(RowOp { slot: at, tree: tree.id, key: &key, version, change }));
    let lsn = mtr.commit();
    store.log.flush_to(lsn, SyncReason::Commit).map(drop)
}

fn read(disk: &MemDisk, path: &Path) -> Vec<u8> {
    let mode = OpenMode { create: Create::Never, direct: true, read_only: true };
    let file = disk.open(path, mode).expect("it was listed");
    let mut bytes = vec![0; file.len().unwrap_or(0) as usize];
    if !bytes.is_empty() {
        file.read_at(&mut bytes, 0).expect("it is that long");
    }
    bytes
}

/// Reads the input as a script, from front to back.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn number(&mut self, bytes: usize) -> usize {
        let taken = self.bytes(bytes);
        taken.iter().fold(0, |n, b| n << 8 | usize::from(*b))
    }

    fn bytes(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// The input is a list of damages: a kind, a file, a place in it, and new bytes. Some kinds correct
/// the checksums, so that the checks after them are tested too.
pub fn fuzz_open(data: &[u8]) {
    let (files, tree) = base_database();
    let mut files = files.clone();
    let mut script = Script(data);
    for _ in 0..8 {
        if script.0.is_empty() || files.is_empty() {
            break;
        }
        damage(&mut script, &mut files);
    }
    let disk = MemDisk::default();
    if fill(&disk, files).is_ok() {
        // An error is a valid answer, too.
        let vfs = disk.fork().vfs(2);
        // A small device, so that no input can make the engine allocate much of it.
        let disk = FaultDisk::new(Arc::clone(&vfs.disk));
        disk.limit_space("/", 4 * LONGEST as u64);
        let _ = open_and_read(&Vfs { disk: Arc::new(disk), ..vfs }, *tree);
    }
}

fn damage(script: &mut Script<'_>, files: &mut Files) {
    let kind = script.number(1) % 8;
    let which = script.number(1) % files.len();
    let (path, bytes) = &mut files[which];
    let at = script.number(3) % (bytes.len() + 1);
    match kind {
        // Other bytes; with kind 1, checksums are corrected.
        0 | 1 => {
            let n = script.number(1) % 64;
            let new = script.bytes(n);
            let end = (at + new.len()).min(bytes.len());
            bytes[at..end].copy_from_slice(&new[..end - at]);
            if kind == 1 {
                fix_checksum(path, bytes, at);
            }
        }
        // The same for a field near the start of a block, where headers are.
        2 | 3 => {
            let at = at / BLOCK_BYTES * BLOCK_BYTES + script.number(1) % 128;
            let n = script.number(1) % 9;
            let new = script.bytes(n);
            if let Some(field) = bytes.get_mut(at..at + new.len()) {
                field.copy_from_slice(new);
                if kind == 3 {
                    fix_checksum(path, bytes, at);
                }
            }
        }
        // Another length.
        4 => bytes.truncate(at),
        5 => bytes.resize((bytes.len() + at).min(LONGEST), 0),
        // A copy of another block.
        6 => {
            let from = script.number(3) % (bytes.len() + 1) / BLOCK_BYTES * BLOCK_BYTES;
            let to = at / BLOCK_BYTES * BLOCK_BYTES;
            if from.max(to) + BLOCK_BYTES <= bytes.len() {
                bytes.copy_within(from..from + BLOCK_BYTES, to);
            }
        }
        // A missing file, or one with the content of another.
        _ => {
            let other = script.number(1) % files.len();
            if other == which {
                files.remove(which);
            } else {
                files[which].1 = files[other].1.clone();
            }
        }
    }
}

/// Corrects the checksum that covers byte `at`, for any kind of file.
fn fix_checksum(path: &Path, bytes: &mut [u8], at: usize) {
    let from = at / BLOCK_BYTES * BLOCK_BYTES;
    let Some(block) = bytes.get_mut(from..from + BLOCK_BYTES) else { return };
    let is = |name: &str| path.ends_with(name);
    if is("root") {
        let sum = crc::crc32c(&block[..BLOCK_BYTES - 4]);
        set_u32(block, BLOCK_BYTES - 4, sum);
    } else if is("pages") || (is("areas") && from > 0) {
        page_file::set_checksum(block, header::page_no(block));
    } else if is("LOCK") {
        let sum = crc::crc32c(&block[..24]);
        set_u32(block, 24, sum);
    } else if is("areas") {
        let sum = crc::crc32c(&block[..32]);
        set_u32(block, 32, sum);
    } else if from == 0 {
        let sum = crc::crc32c(&block[..40]);
        set_u32(block, 40, sum);
    } else {
        let sum = crc::crc32c(&block[4..block::HEADER_BYTES]);
        set_u32(block, 0, sum);
    }
}

fn fill(disk: &MemDisk, files: Files) -> std::io::Result<()> {
    for dir in ["/db", "/db/redo", "/db/doublewrite", "/db/undo"] {
        disk.create_dir(Path::new(dir))?;
    }
    for (path, bytes) in files {
        let mode = OpenMode { create: Create::IfMissing, direct: true, read_only: false };
        disk.open(&path, mode)?.write_at(&bytes, 0)?;
    }
    Ok(())
}

fn open_and_read(vfs: &Vfs, tree: Tree) -> Result {
    let engine = Engine::open(vfs, Path::new(DIR), &options())?;
    tree.check(&engine.store)?;
    let mut next = Some((tree.leaf_read(&engine.store, &[])?, 0));
    // Damaged leaves may form a cycle.
    for _ in 0..1000 {
        let Some((page, from)) = next.take() else { break };
        let leaf = Leaf::new(&page);
        for i in from..leaf.len() {
            let _ = (leaf.key(i).to_vec(), leaf.row(i).value.to_vec());
        }
        next = tree.leaf_next(&engine.store, page)?;
    }
    drop(next);
    engine.close()
}
