//! Silent corruption: flips one bit of a small database, opens it in a world, and reads everything.
//!
//! The damage must be named, by an error or by the check, or it must change nothing: the rows and
//! the prepared transaction are the same, the check is clean after all background work, and the
//! database closes. Damage in the log may also look like a tail that was being written when the
//! power failed (`docs/media.md`); then at most the last commit may be lost. A panic, a deadlock or
//! an endless loop ends the world and is a finding.

use crate::engine::{DIR, options};
use crate::history::{Contents, difference};
use crate::shape::{SMALL, Shape};
use base::prng::Prng;
use base::sync::sim::{self, WorldOptions, pause};
use millpond::{CheckReport, Db, Error, Transaction};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::mem::MemDisk;
use vfs::{Create, Disk, OpenMode};

/// Sizes that give the smallest files which the engine can make.
const TINY: Shape =
    Shape { frames: 32, segment_blocks: 8, segments: 8, doublewrite_pages: 4, grow_pages: 16, ..SMALL };

/// How the database was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Killed, opened again, and soon killed again.
    JustOpened,
    /// Killed after a checkpoint and a few more commits. One transaction was open and one was
    /// prepared since before the checkpoint.
    Running,
    /// As `Running`, but closed instead of killed.
    Closed,
}

impl Ending {
    /// All of them, with their names on the command line.
    pub const ALL: [(&str, Ending); 3] =
        [("just-opened", Ending::JustOpened), ("running", Ending::Running), ("closed", Ending::Closed)];
}

/// The result of a flip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// An error or the check named the damage.
    Named,
    /// Nothing changed.
    Harmless,
    /// Only the last commit was lost; nothing else in the files shows that it existed.
    TailLost,
}

/// Consecutive flipped bytes with the same result.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteRange {
    /// The file.
    pub file: String,
    /// The first byte.
    pub from: u64,
    /// The end, exclusive.
    pub to: u64,
    /// How many bytes were flipped.
    pub flips: u64,
    /// The result.
    pub outcome: Outcome,
}

/// The flips are dealt out to the processes in pieces of so many bytes of a file.
const SHARE_BYTES: u64 = 4096;

/// A database to damage.
#[derive(Clone, Debug)]
pub struct SmallDatabase {
    end: Ending,
    disk: MemDisk,
    /// The contents after each commit since the last opening. The last one is complete.
    states: Arc<Vec<Contents>>,
    /// The rows that the prepared transaction adds to the table when it commits.
    prepared: Arc<BTreeMap<Vec<u8>, Vec<u8>>>,
    /// Every file and its length.
    pub files: BTreeMap<PathBuf, u64>,
}

const OPEN: &str = "nothing is damaged yet";

fn open(disk: &MemDisk, seed: u64) -> millpond::Result<Db> {
    let vfs = disk.vfs(seed);
    millpond::sim::open(&vfs, Path::new(DIR), &options(&vfs, &TINY))
}

fn put(tx: &mut Transaction, db: &Db, key: &str, bytes: usize, rng: &mut Prng) -> (Vec<u8>, Vec<u8>) {
    let mut value = vec![0; bytes];
    rng.fill(&mut value);
    tx.put(&db.open_table("t").expect(OPEN), key.as_bytes(), &value).expect(OPEN);
    (key.as_bytes().to_vec(), value)
}

impl SmallDatabase {
    /// Makes one in a world.
    #[must_use]
    pub fn new(end: Ending) -> SmallDatabase {
        let world =
            sim::run(WorldOptions { atomics_one_in: u64::MAX, ..WorldOptions::new(1) }, move || make(end));
        let (disk, states, prepared) = world.result.unwrap_or_else(|failure| panic!("{failure}"));
        let files = files(&disk);
        SmallDatabase { end, disk, states: Arc::new(states), prepared: Arc::new(prepared), files }
    }

    /// Flips one bit of the byte at `at` of a file and judges the result. Which bit follows from
    /// `at` and the path.
    ///
    /// # Errors
    /// The finding as text.
    pub fn flip(&self, path: &Path, at: u64) -> Result<Outcome, String> {
        let image = self.disk.fork();
        let bit = Prng::new(at ^ u64::from(base::crc::crc32c(path.as_os_str().as_encoded_bytes()))).below(8);
        image.flip(path, at, 1 << bit).map_err(|e| format!("cannot flip it: {e}"))?;
        let (small, path) = (self.clone(), path.to_owned());
        let options =
            WorldOptions { atomics_one_in: u64::MAX, max_steps: 1_000_000, ..WorldOptions::new(at) };
        let world = sim::run(options, move || small.judge(&image, &path));
        world.result.map_err(|failure| failure.to_string()).and_then(|outcome| outcome)
    }

    /// Flips every `stride`-th byte of every file that belongs to share `k` of `n`. Calls
    /// `on_range` for each range and `wrong` for each finding.
    pub fn sweep(
        &self,
        stride: u64,
        (k, n): (u64, u64),
        mut on_range: impl FnMut(ByteRange),
        mut wrong: impl FnMut(&Path, u64, String),
    ) {
        let mut turn = 0;
        for (path, len) in &self.files {
            let mut range: Option<ByteRange> = None;
            for share in 0..len.div_ceil(SHARE_BYTES) {
                turn += 1;
                if turn % n != k {
                    range.take().into_iter().for_each(&mut on_range);
                    continue;
                }
                let from = (share * SHARE_BYTES).next_multiple_of(stride);
                for at in (from..(share * SHARE_BYTES + SHARE_BYTES).min(*len)).step_by(stride as usize) {
                    match self.flip(path, at) {
                        Ok(outcome) => match &mut range {
                            Some(range) if range.outcome == outcome => {
                                range.to = at + 1;
                                range.flips += 1;
                            }
                            _ => {
                                let file = path.display().to_string();
                                let next = ByteRange { file, from: at, to: at + 1, flips: 1, outcome };
                                range.replace(next).into_iter().for_each(&mut on_range);
                            }
                        },
                        Err(what) => wrong(path, at, what),
                    }
                }
            }
            range.into_iter().for_each(&mut on_range);
        }
    }

    /// Checks the database. Returns the report if it says anything. A prepared transaction may keep
    /// its versions until it is decided, in the last turn; afterwards purge may need some time,
    /// because a world may let other threads run first.
    fn check(&self, db: &Db, turn: usize) -> millpond::Result<Option<CheckReport>> {
        const TRIES: u32 = 10;
        for _ in 0..TRIES {
            let report = db.check()?;
            if !report.is_clean() || report.unreachable_pages.is_some_and(|pages| pages > 0) {
                return Ok(Some(report));
            }
            if turn < 2 || report.unreachable_pages == Some(0) {
                return Ok(None);
            }
            pause(400_000);
        }
        db.check().map(Some)
    }

    fn judge(&self, image: &MemDisk, path: &Path) -> Result<Outcome, String> {
        let db = match open(image, 2) {
            Ok(db) => db,
            Err(error) => return named(path, "open", &error),
        };
        let all = self.states.last().expect("there is one");
        let mut outcome = Outcome::Harmless;
        let mut expected = all.clone();
        for turn in 0..3 {
            let when = ["at once", "after a while", "after the commit of the prepared transaction"][turn];
            let found = match contents_of(&db) {
                Ok(found) => found,
                Err(error) => return named(path, when, &error),
            };
            if turn == 0 && found != expected {
                // Only the last commit may be lost; of any other, something in the files shows that
                // it existed.
                expected = self.states[self.states.len().saturating_sub(2)].clone();
                outcome = Outcome::TailLost;
                if !is_log(path) || self.end == Ending::Closed {
                    return Err(format!("{when}, the rows are wrong:\n{}", difference(&found, all)));
                }
            }
            if found != expected {
                return Err(format!("{when}, the rows are wrong:\n{}", difference(&found, &expected)));
            }
            match self.check(&db, turn) {
                Ok(None) => {}
                Ok(Some(report)) if report.is_clean() => {
                    return Err(format!("{when}, {:?} pages are unreachable", report.unreachable_pages));
                }
                Ok(Some(_)) => return Ok(Outcome::Named),
                Err(error) => return named(path, when, &error),
            }
            if turn == 1 {
                for xid in std::mem::take(&mut expected.prepared) {
                    let rows = expected.tables.get_mut("t").expect("it is there");
                    rows.extend(self.prepared.iter().map(|(k, v)| (k.clone(), v.clone())));
                    if let Err(error) = db.commit_prepared(&xid) {
                        return named(path, "commit what was prepared", &error);
                    }
                }
            }
            // Meanwhile the losers of the crash are reverted, and versions that no snapshot sees
            // are purged.
            pause(400_000);
        }
        match db.close() {
            Ok(()) => Ok(outcome),
            Err(error) => named(path, "close", &error),
        }
    }
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "log")
}

/// Returns what a reader finds in a database.
pub(crate) fn contents_of(db: &Db) -> millpond::Result<Contents> {
    // As `driver::read_contents`, but with the engine's own errors.
    let (prepared, bookmark) = (db.prepared()?, db.bookmark()?.unwrap_or_default());
    let mut contents = Contents { prepared, bookmark, ..Contents::default() };
    contents.prepared.sort();
    let tx = db.begin()?;
    for name in db.table_names()? {
        let rows = tx.range(&db.open_table(&name)?, ..)?.collect::<millpond::Result<_>>()?;
        contents.tables.insert(name, rows);
    }
    tx.rollback();
    Ok(contents)
}

/// Accepts an error that names damage in the damaged file; rejects any other.
fn named(path: &Path, when: &str, error: &Error) -> Result<Outcome, String> {
    let (Error::Corrupt { file, .. } | Error::Foreign { file, .. }) = error else {
        return Err(format!("{when}: damage is no reason for: {error}"));
    };
    // A lost root slot shows in the log. A lost end of the log shows in pages with higher LSNs.
    let there = file == path || path.starts_with(file) || file.parent() == path.parent();
    if there || path.ends_with("root") || (is_log(path) && file.ends_with("pages")) {
        return Ok(Outcome::Named);
    }
    Err(format!("{when}: the damage is elsewhere than in: {error}"))
}

type Made = (MemDisk, Vec<Contents>, BTreeMap<Vec<u8>, Vec<u8>>);

fn make(end: Ending) -> Made {
    let mut rng = Prng::new(5);
    let first = MemDisk::default();
    let db = open(&first, 1).expect(OPEN);
    db.create_table("t").expect(OPEN);
    let mut tx = db.begin().expect(OPEN);
    for n in 0..8 {
        put(&mut tx, &db, &format!("row {n}"), 120, &mut rng);
    }
    put(&mut tx, &db, "long", 6_000, &mut rng);
    tx.commit().expect(OPEN);
    db.checkpoint().expect(OPEN);
    let some = |db: &Db, rng: &mut Prng, from: u64| {
        // Each commit ends in a log block of its own, so the next block shows that it existed.
        let mut states = vec![contents_of(db).expect(OPEN)];
        for n in from..from + 3 {
            let mut tx = db.begin().expect(OPEN);
            put(&mut tx, db, &format!("commit {n}"), 800, rng);
            put(&mut tx, db, "long", 4_200, rng);
            tx.commit().expect(OPEN);
            states.push(contents_of(db).expect(OPEN));
        }
        states
    };
    let states = some(&db, &mut rng, 0);
    pause(100_000);
    // Killed: its writes are there, its file locks are gone.
    let disk = first.fork();
    drop(db);
    let db = open(&disk, 2).expect(OPEN);
    let mut prepared = BTreeMap::new();
    let (states, open_tx) = if end == Ending::JustOpened {
        (states, None)
    } else {
        let mut tx = db.begin().expect(OPEN);
        prepared
            .extend([put(&mut tx, &db, "row 1", 90, &mut rng), put(&mut tx, &db, "prepared", 90, &mut rng)]);
        tx.prepare(b"xid").expect(OPEN);
        let mut open_tx = db.begin().expect(OPEN);
        put(&mut open_tx, &db, "row 2", 300, &mut rng);
        put(&mut open_tx, &db, "open", 5_000, &mut rng);
        open_tx.delete(&db.open_table("t").expect(OPEN), b"row 3").expect(OPEN);
        db.checkpoint().expect(OPEN);
        (some(&db, &mut rng, 3), Some(open_tx))
    };
    if end == Ending::Closed {
        drop(open_tx);
        db.close().expect(OPEN);
        return (disk.fork(), states, prepared);
    }
    let image = disk.fork();
    drop(open_tx);
    drop(db);
    (image, states, prepared)
}

/// Returns every file below the database's directory and its length.
fn files(disk: &MemDisk) -> BTreeMap<PathBuf, u64> {
    let mode = OpenMode { create: Create::Never, direct: true, read_only: true };
    let mut found = BTreeMap::new();
    let mut dirs = vec![PathBuf::from(DIR)];
    while let Some(dir) = dirs.pop() {
        for name in disk.list(&dir).expect("it is there") {
            let path = dir.join(name);
            if disk.list(&path).is_ok() {
                dirs.push(path);
            } else {
                let len = disk.open(&path, mode).and_then(|file| file.len()).expect("it is there");
                found.insert(path, len);
            }
        }
    }
    found
}
