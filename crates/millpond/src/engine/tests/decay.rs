//! Pages that are damaged after many checkpoints. Each page of a small database is damaged in
//! several ways, and the database is opened. The damaged page is named, or it comes back as it was.
//! An older version is never accepted, unless nothing on the disk can tell it from the last.
//!
//! The doublewrite keeps a copy until its slot is used again. A large batch fills the high slots,
//! and small batches later use only the low ones. So copies of very different age lie side by side.

use super::{DIR, Rows, TREE, options as common, put, rows};
use crate::btree::Tree;
use crate::checkpoint::root::{Root, SLOT_BYTES};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::flush::runs::BatchLimit;
use crate::options::Options;
use crate::page::header;
use crate::page_file::check_image;
use base::prng::Prng;
use base::{Lsn, PageNo};
use metrics::{Force, SyncReason};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::fault::FaultDisk;
use vfs::mem::{ManualClock, MemDisk};
use vfs::{Create, Disk, OpenMode, Vfs};

const PAGE: usize = 4096;
/// Rows of 700 bytes at the start.
const ROWS: u64 = 200;

fn options() -> Options {
    let mut options = common();
    options.tuning.grow_pages = 32;
    options.tuning.frames = 128;
    options.tuning.no_threads = true;
    options
}

fn pages_path() -> PathBuf {
    Path::new(DIR).join("pages")
}

fn areas_path() -> PathBuf {
    Path::new(DIR).join("doublewrite/areas")
}

fn open_at(disk: &FaultDisk) -> Result<Engine> {
    let vfs = Vfs { disk: Arc::new(disk.clone()), clock: Arc::new(ManualClock::new(2)) };
    Engine::open(&vfs, Path::new(DIR), &options())
}

fn read(disk: &MemDisk, path: &Path) -> Vec<u8> {
    let mode = OpenMode { create: Create::Never, direct: true, read_only: true };
    let file = disk.open(path, mode).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

fn page_of(bytes: &[u8], page: PageNo) -> Option<&[u8]> {
    bytes.get(page.0 as usize * PAGE..(page.0 as usize + 1) * PAGE)
}

/// Returns the LSN of a page, if its image is valid.
fn lsn_of(bytes: &[u8], page: PageNo) -> Option<Lsn> {
    let image = page_of(bytes, page)?;
    check_image(&mut image.to_vec(), page).is_ok().then(|| header::lsn(image))
}

/// A database that was changed and checkpointed many times.
struct Old {
    disk: MemDisk,
    tree: Tree,
    rows: Rows,
    checkpoint: Lsn,
    /// The contents of `pages` after some of the checkpoints, and at the end.
    versions: Vec<Vec<u8>>,
    /// Pages with a valid image.
    pages: Vec<PageNo>,
    /// The process was killed, so redo beyond the checkpoint names some of the pages.
    killed: bool,
}

/// Makes an old database. With `killed`, more rows are put after the last checkpoint, some pages
/// are written in place, and the process is killed.
fn old(checkpoints: u64, killed: bool) -> Old {
    let disk = MemDisk::default();
    let mut engine = Engine::open(&disk.vfs(1), Path::new(DIR), &options()).unwrap();
    let tree = Tree::create(&engine.store, TREE).unwrap();
    let mut rng = Prng::new(checkpoints);
    let (mut model, mut n) = (Rows::new(), 0);
    let mut some = |engine: &Engine, from: u64, count: u64, rng: &mut Prng| {
        for at in from..from + count {
            let key = (at % ROWS).to_be_bytes().to_vec();
            let mut value = vec![0; 700];
            rng.fill(&mut value);
            let lsn = put(engine, tree, n, &key, &value).unwrap();
            engine.store.log.flush_to(lsn, SyncReason::Commit).unwrap();
            n += 1;
            model.insert(key, value);
        }
    };
    let mut versions = Vec::new();
    some(&engine, 0, ROWS, &mut rng);
    for checkpoint in 0..checkpoints {
        // Mostly small batches, sometimes a large one.
        let count = if rng.one_in(6) { 60 } else { rng.between(1, 8) };
        let from = rng.below(ROWS);
        some(&engine, from, count, &mut rng);
        engine.checkpoint().unwrap();
        if checkpoint % 5 == 0 {
            versions.push(read(&disk, &pages_path()));
        }
        if rng.one_in(4) {
            engine.close().unwrap();
            engine = Engine::open(&disk.vfs(1), Path::new(DIR), &options()).unwrap();
        }
    }
    if killed {
        some(&engine, 10, 30, &mut rng);
        let written: Vec<_> = engine.store.pool.oldest_dirty(Lsn::MAX, 6);
        let written: Vec<_> = written.into_iter().map(|(page, _)| page).collect();
        engine.parts.flusher.flush(|_| written, BatchLimit::NONE, Force::Shutdown).unwrap();
        some(&engine, 10, 5, &mut rng);
        drop(engine);
    } else {
        engine.close().unwrap();
    }
    let disk = disk.fork();
    let now = read(&disk, &pages_path());
    let pages = (0..(now.len() / PAGE) as u32).map(PageNo).filter(|page| lsn_of(&now, *page).is_some());
    let pages = pages.collect();
    versions.push(now);
    let root = read(&disk, &Path::new(DIR).join("root"));
    let roots = root.chunks_exact(SLOT_BYTES).filter_map(Root::decode);
    let checkpoint = roots.max_by_key(|root| root.sequence).unwrap().checkpoint;
    Old { disk, tree, rows: model, checkpoint, versions, pages, killed }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    Zeroed,
    OneBit,
    Random,
    /// The first half is from an older version, or zeros.
    Torn,
    Header,
    /// A whole older version.
    Older,
    AnothersContent,
    Unreadable,
    /// The file ends at this page.
    CutOff,
}

const DAMAGES: [Damage; 9] = [
    Damage::Zeroed,
    Damage::OneBit,
    Damage::Random,
    Damage::Torn,
    Damage::Header,
    Damage::Older,
    Damage::AnothersContent,
    Damage::Unreadable,
    Damage::CutOff,
];

#[derive(Clone, Copy, Debug, Default)]
struct Outcomes {
    named: u32,
    whole: u32,
    /// An older version that nothing on the disk tells from the last one.
    undetectable: u32,
}

impl Old {
    fn now(&self) -> &[u8] {
        self.versions.last().unwrap()
    }

    /// Returns the newest older version of the page.
    fn older(&self, page: PageNo) -> Option<&[u8]> {
        let now = lsn_of(self.now(), page)?;
        let older = self.versions.iter().rev().filter(|v| lsn_of(v, page).is_some_and(|lsn| lsn < now));
        older.map(|v| page_of(v, page).unwrap()).next()
    }

    /// Damages a page in the given way. Returns false if this page cannot be damaged so.
    fn damage(&self, image: &FaultDisk, page: PageNo, damage: Damage, rng: &mut Prng) -> bool {
        let mode = OpenMode { create: Create::Never, direct: true, read_only: false };
        let file = image.open(&pages_path(), mode).unwrap();
        let offset = u64::from(page.0) * PAGE as u64;
        let mut bytes = page_of(self.now(), page).unwrap().to_vec();
        match damage {
            Damage::Zeroed => bytes.fill(0),
            Damage::OneBit => bytes[rng.below(PAGE as u64) as usize] ^= 1 << rng.below(8),
            Damage::Random => rng.fill(&mut bytes),
            Damage::Torn => match self.older(page) {
                Some(older) => bytes[..PAGE / 2].copy_from_slice(&older[..PAGE / 2]),
                None => bytes[..PAGE / 2].fill(0),
            },
            Damage::Header => rng.fill(&mut bytes[..header::HEADER_BYTES]),
            Damage::Older => match self.older(page) {
                Some(older) => bytes.copy_from_slice(older),
                None => return false,
            },
            Damage::AnothersContent => {
                let other = self.pages.iter().find(|other| **other != page).unwrap();
                bytes.copy_from_slice(page_of(self.now(), *other).unwrap());
            }
            Damage::Unreadable => {
                image.spoil(pages_path(), offset + 512 * rng.below(8));
                return true;
            }
            Damage::CutOff => {
                file.set_len(offset + 512 * rng.below(8)).unwrap();
                return true;
            }
        }
        file.write_at(&bytes, offset).unwrap();
        true
    }

    /// Opens the database and checks everything. Returns true if all is as it was, false if the
    /// damage was named.
    fn is_whole(&self, image: &FaultDisk, page: Option<PageNo>, damage: Damage) -> bool {
        let named = |error: &Error| {
            let (Error::Corrupt { file, .. } | Error::Io { file, .. }) = error else {
                panic!("damage is no reason for: {error}");
            };
            assert_eq!(*file, pages_path(), "the damage is elsewhere than in: {error}");
            let names = page.is_none_or(|page| error.to_string().contains(&format!("{page:?}")));
            assert!(names || matches!(damage, Damage::CutOff | Damage::Older | Damage::Torn), "{error}");
        };
        let engine = match open_at(image) {
            Ok(engine) => engine,
            Err(error) => {
                named(&error);
                return false;
            }
        };
        match self.tree.check(&engine.store) {
            Ok(check) if check.problems.is_empty() => {}
            Ok(_) => return false,
            Err(error) => {
                named(&error);
                return false;
            }
        }
        let found = match rows(&engine, self.tree) {
            Ok(found) => found,
            Err(error) => {
                named(&error);
                return false;
            }
        };
        assert!(found == self.rows, "the rows are not those that were put");
        engine.close().unwrap();
        true
    }

    /// Returns whether nothing tells the older version from the last one: redo does not name the
    /// page, and no copy of it is newer.
    fn is_undetectable(&self, page: PageNo, redo: bool) -> bool {
        let older = self.older(page).map(header::lsn).unwrap();
        let areas = read(&self.disk, &areas_path());
        let mut copies =
            areas[4096..].chunks_exact(PAGE).filter(|copy| check_image(&mut copy.to_vec(), page).is_ok());
        !redo && !copies.any(|copy| header::lsn(copy) > older)
    }

    fn try_one(&self, page: PageNo, damage: Damage, seed: u64, outcomes: &mut Outcomes) {
        let image = FaultDisk::new(Arc::new(self.disk.fork()));
        if !self.damage(&image, page, damage, &mut Prng::new(seed)) {
            return;
        }
        let redo = self.killed && lsn_of(self.now(), page).unwrap() >= self.checkpoint;
        let half = PAGE / 2;
        let is_older = damage == Damage::Older
            || damage == Damage::Torn
                && self.older(page).is_some_and(|o| o[half..] == page_of(self.now(), page).unwrap()[half..]);
        if is_older && self.is_undetectable(page, redo) {
            outcomes.undetectable += 1;
            return;
        }
        if !self.is_whole(&image, Some(page), damage) {
            outcomes.named += 1;
            return;
        }
        // It must stay right at the next opening.
        assert!(self.is_whole(&image, None, damage), "whole, and damaged after another opening");
        outcomes.whole += 1;
    }

    /// Damages every page in every way.
    fn everywhere(&self) -> Outcomes {
        let mut outcomes = Outcomes::default();
        let mut wrong = Vec::new();
        for &page in &self.pages {
            for (n, damage) in DAMAGES.into_iter().enumerate() {
                let seed = u64::from(page.0) * 16 + n as u64;
                let tried = std::panic::AssertUnwindSafe(|| self.try_one(page, damage, seed, &mut outcomes));
                if std::panic::catch_unwind(tried).is_err() {
                    wrong.push(format!("{page:?} {damage:?}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{} wrong: {wrong:?}", wrong.len());
        outcomes
    }
}

#[test]
fn a_page_damaged_after_a_clean_close_is_named() {
    for checkpoints in [1, 11, 50] {
        let old = old(checkpoints, false);
        let outcomes = old.everywhere();
        println!("{checkpoints} checkpoints, closed: {} pages, {outcomes:?}", old.pages.len());
        let tried = 8 * old.pages.len() as u32;
        assert!(old.pages.len() > 30 && outcomes.named > tried * 9 / 10, "{outcomes:?}");
    }
}

#[test]
fn a_page_damaged_after_a_kill_is_named_or_restored() {
    for checkpoints in [1, 17] {
        let old = old(checkpoints, true);
        let outcomes = old.everywhere();
        println!("{checkpoints} checkpoints, killed: {} pages, {outcomes:?}", old.pages.len());
        assert!(outcomes.named > 100 && outcomes.whole > 20, "{outcomes:?}");
    }
}

/// An unreadable sector in a slot of the doublewrite once failed the open, whether or not the slot
/// was needed.
#[test]
fn an_unreadable_slot_of_the_doublewrite_does_no_harm() {
    for killed in [false, true] {
        let old = old(11, killed);
        for slot in 0..2 * options().tuning.doublewrite_pages as u64 {
            let image = FaultDisk::new(Arc::new(old.disk.fork()));
            image.spoil(areas_path(), 4096 + slot * PAGE as u64 + 1024);
            assert!(old.is_whole(&image, None, Damage::Unreadable), "slot {slot}");
        }
    }
}
