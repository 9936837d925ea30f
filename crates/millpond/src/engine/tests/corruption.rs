//! One flipped bit anywhere in a small database: opening, checking and reading either name the
//! damage or give exactly the rows that were put. Nothing panics or hangs, and no answer is wrong.
//!
//! Which damage may go unnoticed is derived, not listed. Damage in a page that the space map calls
//! used must be named, or repaired in the file. Damage in the log may end it early, but not below
//! the durable LSN that an undamaged block or the root names (see `docs/media.md`, "What cannot be
//! told apart").

use super::faults::thread_panics;
use super::{DIR, TREE, model, put, row, rows};
use crate::btree::Tree;
use crate::checkpoint::root::{Root, SLOT_BYTES};
use crate::engine::Engine;
use crate::error::Error;
use crate::flush::runs::BatchLimit;
use crate::log::block::{BLOCK_BYTES, BlockHeader, HEADER_BYTES};
use crate::options::Options;
use crate::page::{header, map};
use crate::page_file::{check_image, set_checksum};
use base::codec::fixed::set_u32;
use base::prng::Prng;
use base::{Lsn, PageNo, TreeId};
use metrics::{Force, SyncReason};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use vfs::mem::MemDisk;
use vfs::{Create, Disk, OpenMode};

const SEED: u64 = 21;
const PAGE: usize = 4096;

/// As in the other tests, with the smallest files.
fn options() -> Options {
    let mut options = super::options();
    options.tuning.segment_blocks = 32;
    options.tuning.grow_pages = 32;
    options.tuning.doublewrite_pages = 4;
    options
}

/// How a database was left.
#[derive(Clone, Copy, Debug)]
enum End {
    /// Killed soon after the second opening.
    JustOpened,
    /// Killed after the second opening, with a checkpoint and redo after it.
    Running,
    /// Closed.
    Closed,
}

struct Small {
    disk: MemDisk,
    tree: Tree,
    /// The start of each put's group.
    lsns: Vec<Lsn>,
    used: BTreeSet<PageNo>,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

fn small(end: End) -> Small {
    let disk = MemDisk::default();
    let open = || Engine::open(&disk.vfs(1), Path::new(DIR), &options()).unwrap();
    let engine = open();
    let tree = Tree::create(&engine.store, TREE).unwrap();
    let mut lsns = Vec::new();
    let mut some = |engine: &Engine, n: u64| {
        for n in lsns.len() as u64..lsns.len() as u64 + n {
            let (key, value) = row(SEED, n);
            let lsn = put(engine, tree, n, &key, &value).unwrap();
            engine.store.log.flush_to(lsn, SyncReason::Commit).unwrap();
            lsns.push(lsn);
        }
    };
    some(&engine, 60);
    engine.checkpoint().unwrap();
    some(&engine, 30);
    drop(engine);
    let engine = open();
    some(&engine, 1);
    if !matches!(end, End::JustOpened) {
        some(&engine, 19);
        engine.checkpoint().unwrap();
        some(&engine, 20);
    }
    let used = engine.store.space.used_pages().unwrap().into_values().flatten().collect();
    match end {
        End::Closed => engine.close().unwrap(),
        End::JustOpened | End::Running => drop(engine),
    }
    let disk = disk.fork();
    let files = files(&disk);
    Small { disk, tree, lsns, used, files }
}

/// Returns every file below the database's directory.
fn files(disk: &MemDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![PathBuf::from(DIR)];
    while let Some(dir) = dirs.pop() {
        for name in disk.list(&dir).unwrap() {
            let path = dir.join(name);
            if disk.list(&path).is_ok() {
                dirs.push(path);
            } else {
                let bytes = read(disk, &path);
                found.insert(path, bytes);
            }
        }
    }
    found
}

fn read(disk: &MemDisk, path: &Path) -> Vec<u8> {
    let mode = OpenMode { create: Create::Never, direct: true, read_only: true };
    let file = disk.open(path, mode).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    if !bytes.is_empty() {
        file.read_at(&mut bytes, 0).unwrap();
    }
    bytes
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "log")
}

impl Small {
    /// Returns the highest LSN that an undamaged log block or the newest undamaged root names as
    /// durable.
    fn durable_elsewhere(&self, damaged: &Path, at: usize) -> Lsn {
        let intact =
            |path: &Path, from: usize, len: usize| path != damaged || !(from..from + len).contains(&at);
        let mut durable = Lsn::ZERO;
        for (path, bytes) in self.files.iter().filter(|(path, _)| is_log(path)) {
            for (n, block) in bytes.chunks_exact(BLOCK_BYTES).enumerate().skip(1) {
                if let Some(header) = BlockHeader::decode(block)
                    && intact(path, n * BLOCK_BYTES, HEADER_BYTES)
                {
                    durable = durable.max(header.durable);
                }
            }
        }
        let root = Path::new(DIR).join("root");
        let slots = self.files[&root].chunks_exact(SLOT_BYTES).enumerate();
        let roots = slots.filter(|(n, _)| intact(&root, n * SLOT_BYTES, SLOT_BYTES));
        let newest = roots.filter_map(|(_, slot)| Root::decode(slot)).max_by_key(|root| root.sequence);
        durable.max(newest.map_or(Lsn::ZERO, |root| root.durable))
    }

    /// Flips bits of one byte. Returns whether the damage was named.
    fn flip(&self, path: &Path, at: usize, mask: u8) -> bool {
        let image = self.disk.fork();
        image.flip(path, at as u64, mask).unwrap();
        let mut options = options();
        // Damage is found before the database is open, or by replay a moment later.
        options.tuning.replay_first = at.is_multiple_of(2);
        let engine = match Engine::open(&image.vfs(2), Path::new(DIR), &options) {
            Ok(engine) => engine,
            Err(error) => return self.named(path, &error),
        };
        match self.tree.check(&engine.store) {
            Ok(check) if check.problems.is_empty() => {}
            Ok(_) => return true,
            Err(error) => return self.named(path, &error),
        }
        let found = match rows(&engine, self.tree) {
            Ok(found) => found,
            Err(error) => return self.named(path, &error),
        };
        let number = |v: &Vec<u8>| u64::from_be_bytes(v[..8].try_into().unwrap()) + 1;
        let newest = found.values().map(number).max().unwrap_or(0);
        let durable_elsewhere = self.durable_elsewhere(path, at);
        let promised = self.lsns.partition_point(|lsn| *lsn < durable_elsewhere) as u64;
        assert!(newest >= promised, "{newest} puts found, but {promised} lie below LSN {durable_elsewhere}");
        assert!(is_log(path) || newest == self.lsns.len() as u64, "{newest} puts found");
        assert!(found == model(SEED, newest), "the rows are not those of {newest} puts");
        if let Err(error) = engine.close() {
            return self.named(path, &error);
        }
        let page = PageNo((at / PAGE) as u32);
        if path.ends_with("pages") && (page.0 < 2 || self.used.contains(&page)) {
            let bytes = read(&image, path);
            let whole = check_image(&mut bytes[page.0 as usize * PAGE..][..PAGE].to_vec(), page);
            assert!(whole.is_ok(), "{page:?} is in use, and its damage was neither named nor repaired");
        }
        false
    }

    /// Checks that an error from damage says so and names the place.
    fn named(&self, path: &Path, error: &Error) -> bool {
        let file = match error {
            Error::Corrupt { file, .. } | Error::Foreign { file, .. } => file,
            Error::Poisoned { first } => {
                let file = first.split_once(" is damaged: ").expect("damage alone poisons").0;
                Path::new(file)
            }
            _ => panic!("damage is no reason for: {error}"),
        };
        // If the newest root slot is damaged, the log shows that the other one is too old.
        let same = path.starts_with(file) || file.parent() == path.parent() || path.ends_with("root");
        assert!(same, "the damage is elsewhere than in: {error}");
        true
    }
}

/// Flips bits in every `stride`-th byte; in every byte with MILLPOND_FLIP_STRIDE=1.
fn flip_everywhere(end: End, stride: usize) {
    let stride = std::env::var("MILLPOND_FLIP_STRIDE").map_or(stride, |s| s.parse().expect("a number"));
    let panics = thread_panics();
    let small = small(end);
    let mut rng = Prng::new(end as u64);
    let (mut named, mut harmless, mut wrong) = (0u64, 0u64, Vec::new());
    for (path, bytes) in &small.files {
        let mut at = rng.below(stride as u64) as usize;
        while at < bytes.len() {
            let mask = 1 << rng.below(8);
            match catch_unwind(AssertUnwindSafe(|| small.flip(path, at, mask))) {
                Ok(true) => named += 1,
                Ok(false) => harmless += 1,
                Err(_) => wrong.push(format!("{end:?}: {} at {at}, bits {mask:#x}", path.display())),
            }
            // Roots are short, and every byte of them counts.
            at += if path.ends_with("root") { stride.div_ceil(16) } else { stride };
        }
    }
    println!("{end:?}: {named} named, {harmless} harmless");
    assert!(wrong.is_empty(), "{} wrong: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
    assert!(named > 0 && harmless > 0);
    assert_eq!(thread_panics(), panics, "an engine thread panicked");
}

#[test]
fn one_flipped_bit_in_a_database_that_was_just_opened() {
    flip_everywhere(End::JustOpened, 1009);
}

#[test]
fn one_flipped_bit_in_a_database_that_was_running() {
    flip_everywhere(End::Running, 1013);
}

#[test]
fn one_flipped_bit_in_a_database_that_was_closed() {
    flip_everywhere(End::Closed, 1019);
}

/// An epoch that has not taken a checkpoint yet is known only to the newer root slot. With that
/// slot damaged, the older one was once used. Its epochs ended where the last epoch began, and the
/// log seemed to end there too.
#[test]
fn a_damaged_root_slot_does_not_hide_the_last_epoch_of_the_log() {
    let small = small(End::JustOpened);
    let root = Path::new(DIR).join("root");
    let slots = small.files[&root].chunks_exact(SLOT_BYTES);
    let newest = slots.enumerate().max_by_key(|(_, slot)| Root::decode(slot).unwrap().sequence).unwrap().0;
    let image = small.disk.fork();
    image.flip(&root, (newest * SLOT_BYTES + 100) as u64, 1).unwrap();
    let error = Engine::open(&image.vfs(2), Path::new(DIR), &options()).expect_err("a put is missing");
    assert!(
        matches!(&error, Error::Corrupt { what, .. } if what.contains("the root does not know")),
        "{error}"
    );
}

/// A map page with a valid checksum calls a page used in an extent without an owner. The extent was
/// once taken as free, and the first mini-transaction that took the page from it stopped the
/// process.
#[test]
fn a_contradiction_in_the_space_map_is_named() {
    let small = small(End::Closed);
    let image = small.disk.fork();
    let path = Path::new(DIR).join("pages");
    let mut page = small.files[&path][PAGE..2 * PAGE].to_vec();
    let free = (1..).find(|index| map::extent(&page, *index).tree == TreeId::NONE).unwrap();
    map::set_used_for_test(&mut page, free, 1);
    set_checksum(&mut page, PageNo(1));
    overwrite(&image, &path, PAGE, &page);
    let error = Engine::open(&image.vfs(2), Path::new(DIR), &options()).expect_err("it is damaged");
    assert!(matches!(&error, Error::Corrupt { what, .. } if what.contains("free extent")), "{error}");
}

/// Impossible sizes in a root with a valid checksum. The engine once asked for terabytes of log
/// buffer, or made one too small for a group.
#[test]
fn a_root_of_impossible_sizes_is_refused() {
    let small = small(End::Closed);
    let path = Path::new(DIR).join("root");
    for (field, value) in [(56, 0), (56, u32::MAX), (60, 1), (60, 1 << 31)] {
        let image = small.disk.fork();
        let mut root = small.files[&path].clone();
        for slot in root.chunks_exact_mut(SLOT_BYTES) {
            set_u32(slot, field, value);
            let crc = base::crc::crc32c(&slot[..SLOT_BYTES - 4]);
            set_u32(slot, SLOT_BYTES - 4, crc);
        }
        overwrite(&image, &path, 0, &root);
        let error = Engine::open(&image.vfs(2), Path::new(DIR), &options()).expect_err("it is impossible");
        assert!(matches!(&error, Error::Corrupt { .. }), "{error}");
    }
}

/// A valid page image in the doublewrite whose number lies far beyond the file. It was once
/// restored there, which made a file of terabytes.
#[test]
fn a_copy_of_a_page_far_beyond_the_file_is_not_restored() {
    let small = small(End::Running);
    let areas = Path::new(DIR).join("doublewrite/areas");
    let mut page = small.files[&areas][PAGE..2 * PAGE].to_vec();
    header::set_page_no(&mut page, PageNo(1 << 30));
    set_checksum(&mut page, PageNo(1 << 30));
    let image = small.disk.fork();
    overwrite(&image, &areas, PAGE, &page);
    let error = Engine::open(&image.vfs(2), Path::new(DIR), &options()).expect_err("it is damaged");
    assert!(error.to_string().contains("/db/pages is damaged: it ends before"), "{error}");
}

/// A device that acknowledges a write and does not make it.
#[test]
fn a_lost_write_is_named_before_the_checkpoint_passes_its_redo() {
    let disk = MemDisk::default();
    let mut options = options();
    options.tuning.no_threads = true;
    let engine = Engine::open(&disk.vfs(1), Path::new(DIR), &options).unwrap();
    let tree = Tree::create(&engine.store, TREE).unwrap();
    put(&engine, tree, 1, b"key", b"first").unwrap();
    engine.checkpoint().unwrap();
    let before = pages_file(&disk);
    put(&engine, tree, 2, b"key", b"second").unwrap();
    let root = |_| vec![tree.root];
    engine.parts.flusher.flush(root, BatchLimit::NONE, Force::CheckpointAge).unwrap();
    let (path, at) = (Path::new(DIR).join("pages"), tree.root.0 as usize * 4096);
    overwrite(&disk, &path, at, &before[at..at + 4096]);
    let checkpoint = engine.parts.cleaner.checkpoints.checkpointer().lsn();
    let error = engine.checkpoint().unwrap_err();
    assert!(error.to_string().contains("a write was lost"), "{error}");
    assert_eq!(engine.parts.cleaner.checkpoints.checkpointer().lsn(), checkpoint);
    drop(engine);
    // The redo is still there.
    let engine = Engine::open(&disk.fork().vfs(2), Path::new(DIR), &super::options()).unwrap();
    assert_eq!(rows(&engine, tree).unwrap(), super::Rows::from([(b"key".to_vec(), b"second".to_vec())]));
}

fn pages_file(disk: &MemDisk) -> Vec<u8> {
    let mode = OpenMode { create: Create::Never, direct: true, read_only: true };
    let file = disk.open(&Path::new(DIR).join("pages"), mode).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

fn overwrite(disk: &MemDisk, path: &Path, at: usize, bytes: &[u8]) {
    let mode = OpenMode { create: Create::Never, direct: true, read_only: false };
    disk.open(path, mode).unwrap().write_at(bytes, at as u64).unwrap();
}
