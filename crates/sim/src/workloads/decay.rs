//! Silent corruption of pages: makes further databases with many checkpoints, damages one page, and
//! opens them again.

use crate::driver::Driver;
use crate::engine::{DIR, options};
use crate::flips::contents_of;
use crate::history::{Contents, difference};
use crate::shape::{SMALL, Shape};
use base::codec::fixed::{get_u32, get_u64};
use base::prng::Prng;
use base::sync::sim::pause;
use millpond::{Db, Error};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::fault::FaultDisk;
use vfs::mem::MemDisk;
use vfs::{Create, Disk, OpenMode, Vfs};

/// Batches of several sizes leave copies of different ages in the doublewrite.
const SHAPE: Shape = Shape { doublewrite_pages: 8, grow_pages: 16, ..SMALL };
const PAGE: usize = SHAPE.page_bytes;
/// The offset of the first slot of the doublewrite.
const SLOTS_AT: usize = 4096;
const ROWS: u64 = 40;
/// Databases that a run opens.
const TRIES: u32 = 8;

/// A database as it was left before the damage.
struct OldDatabase {
    disk: MemDisk,
    rows: Contents,
    closed: bool,
    /// The bytes of `pages` after some of the checkpoints, and at the end.
    versions: Vec<Vec<u8>>,
}

fn pages_path() -> PathBuf {
    Path::new(DIR).join("pages")
}

fn areas_path() -> PathBuf {
    Path::new(DIR).join("doublewrite/areas")
}

fn read(disk: &MemDisk, path: &Path) -> Vec<u8> {
    let mode = OpenMode { create: Create::Never, direct: true, read_only: true };
    let file = disk.open(path, mode).expect("it is there");
    let mut bytes = vec![0; file.len().expect("it is there") as usize];
    file.read_at(&mut bytes, 0).expect("it is as long");
    bytes
}

/// Returns the LSN of a page image, if the image is whole.
fn lsn(image: &[u8], page: usize) -> Option<u64> {
    let is_whole = get_u32(image, 0) == base::crc::crc32c(&image[4..]) && get_u32(image, 8) == page as u32;
    is_whole.then(|| get_u64(image, 16))
}

fn open(disk: Arc<dyn Disk>, seed: u64) -> millpond::Result<Db> {
    let vfs = Vfs { disk, clock: MemDisk::default().vfs(seed).clock };
    millpond::sim::open(&vfs, Path::new(DIR), &options(&vfs, &SHAPE))
}

const SOUND: &str = "nothing is damaged yet";

/// Changes some rows in one transaction, or replaces a table by a bulk load.
fn change(db: &Db, rng: &mut Prng, rows: &mut Contents) {
    if rng.one_in(6) {
        if rows.tables.remove("loaded").is_some() {
            db.drop_table("loaded").expect(SOUND);
        }
        let mut load = db.begin_bulk_load("loaded").expect(SOUND);
        let mut loaded = BTreeMap::new();
        for n in 0..rng.between(10, 30) {
            let (key, mut value) = (n.to_be_bytes().to_vec(), vec![0; 500]);
            rng.fill(&mut value);
            load.push(&key, &value).expect(SOUND);
            loaded.insert(key, value);
        }
        load.commit().expect(SOUND);
        rows.tables.insert("loaded".into(), loaded);
        return;
    }
    let table = db.open_table("t").expect(SOUND);
    let mine = rows.tables.entry("t".into()).or_default();
    let mut tx = db.begin().expect(SOUND);
    let many = if mine.is_empty() || rng.one_in(6) { ROWS } else { rng.between(1, 4) };
    let from = rng.below(ROWS);
    for n in from..from + many {
        let bytes = if rng.one_in(16) { rng.between(2_000, 6_000) } else { 600 };
        let (key, mut value) = ((n % ROWS).to_be_bytes().to_vec(), vec![0; bytes as usize]);
        rng.fill(&mut value);
        tx.put(&table, &key, &value).expect(SOUND);
        mine.insert(key, value);
    }
    tx.commit().expect(SOUND);
}

impl OldDatabase {
    fn make(rng: &mut Prng) -> OldDatabase {
        let disk = MemDisk::default();
        let shared = || Arc::new(disk.clone()) as Arc<dyn Disk>;
        let mut db = open(shared(), 1).expect(SOUND);
        db.create_table("t").expect(SOUND);
        let (mut rows, mut versions) = (Contents::default(), Vec::new());
        // It is there also if all changes are bulk loads of another one.
        rows.tables.insert("t".into(), BTreeMap::new());
        change(&db, rng, &mut rows);
        let checkpoints = if rng.one_in(3) { rng.between(1, 50) } else { rng.between(1, 12) };
        for _ in 0..checkpoints {
            change(&db, rng, &mut rows);
            db.checkpoint().expect(SOUND);
            if versions.len() < 8 {
                versions.push(read(&disk, &pages_path()));
            }
            if rng.one_in(8) {
                db.close().expect(SOUND);
                db = open(shared(), 2).expect(SOUND);
            }
        }
        let closed = !rng.one_in(3);
        let disk = if closed {
            db.close().expect(SOUND);
            disk.fork()
        } else {
            change(&db, rng, &mut rows);
            pause(rng.below(50_000));
            // Killed: its writes are there, its file locks are gone.
            let left = disk.fork();
            drop(db);
            left
        };
        versions.push(read(&disk, &pages_path()));
        OldDatabase { disk, rows, closed, versions }
    }

    fn image(&self, page: usize) -> &[u8] {
        &self.versions.last().expect("the last one is there")[page * PAGE..][..PAGE]
    }

    /// Returns a version of the page that is older than its newest copy in the doublewrite.
    fn older(&self, page: usize, rng: &mut Prng) -> Option<&[u8]> {
        let areas = read(&self.disk, &areas_path());
        let newest = areas[SLOTS_AT..].chunks_exact(PAGE).filter_map(|copy| lsn(copy, page)).max()?;
        let images = self.versions.iter().filter_map(|version| version.get(page * PAGE..(page + 1) * PAGE));
        let older: Vec<_> = images.filter(|image| lsn(image, page).is_some_and(|lsn| lsn < newest)).collect();
        (!older.is_empty()).then(|| older[rng.below(older.len() as u64) as usize])
    }

    /// Returns a random page whose image is whole, and another one. Half the time it is a page of
    /// which the doublewrite has only an older version: the engine must not restore that.
    fn pick_page(&self, rng: &mut Prng) -> (usize, usize) {
        let now = self.versions.last().expect("the last one is there");
        let whole: Vec<_> =
            (0..now.len() / PAGE).filter(|page| lsn(self.image(*page), *page).is_some()).collect();
        let areas = read(&self.disk, &areas_path());
        let has_old_copy = |page: &&usize| {
            let copies = areas[SLOTS_AT..].chunks_exact(PAGE).filter_map(|copy| lsn(copy, **page));
            copies.max().is_some_and(|copy| Some(copy) < lsn(self.image(**page), **page))
        };
        let old_copies: Vec<_> = whole.iter().filter(has_old_copy).copied().collect();
        let from = if old_copies.is_empty() || rng.one_in(2) { &whole } else { &old_copies };
        let page = from[rng.below(from.len() as u64) as usize];
        (page, whole[(page + 1) % whole.len()])
    }

    /// Damages something. Returns what, and whether an error or the check may name it.
    fn damage(&self, image: &FaultDisk, rng: &mut Prng) -> (String, bool) {
        let (page, another) = self.pick_page(rng);
        let at = (page * PAGE) as u64;
        let sector = 512 * rng.below(PAGE as u64 / 512);
        let mut bytes = self.image(page).to_vec();
        let what = match rng.below(10) {
            0 => {
                bytes.fill(0);
                "zeroed"
            }
            1 => {
                bytes[rng.below(PAGE as u64) as usize] ^= 1 << rng.below(8);
                "one bit"
            }
            2 => {
                rng.fill(&mut bytes);
                "random bytes"
            }
            3 => {
                rng.fill(&mut bytes[..56]);
                "a random header"
            }
            4 => match self.older(page, rng) {
                Some(older) => {
                    bytes[..PAGE / 2].copy_from_slice(&older[..PAGE / 2]);
                    "torn"
                }
                None => {
                    bytes[PAGE / 2..].fill(0);
                    "half zeroed"
                }
            },
            5 | 6 => match self.older(page, rng) {
                Some(older) => {
                    bytes.copy_from_slice(older);
                    "older"
                }
                None => "as it was",
            },
            7 => {
                bytes.copy_from_slice(self.image(another));
                "perhaps replaced by another page"
            }
            8 => {
                image.spoil(pages_path(), at + sector);
                "unreadable"
            }
            _ => {
                let slots = (read(&self.disk, &areas_path()).len() - SLOTS_AT) / PAGE;
                let slot = rng.below(slots as u64);
                image.spoil(areas_path(), SLOTS_AT as u64 + slot * PAGE as u64 + sector);
                return (format!("slot {slot} of the doublewrite unreadable"), false);
            }
        };
        if what != "unreadable" {
            let mode = OpenMode { create: Create::Never, direct: true, read_only: false };
            let file = image.open(&pages_path(), mode).expect("it is there");
            file.write_at(&bytes, at).expect("it is as long");
        }
        (format!("page {page} {what}"), true)
    }

    /// Opens it and reads everything. Returns `None` if the damage was named.
    fn read_everything(&self, image: &FaultDisk) -> Result<Option<()>, String> {
        let named = |when: &str, error: &Error| match error {
            Error::Corrupt { file, .. } | Error::Io { file, .. } if *file == pages_path() => Ok(None),
            other => Err(format!("{when}: damage is no reason for: {other}")),
        };
        let db = match open(Arc::new(image.clone()), 3) {
            Ok(db) => db,
            Err(error) => return named("open", &error),
        };
        for when in ["at once", "after a while"] {
            match contents_of(&db) {
                Ok(found) if found == self.rows => {}
                Ok(found) => {
                    return Err(format!("{when}, the rows are wrong:\n{}", difference(&found, &self.rows)));
                }
                Err(error) => return named(when, &error),
            }
            match db.check() {
                Ok(report) if report.is_clean() => {}
                Ok(_) => return Ok(None),
                Err(error) => return named("check", &error),
            }
            pause(400_000);
        }
        match db.close() {
            Ok(()) => Ok(Some(())),
            Err(error) => named("close", &error),
        }
    }
}

/// A page is damaged after many checkpoints. The damage is named, or nothing changes, also at the
/// second opening.
pub(super) fn decayed(d: &Driver) {
    let mut rng = d.rng(1);
    let old = OldDatabase::make(&mut rng);
    for _ in 0..TRIES {
        let image = FaultDisk::new(Arc::new(old.disk.fork()));
        let (what, may_be_named) = old.damage(&image, &mut rng);
        let left = if old.closed { "closed" } else { "killed" };
        match old.read_everything(&image) {
            Ok(Some(())) => match old.read_everything(&image) {
                Ok(again) => assert!(again.is_some(), "{left}, {what}: only the second opening named it"),
                Err(wrong) => panic!("{left}, {what}, opened again: {wrong}"),
            },
            Ok(None) => assert!(may_be_named, "{left}, {what}: named, but no page needs that slot"),
            Err(wrong) => panic!("{left}, {what}: {wrong}"),
        }
    }
}
