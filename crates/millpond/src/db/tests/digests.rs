//! Digests of log segments: what they say about transactions and freed extents, compared with a
//! scan of the whole log.

use super::*;
use crate::checkpoint::list::{List, Listed, Stage};
use crate::checkpoint::root::RootFile;
use crate::engine::Paths;
use crate::log::block::block_of;
use crate::log::digest::DigestSource;
use crate::log::group::{GROUP_BYTES_MAX, Record, Records, ids};
use crate::log::reader::{EpochStart, Scanner};
use crate::log::segment::Segments;
use crate::page::map::{extents_per_map, page_of_group};
use crate::page::op::PageOp;
use crate::recover::txn_table::{Digested, Sections, TxnTable};
use crate::recover::undo::{Rebuild, read_list};
use crate::undo::Streams;
use base::{Lsn, TxnId};
use metrics::Metrics;
use std::collections::BTreeSet;

const PAGE_BYTES: usize = 4096;
/// Concurrent writers, each with its own keys. The first never ends.
const SLOTS: usize = 6;

/// Nothing is cleaned for the log's sake, so the whole log stays there to be scanned.
fn held_back() -> Options {
    let mut options = options().redo_capacity_bytes(24 << 20).hold_cleaning_until_redo_bytes(20 << 20);
    options.tuning.frames = 2048;
    options
}

fn open_held_back(disk: &MemDisk) -> Db {
    let vfs = Vfs { clock: Vfs::os().clock, ..disk.vfs(1) };
    Db::open_on(&vfs, Path::new(DIR), &held_back()).unwrap()
}

/// The disk after a crash that loses nothing.
fn crashed(disk: &MemDisk) -> MemDisk {
    let mut walker = disk.walk();
    while walker.step() {}
    walker.image(CrashChoice::All)
}

fn segment_of(segments: &Segments, lsn: Lsn) -> u64 {
    segments.shape().segment_of(block_of(lsn))
}

fn value(rng: &mut Prng) -> Vec<u8> {
    let len = if rng.one_in(15) { rng.between(3000, 9000) } else { rng.between(0, 900) };
    vec![rng.next_u64() as u8; len as usize]
}

/// A random run. Its transactions stay open at its end. `prepared` is passed from run to run.
fn work(db: &Db, run: u64, prepared: &mut BTreeMap<usize, Vec<u8>>) -> Vec<Transaction> {
    let mut rng = Prng::new(run);
    let table = db.open_table("t").unwrap();
    let mut open: Vec<_> = (0..SLOTS).map(|_| None::<(Transaction, Vec<_>)>).collect();
    for n in 0..2500u64 {
        let slot = rng.below(SLOTS as u64) as usize;
        if n % 250 == 100 {
            let name = format!("short-lived {n}");
            let short = db.create_table(&name).unwrap();
            let mut tx = db.begin().unwrap();
            for key in 0..rng.between(10, 150) {
                tx.put(&short, &key.to_be_bytes(), &[1; 700]).unwrap();
            }
            tx.commit().unwrap();
            db.drop_table(&name).unwrap();
        }
        if let Some(xid) = prepared.get(&slot) {
            match rng.below(30) {
                0 => db.commit_prepared(xid).unwrap(),
                1 => db.rollback_prepared(xid).unwrap(),
                _ => continue,
            }
            prepared.remove(&slot);
        }
        let (mut tx, mut marks) = open[slot].take().unwrap_or_else(|| (db.begin().unwrap(), Vec::new()));
        let key = format!("slot {slot} key {}", rng.below(40)).into_bytes();
        match rng.below(100) {
            0..50 => tx.put(&table, &key, &value(&mut rng)).unwrap(),
            50..70 => drop(tx.delete(&table, &key).unwrap()),
            70..80 => marks.push(tx.savepoint()),
            80..90 => {
                if let Some(mark) = marks.pop() {
                    tx.rollback_to(&mark).unwrap();
                }
            }
            _ if slot == 0 => {}
            90..96 => {
                tx.commit().unwrap();
                continue;
            }
            96..98 => {
                tx.rollback();
                continue;
            }
            _ => {
                let xid = format!("xid {run} {n}").into_bytes();
                tx.prepare(&xid).unwrap();
                prepared.insert(slot, xid);
                continue;
            }
        }
        open[slot] = Some((tx, marks));
    }
    open.into_iter().flatten().map(|(tx, _)| tx).collect()
}

/// Waits for the digest of the last segment that can have one.
fn await_digests(db: &Db) {
    let log = &db.core.engine.store.log;
    let end = Lsn(log.durable_lsn().0.saturating_sub(2 * GROUP_BYTES_MAX as u64));
    let last = segment_of(log.segments(), end) - 1;
    // A segment below the checkpoint may be recycled without a digest.
    while log.segments().find(last).is_some() && log.segments().digest(last).unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// For each transaction: its state, its last LSN, and whether it has undo.
type TxnStates = BTreeMap<TxnId, (Stage, Lsn, bool)>;

/// The whole log of several runs.
struct WholeLog {
    groups: Vec<(Lsn, Vec<u8>)>,
    epochs: Vec<EpochStart>,
}

impl WholeLog {
    fn read(segments: &Segments, epochs: Vec<EpochStart>) -> WholeLog {
        let mut scanner = Scanner::new(segments, &epochs, Lsn(0));
        let mut groups = Vec::new();
        while let Some(group) = scanner.next().unwrap() {
            groups.push((group.lsn, group.records.to_vec()));
        }
        WholeLog { groups, epochs }
    }

    /// Returns what recovery knows after reading the whole log below each of `places`. A crash
    /// aborts the transactions that were active.
    fn scan(&self, places: &BTreeSet<Lsn>) -> BTreeMap<Lsn, TxnStates> {
        let path = Path::new("the log");
        let mut rebuild = Rebuild::begin(path, Lsn::MAX, List::default(), Streams::default());
        let (mut last, mut cut) = (BTreeMap::new(), BTreeSet::new());
        let mut states = BTreeMap::new();
        let mut epochs = self.epochs.iter().skip(1).peekable();
        for (n, (lsn, records)) in self.groups.iter().enumerate() {
            if epochs.next_if(|epoch| epoch.first <= *lsn).is_some() {
                let active = rebuild.txn_states().filter(|(_, stage, _)| *stage == Stage::Active);
                cut.extend(active.map(|(txn, _, _)| txn));
            }
            for record in Records::new(records).map(Result::unwrap) {
                let op = match record {
                    Record::Page { op, .. } => Some(PageOp::decode(op).unwrap()),
                    _ => None,
                };
                rebuild.record(*lsn, &record, op.as_ref()).unwrap();
                for txn in named(&record, op.as_ref()) {
                    last.insert(txn, *lsn);
                }
            }
            let aborted = |txn, stage| match stage {
                Stage::Active if cut.contains(&txn) => Stage::Aborted,
                stage => stage,
            };
            let next = self.groups.get(n + 1).map_or(Lsn::MAX, |(next, _)| *next);
            if places.contains(&next) {
                let txn_table = rebuild.txn_states();
                let state =
                    txn_table.map(|(txn, stage, undo)| (txn, (aborted(txn, stage), last[&txn], undo)));
                states.insert(next, state.collect());
            }
        }
        states
    }

    /// Returns the extents that groups in the range freed, by the layout of `pages`.
    fn freed(&self, range: std::ops::Range<Lsn>) -> BTreeMap<u32, Lsn> {
        let each = extents_per_map(PAGE_BYTES);
        let mut freed = BTreeMap::new();
        for (lsn, records) in self.groups.iter().filter(|(lsn, _)| range.contains(lsn)) {
            for record in Records::new(records).map(Result::unwrap) {
                if let Record::Page { page, op, .. } = record
                    && let PageOp::MapRelease { extent } = PageOp::decode(op).unwrap()
                {
                    let is = |group: &u32| page_of_group(PAGE_BYTES, *group) == page;
                    let group = (0..).find(is).unwrap();
                    freed.insert(group * each + u32::from(extent), *lsn);
                }
            }
        }
        freed
    }
}

fn named(record: &Record<'_>, op: Option<&PageOp<'_>>) -> Vec<TxnId> {
    match (*record, op) {
        (_, Some(PageOp::Row(row))) => vec![row.version.txn],
        (_, Some(PageOp::InitOverflow { owner, head: true, .. })) => vec![owner.txn],
        (
            Record::Undo { txn, .. }
            | Record::Commit { txn }
            | Record::Prepare { txn, .. }
            | Record::Abort { txn }
            | Record::Reverted { txn },
            _,
        ) => vec![txn],
        (Record::Purged { txns }, _) => ids(txns).map(Result::unwrap).collect(),
        _ => Vec::new(),
    }
}

/// Three runs over one log; crashes cut off the first two.
fn runs(seed: u64) -> (Db, WholeLog) {
    let mut disk = MemDisk::default();
    let mut prepared = BTreeMap::new();
    for run in 0.. {
        let db = open_held_back(&disk);
        if run == 0 {
            db.create_table("t").unwrap();
        }
        let open = work(&db, seed * 10 + run, &mut prepared);
        await_digests(&db);
        if run == 2 {
            let vfs = disk.vfs(1);
            drop(open);
            let root = Paths::new(Path::new(DIR), &held_back()).root;
            let (_, root) = RootFile::open(&vfs, &root, &Arc::new(Metrics::new())).unwrap().unwrap();
            let whole = WholeLog::read(db.core.engine.store.log.segments(), root.epochs);
            return (db, whole);
        }
        disk = crashed(&disk);
        drop(open);
    }
    unreachable!()
}

/// Begins with a list at the group at `from`, reads on, and compares at each of `states` at or
/// above `listed_at`.
fn read_on(
    whole: &WholeLog,
    listed: &[Listed],
    from: Lsn,
    listed_at: Lsn,
    states: &BTreeMap<Lsn, TxnStates>,
) {
    let mut txn_table = TxnTable::default();
    let mut source = Digested { txn_table: &mut txn_table, listed };
    source.skip_to(from);
    for (lsn, records) in whole.groups.iter().filter(|(lsn, _)| *lsn >= from) {
        if *lsn >= listed_at
            && let Some(state) = states.get(lsn)
        {
            let found = Sections::decode(&source.sections(*lsn), *lsn).unwrap().txns;
            for (txn, (stage, last, undo)) in state {
                let found = found.get(txn).unwrap_or_else(|| panic!("{txn:?} at {lsn} is missing"));
                let last = if found.1 == Lsn::ZERO && *last < from { Lsn::ZERO } else { *last };
                assert_eq!(*found, (stage.clone(), last, *undo), "{txn:?} at {lsn}");
            }
            for (txn, (stage, ..)) in found.iter().filter(|(txn, _)| !state.contains_key(txn)) {
                let named = listed.iter().any(|listed| listed.txn == *txn);
                assert!(named && matches!(stage, Stage::Committed(_)), "{txn:?} at {lsn}: {stage:?}");
            }
        }
        source.group(*lsn, records, &mut |_, _| {}).unwrap();
    }
}

/// A transaction table that has been there for long forgets by the list of a checkpoint at `from`.
/// Its state is compared at each of `states` at or above `listed_at`. Some committed transactions
/// are not in the list: their undo is in history batches.
fn forget(whole: &WholeLog, from: Lsn, listed_at: Lsn, states: &BTreeMap<Lsn, TxnStates>) -> usize {
    let batched = |txn: &TxnId, stage: &Stage| {
        txn.0.is_multiple_of(2) && matches!(stage, Stage::Committed(lsn) if *lsn < from)
    };
    let mut listed = list(&states[&listed_at]);
    listed.retain(|listed| !batched(&listed.txn, &listed.stage));
    let mut txn_table = TxnTable::default();
    let mut epochs = whole.epochs.iter().skip(1).peekable();
    let mut forgotten = BTreeSet::new();
    for (n, (lsn, records)) in whole.groups.iter().enumerate() {
        if epochs.next_if(|epoch| epoch.first <= *lsn).is_some() {
            txn_table.cut_off();
        }
        // Digests may be behind the list or ahead of it.
        if *lsn > from && n % 50 == 0 {
            txn_table.forget_ended(from, &listed);
        }
        if *lsn >= listed_at
            && let Some(state) = states.get(lsn)
        {
            txn_table.forget_ended(from, &listed);
            let sections = Digested { txn_table: &mut txn_table, listed: &[] }.sections(*lsn);
            let (gone, expected): (TxnStates, TxnStates) =
                state.clone().into_iter().partition(|(txn, (stage, ..))| batched(txn, stage));
            forgotten.extend(gone.into_keys());
            assert_eq!(Sections::decode(&sections, *lsn).unwrap().txns, expected, "at {lsn}");
        }
        txn_table.group(*lsn, records, &mut |_, _| {}).unwrap();
    }
    forgotten.len()
}

/// The list that a checkpoint would write; `hardened` says whether there is undo.
fn list(state: &TxnStates) -> Vec<Listed> {
    let listed = |(txn, (stage, _, undo)): (&TxnId, &(Stage, Lsn, bool))| Listed {
        txn: *txn,
        stage: stage.clone(),
        hardened: u64::from(*undo),
    };
    state.iter().map(listed).collect()
}

#[test]
fn digests_agree_with_a_scan_of_the_whole_log() {
    let (db, whole) = runs(1);
    let segments = db.core.engine.store.log.segments();
    assert_eq!(whole.epochs.len(), 3, "the whole log is still there");
    let mut digests = Vec::new();
    for number in segments.numbers() {
        digests.extend(segments.digest(number).unwrap());
    }
    assert!(digests.len() > 12, "{} digests", digests.len());
    let mut tags = BTreeSet::new();
    let states = whole.scan(&digests.iter().map(|digest| digest.next).collect());
    for digest in &digests {
        let sections = Sections::decode(&digest.sections, digest.next).unwrap();
        let state = &states[&digest.next];
        assert_eq!(sections.txns, *state, "segment {}", digest.segment);
        let freed = whole.freed(digest.first..digest.next);
        assert_eq!(sections.freed, freed, "segment {}", digest.segment);
        tags.extend(state.values().map(|(stage, ..)| stage.tag()));
        tags.extend((!freed.is_empty()).then_some(0));
    }
    assert_eq!(tags.len(), 5, "every stage and freed extents occurred: {tags:?}");

    // From a list in the middle, as a checkpoint makes it that overtakes the digests: the list is
    // newer than the checkpoint LSN, so the groups between them are read as well.
    let last_epoch = whole.epochs.last().unwrap().first;
    let first = whole.groups.partition_point(|(lsn, _)| *lsn < last_epoch);
    let mut rng = Prng::new(7);
    let mut place = |from: usize| from + rng.below((whole.groups.len() - from) as u64 / 2) as usize;
    let pairs: Vec<_> = (0..8).map(|_| place(first)).collect();
    let pairs: Vec<_> = pairs.into_iter().map(|from| (from, place(from))).collect();
    let mut places: BTreeSet<_> = (0..20).map(|_| whole.groups[place(first)].0).collect();
    places.extend(pairs.iter().map(|(_, listed_at)| whole.groups[*listed_at].0));
    places.insert(whole.groups.last().unwrap().0);
    let states = whole.scan(&places);
    let mut forgotten = 0;
    for (from, listed_at) in pairs {
        let (from, listed_at) = (whole.groups[from].0, whole.groups[listed_at].0);
        read_on(&whole, &list(&states[&listed_at]), from, listed_at, &states);
        forgotten += forget(&whole, from, listed_at, &states);
    }
    assert!(forgotten > 0, "some had ended");
}

/// Checkpoints overtake the digests. A digest together with the records behind it must agree with
/// recovery.
#[test]
fn digests_older_than_the_checkpoint_agree_with_recovery() {
    let disk = MemDisk::default();
    let db = open(&disk);
    db.create_table("t").unwrap();
    let mut prepared = BTreeMap::new();
    for round in 0..3 {
        let open = work(&db, 50 + round, &mut prepared);
        await_digests(&db);
        let disk = crashed(&disk);
        let (vfs, paths) = (disk.vfs(1), Paths::new(Path::new(DIR), &options()));
        let metrics = Arc::new(Metrics::new());
        let (_, root) = RootFile::open(&vfs, &paths.root, &metrics).unwrap().unwrap();
        let shape = db.core.engine.store.log.segments().shape();
        let segments = Segments::open(&vfs, &paths.redo, shape, &metrics).unwrap();
        let end = |listed: &[Listed], from: Lsn| {
            let mut txn_table = TxnTable::begin(listed, from);
            let mut scanner = Scanner::new(&segments, &root.epochs, from);
            while let Some(group) = scanner.next().unwrap() {
                txn_table.group(group.lsn, group.records, &mut |_, _| {}).unwrap();
            }
            let next = scanner.position();
            let sections = Digested { txn_table: &mut txn_table, listed: &[] }.sections(next);
            let mut txns = Sections::decode(&sections, next).unwrap().txns;
            // For transactions that were listed while open it is unknown whether anything is to be
            // purged.
            txns.retain(|_, (stage, ..)| !matches!(stage, Stage::Committed(_)));
            txns.into_iter().map(|(txn, (stage, ..))| (txn, stage)).collect::<BTreeMap<_, _>>()
        };
        let expected = end(&read_list(&segments, &root).unwrap().txns, root.checkpoint);
        assert!(expected.values().any(|stage| *stage == Stage::Active));
        for number in segments.numbers() {
            let Some(digest) = segments.digest(number).unwrap() else { continue };
            if digest.next < root.checkpoint {
                continue;
            }
            let sections = Sections::decode(&digest.sections, digest.next).unwrap();
            let found = end(&list(&sections.txns), digest.next);
            assert_eq!(found, expected, "round {round}, segment {number}");
        }
        drop(open);
        db.checkpoint().unwrap();
    }
}
