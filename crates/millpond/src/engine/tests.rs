//! The page engine under power cuts. Rows are put one by one into a tree; each is acknowledged when
//! its redo is durable. The power is cut at operations of the whole run. Each image is opened and
//! compared with what was acknowledged.

mod corruption;
mod decay;
mod descriptors;
mod directories;
pub(crate) mod faults;
mod flow;
mod formats;
mod on_demand;
mod page_64;

use super::Engine;
use crate::btree::Tree;
use crate::error::{Error, Result};
use crate::mtr::Mtr;
use crate::options::{Options, Tuning};
use crate::page::node::{Leaf, Version};
use crate::page::op::{PageOp, RowChange, RowOp, common_ends};
use base::prng::Prng;
use base::{Lsn, TreeId, TxnId};
use metrics::{M, SyncReason};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use vfs::mem::{CrashChoice, MemDisk};

impl Engine {
    /// Returns the number of threads in calls now.
    pub(crate) fn threads_in_calls(&self) -> u64 {
        self.parts.cleaner.threads.now()
    }

    /// Returns the most memory that was in use at the same time since memory was given back, bytes.
    pub(crate) fn heap_kept(&self) -> u64 {
        self.parts.history.heap_kept()
    }

    /// Writes pages in the thread of a caller that asked for no page write. Only a test does this.
    pub(crate) fn write_pages_here(&self) -> Result {
        self.parts.cleaner.writers.drain(metrics::Force::Idle)
    }

    /// Poisons the database, as a failed write does.
    pub(crate) fn poison_for_test(&self) -> Error {
        self.poison.set(Error::Misuse("a test has poisoned the database".into()))
    }
}

const DIR: &str = "/db";
const TREE: TreeId = TreeId(7);

pub(super) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> Options {
    // The recorder's writes would fall between those that tests count.
    let mut options =
        Options::new().page_bytes(4096).redo_capacity_bytes(1 << 20).recorder_interval(Duration::ZERO);
    options.tuning = Tuning {
        segment_blocks: 64,
        ring_blocks: 64,
        grow_pages: 64,
        doublewrite_pages: 16,
        frames: 32,
        head_bytes: 64 << 10,
        no_progress_file: true,
        ..Tuning::default()
    };
    options
}

pub(super) fn open(disk: &MemDisk) -> Result<Engine> {
    Engine::open(&disk.vfs(1), Path::new(DIR), &options())
}

/// Returns the key and the value of put `n`. The value begins with the number of the put.
pub(super) fn row(seed: u64, n: u64) -> (Vec<u8>, Vec<u8>) {
    let mut rng = Prng::new(seed ^ n.wrapping_mul(0x9e37_79b9));
    let key = rng.below(600).to_be_bytes().to_vec();
    let mut value = n.to_be_bytes().to_vec();
    value.resize(8 + rng.between(100, 700) as usize, 0);
    rng.fill(&mut value[8..]);
    (key, value)
}

/// Puts a row. It is durable once the log is flushed to the returned LSN.
pub(super) fn put(engine: &Engine, tree: Tree, n: u64, key: &[u8], value: &[u8]) -> Result<Lsn> {
    let store = &engine.store;
    let version = Version { txn: TxnId(n + 1), undo_at: 0 };
    let (page, mut mtr) = loop {
        store.log.make_room()?;
        let page = tree.leaf_write(store, key, crate::btree::row_bytes(key.len(), value.len()))?;
        if let Some(mtr) = Mtr::try_begin(&store.log, &store.pool) {
            break (page, mtr);
        }
        drop(page);
        store.log.await_credit()?;
    };
    let slot = mtr.add(page);
    let leaf = Leaf::new(mtr.page(slot));
    let (at, old) = match leaf.search(key) {
        Ok(at) => (at, Some((leaf.row(at).version, leaf.row(at).flags, leaf.row(at).value.to_vec()))),
        Err(at) => (at, None),
    };
    let change = match &old {
        None => RowChange::Insert { flags: 0, value },
        Some((before, old_flags, old)) => {
            let (front, back) = common_ends(old, value);
            let middle = |bytes: &'_ [u8]| usize::from(front)..bytes.len() - usize::from(back);
            RowChange::Replace {
                before: *before,
                old_flags: *old_flags,
                new_flags: 0,
                front,
                back,
                old_middle: &old[middle(old)],
                new_middle: &value[middle(value)],
            }
        }
    };
    mtr.apply(slot, &PageOp::Row(RowOp { slot: at, tree: tree.id, key, version, change }));
    Ok(mtr.commit())
}

pub(super) fn rows(engine: &Engine, tree: Tree) -> Result<Rows> {
    let mut all = Rows::new();
    let mut next = Some((tree.leaf_read(&engine.store, &[])?, 0));
    while let Some((page, from)) = next {
        let leaf = Leaf::new(&page);
        for i in from..leaf.len() {
            all.insert(leaf.key(i).to_vec(), leaf.row(i).value.to_vec());
        }
        next = tree.leaf_next(&engine.store, page)?;
    }
    Ok(all)
}

/// Returns the rows after `count` puts.
pub(super) fn model(seed: u64, count: u64) -> Rows {
    (0..count).map(|n| row(seed, n)).collect()
}

struct Run {
    disk: MemDisk,
    tree: Tree,
    /// The disk operations at which the tree, and then each put, was acknowledged.
    tree_at: u64,
    acked_at: Vec<u64>,
}

fn run(seed: u64, puts: u64) -> Run {
    run_with_capacities(seed, puts, &[])
}

/// Changes the redo capacity at each given percentage of the puts.
fn run_with_capacities(seed: u64, puts: u64, capacities: &[(u64, u64)]) -> Run {
    let disk = MemDisk::default();
    let engine = open(&disk).unwrap();
    let tree = Tree::create(&engine.store, TREE).unwrap();
    engine.checkpoint().unwrap();
    let tree_at = disk.op_count();
    let mut acked_at = Vec::new();
    let mut rng = Prng::new(!seed);
    for n in 0..puts {
        let (key, value) = row(seed, n);
        let lsn = put(&engine, tree, n, &key, &value).unwrap();
        // Some stay unacknowledged for a while, so the cleaner finds pages whose redo is not
        // durable.
        if rng.one_in(8) || n + 1 == puts {
            engine.store.log.flush_to(lsn, SyncReason::Commit).unwrap();
            acked_at.resize(n as usize + 1, disk.op_count());
        }
        if n == puts / 2 {
            engine.checkpoint().unwrap();
        }
        if let Some((_, bytes)) = capacities.iter().find(|(share, _)| n == puts * share / 100) {
            engine.switches().set_redo_capacity(*bytes).unwrap();
        }
    }
    assert!(engine.store.metrics.get(M::PagesWritten) > 32, "the pool is smaller than the data");
    assert_eq!(rows(&engine, tree).unwrap(), model(seed, puts));
    drop(engine);
    Run { disk, tree, tree_at, acked_at }
}

impl Run {
    /// Opens an image from operation `at` and compares it.
    fn judge(&self, seed: u64, at: u64, image: &MemDisk, what: CrashChoice) {
        let context = format!("seed {seed}, power cut before operation {at}, {what:?}");
        let engine = open(image).unwrap_or_else(|e| panic!("{context}: {e}"));
        if at < self.tree_at {
            return;
        }
        let check = self.tree.check(&engine.store).unwrap();
        assert!(check.problems.is_empty(), "{context}: {:?}", check.problems);
        let found = rows(&engine, self.tree).unwrap();
        let newest = found.values().map(|v| u64::from_be_bytes(v[..8].try_into().unwrap()) + 1).max();
        let newest = newest.unwrap_or(0);
        let acknowledged = self.acked_at.partition_point(|acked| *acked <= at) as u64;
        assert!(newest >= acknowledged, "{context}: {acknowledged} puts acknowledged, {newest} found");
        assert!(found == model(seed, newest), "{context}: the rows are not those of the first {newest} puts");
    }
}

/// Cuts the power at every `stride`-th operation; at every one with MILLPOND_CRASH_STRIDE=1.
fn cut_everywhere(seed: u64, puts: u64, stride: u64) -> u64 {
    cut(&run(seed, puts), seed, stride)
}

fn cut(run: &Run, seed: u64, stride: u64) -> u64 {
    let stride = std::env::var("MILLPOND_CRASH_STRIDE").map_or(stride, |s| s.parse().expect("a number"));
    let mut walk = run.disk.walk();
    let mut states = 0;
    loop {
        let at = walk.at();
        if at % stride == seed % stride {
            let random = CrashChoice::Random(seed.wrapping_mul(1000) + at);
            for choice in [CrashChoice::None, CrashChoice::All, random] {
                run.judge(seed, at, &walk.image(choice), choice);
                states += 1;
            }
        }
        if !walk.step() {
            break;
        }
    }
    println!("{states} crash states");
    states
}

#[test]
fn acknowledged_rows_survive_a_power_cut_at_any_operation() {
    assert!(cut_everywhere(1, 400, 5) > 100);
}

#[test]
fn acknowledged_rows_survive_where_segments_are_recycled() {
    let states = cut_everywhere(2, 4000, 101);
    assert!(states > 50);
}

/// Segments are made and removed while the log is written.
#[test]
fn acknowledged_rows_survive_where_the_capacity_changes() {
    let capacities = [(20, 3 << 20), (45, 1 << 20), (60, 4 << 20), (80, 1 << 20)];
    let run = run_with_capacities(4, 3000, &capacities);
    assert!(cut(&run, 4, 83) > 50);
}

/// Crashes inside the recovery from a crash, three deep.
#[test]
fn recovery_can_be_interrupted_and_repeated() {
    let seed = 3;
    let run = run(seed, 300);
    let mut rng = Prng::new(seed);
    let end = run.disk.op_count();
    for _ in 0..20 {
        let at = rng.between(run.tree_at, end);
        let mut walk = run.disk.walk();
        while walk.at() < at {
            walk.step();
        }
        let mut image = walk.image(CrashChoice::Random(rng.next_u64()));
        for _ in 0..3 {
            drop(open(&image).unwrap());
            let mut inner = image.walk();
            let stop = rng.below(image.op_count() + 1);
            while inner.at() < stop && inner.step() {}
            image = inner.image(CrashChoice::Random(rng.next_u64()));
        }
        run.judge(seed, at, &image, CrashChoice::All);
    }
}

#[test]
fn a_closed_engine_opens_without_redo_and_a_second_opener_is_refused() {
    let disk = MemDisk::default();
    let engine = open(&disk).unwrap();
    assert!(matches!(open(&disk), Err(Error::InUse { .. })));
    let tree = Tree::create(&engine.store, TREE).unwrap();
    for n in 0..50 {
        let (key, value) = row(9, n);
        put(&engine, tree, n, &key, &value).unwrap();
    }
    engine.close().unwrap();
    let engine = open(&disk.fork()).unwrap();
    assert_eq!(engine.store.metrics.get(M::RecoveryRedoBytes), 0);
    assert_eq!(rows(&engine, tree).unwrap(), model(9, 50));
}

#[test]
fn a_lost_page_write_is_named() {
    let disk = MemDisk::default();
    let engine = open(&disk).unwrap();
    let tree = Tree::create(&engine.store, TREE).unwrap();
    put(&engine, tree, 0, b"a", b"one").unwrap();
    engine.checkpoint().unwrap();
    let lsn = put(&engine, tree, 1, b"a", b"two").unwrap();
    engine.store.log.flush_to(lsn, SyncReason::Commit).unwrap();
    drop(engine);
    let after = disk.fork();
    // The page becomes zeros although its write was synced and the checkpoint relies on it.
    for byte in 0..4096 {
        let offset = u64::from(tree.root.0) * 4096 + byte;
        let file = vfs::Disk::open(
            &after,
            Path::new("/db/pages"),
            vfs::OpenMode { create: vfs::Create::Never, direct: true, read_only: true },
        )
        .unwrap();
        let mut now = [0u8; 1];
        file.read_at(&mut now, offset).unwrap();
        after.flip(Path::new("/db/pages"), offset, now[0]).unwrap();
    }
    // The doublewrite still holds the image, so the page is restored; without that copy the damage
    // is named.
    drop(open(&after.fork()).unwrap());
    for offset in 4096..4096 + 32 * 4096 {
        after.flip(Path::new("/db/doublewrite/areas"), offset, 0xff).unwrap();
    }
    let error = open(&after).and_then(|engine| engine.close()).expect_err("the page is gone");
    assert!(error.to_string().contains("is damaged: page "), "{error}");
}

/// The last block of the log says how much of the block before it is used, and its own first group
/// is torn. The end was once taken to be the start of the last block. Replay, which no longer knew
/// that block, stopped earlier and called the log damaged.
#[test]
fn a_last_block_without_a_whole_group_ends_the_log_where_the_groups_end() {
    use crate::log::block::{BLOCK_BYTES, BlockHeader, block_of, offset_in_block};
    use crate::log::segment::file_offset;
    let disk = MemDisk::default();
    let engine = open(&disk).unwrap();
    let tree = Tree::create(&engine.store, TREE).unwrap();
    let (key, value) = row(1, 0);
    let lsn = put(&engine, tree, 0, &key, &value).unwrap();
    engine.store.log.flush_to(lsn, SyncReason::Commit).unwrap();
    let (end, epoch) = (engine.store.log.published_lsn(), engine.store.log.epoch());
    let shape = engine.store.log.segments().shape();
    let segment = engine.store.log.segments().get(shape.segment_of(block_of(end)), 0).unwrap();
    drop(engine);
    assert!(offset_in_block(end) > 0 && block_of(end) + 1 < shape.blocks);
    let mut block = base::aligned::AlignedBuf::zeroed(BLOCK_BYTES);
    let (number, prev_used) = (block_of(end) + 1, offset_in_block(end) as u16);
    BlockHeader { db_id: shape.db_id, number, epoch, prev_used, durable: Lsn::ZERO }.encode(&mut block);
    segment.file.write_at(&block, file_offset(shape, number)).unwrap();
    let disk = disk.fork();
    let engine = open(&disk).unwrap();
    assert_eq!(rows(&engine, tree).unwrap(), model(1, 1));
    // The next epoch's first block must say where the old epoch ends, or the second recovery stops
    // there.
    let (key, value) = row(1, 1);
    let lsn = put(&engine, tree, 1, &key, &value).unwrap();
    engine.store.log.flush_to(lsn, SyncReason::Commit).unwrap();
    drop(engine);
    let engine = open(&disk.fork()).unwrap();
    assert_eq!(rows(&engine, tree).unwrap(), model(1, 2));
}

/// A root that was linked but not written once made the directory look foreign. A database whose
/// creation had been interrupted could then not be opened again.
#[test]
fn a_creation_interrupted_anywhere_starts_again() {
    let disk = MemDisk::default();
    let engine = open(&disk).unwrap();
    drop(engine);
    let mut walk = disk.walk();
    while walk.step() {
        for seed in 0..8 {
            let image = walk.image(CrashChoice::Random(seed));
            open(&image).unwrap_or_else(|e| panic!("before operation {}, seed {seed}: {e}", walk.at()));
        }
        for choice in [CrashChoice::None, CrashChoice::All] {
            open(&walk.image(choice)).unwrap_or_else(|e| panic!("before operation {}: {e}", walk.at()));
        }
    }
}

/// A killed process leaves bytes and names that were not made durable. Its successor once read the
/// newest root slot from the system's page cache and wrote the next one over the older slot. A
/// power cut then left neither. So what is read is synced first.
#[test]
fn files_of_a_killed_process_are_synced_before_they_are_trusted() {
    let disk = MemDisk::default();
    let engine = open(&disk).unwrap();
    let tree = Tree::create(&engine.store, TREE).unwrap();
    let (key, value) = row(1, 0);
    put(&engine, tree, 0, &key, &value).unwrap();
    let before = disk.op_count();
    engine.checkpoint().unwrap();
    let after = disk.op_count();
    drop(engine);
    let mut walk = disk.walk();
    while walk.step() && walk.at() <= after {
        if walk.at() < before {
            continue;
        }
        let killed = walk.killed();
        drop(open(&killed).unwrap_or_else(|e| panic!("killed before operation {}: {e}", walk.at())));
        let mut again = killed.walk();
        while again.step() {
            for seed in 0..4 {
                let at = format!("killed before operation {}, cut before {}, {seed}", walk.at(), again.at());
                open(&again.image(CrashChoice::Random(seed))).unwrap_or_else(|e| panic!("{at}: {e}"));
            }
        }
    }
}
