//! The engine as a subject.

use crate::subject::{
    self, Copies, Database, Durability, Fail, Held, How, Isolation, LockRows, Result, RowList, Shape,
    Subject, Tx,
};
use base::sync::{Parker, Unparker};
use millpond::sim::{Sizes, open, set_frames, sized};
use millpond::{
    CounterStep, Cursor, Db, Doublewrite, EntryChange, EntryOp, Error, LockWait, Options,
    PreparedTransaction, RowLock, RowOutcome, Savepoint, Table, TableChange, Transaction, TxnOptions,
};
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use vfs::Vfs;

/// Blocks of the log buffer; the fewest that hold two groups.
const RING_BLOCKS: usize = 64;
/// So small that the log of a tiny database has several replay windows.
const REPLAY_WINDOW_BYTES: usize = 6_000;
/// So short that there are lists of dirty pages.
const HEAD_BYTES: u64 = 12_000;
/// Longer than any wait that ends by itself, much shorter than a hang.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// A waker that unparks a thread.
struct ThreadWaker(Unparker);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end on the calling thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let parker = Parker::new();
    let waker = Waker::from(Arc::new(ThreadWaker(parker.unparker())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        parker.park();
    }
}

/// The engine.
#[derive(Clone, Copy, Debug)]
pub struct Engine;

struct EngineDb(Db);

struct EngineTx {
    db: Db,
    tx: Transaction,
    /// Two reads of the same row show the same value.
    repeatable: bool,
    savepoints: Vec<Savepoint>,
}

fn fail(error: Error) -> Fail {
    match error {
        e if e.is_retryable() => Fail::Retry(e.to_string()),
        Error::SnapshotTooOld => Fail::TooOld,
        Error::KeyExists => Fail::KeyExists,
        Error::TableExists { .. } => Fail::TableExists,
        Error::NoSuchTable { .. } => Fail::NoSuchTable,
        e => Fail::Other(e.to_string()),
    }
}

fn table_change(change: &subject::TableChange) -> TableChange<'_> {
    match change {
        subject::TableChange::Create(name, metadata) => TableChange::Create { name, metadata },
        subject::TableChange::Drop(name) => TableChange::Drop { name },
        subject::TableChange::Rename(from, to) => TableChange::Rename { from, to },
        subject::TableChange::Replace(name, metadata) => TableChange::Replace { name, metadata },
        subject::TableChange::SetMetadata(name, metadata) => TableChange::SetMetadata { name, metadata },
    }
}

/// Returns the options of a database of this shape.
pub(crate) fn options(vfs: &Vfs, shape: &Shape) -> Options {
    let mut options = Options::new()
        .page_bytes(shape.page_bytes)
        .lock_wait(LOCK_WAIT)
        .redo_capacity_bytes(shape.segments * shape.segment_blocks * 4096);
    if shape.history_memory > 0 {
        options = options.history_memory_bytes(shape.history_memory);
    }
    // Where pages may be lost, every second opening protects them again.
    let off = match shape.doublewrite {
        Copies::On => false,
        Copies::Missing => vfs.clock.random_u64().is_multiple_of(2),
        Copies::NotNeeded => true,
    };
    if off {
        options = options.doublewrite(Doublewrite::UnsafeOff);
    }
    if shape.history_files > 0 {
        options = options.history_disk_bytes(shape.history_files);
    }
    // In every second opening the checkpoint moves during replay.
    let seldom = vfs.clock.random_u64().is_multiple_of(2);
    let sizes = Sizes {
        frames: shape.frames,
        segment_blocks: shape.segment_blocks,
        ring_blocks: RING_BLOCKS,
        doublewrite_pages: shape.doublewrite_pages,
        grow_pages: shape.grow_pages,
        replay_window_bytes: REPLAY_WINDOW_BYTES,
        replay_checkpoint_us: if seldom { 3_000_000 } else { 0 },
        head_bytes: if vfs.clock.random_u64().is_multiple_of(4) { 64 << 20 } else { HEAD_BYTES },
    };
    sized(options, sizes)
}

impl Subject for Engine {
    fn open(&self, vfs: &Vfs, dir: &Path, shape: &Shape) -> Result<Arc<dyn Database>> {
        Ok(Arc::new(EngineDb(open(vfs, dir, &options(vfs, shape)).map_err(fail)?)))
    }
    fn is_engine(&self) -> bool {
        true
    }
}

impl Database for EngineDb {
    fn create_table(&self, name: &str) -> Result {
        self.0.create_table(name).map(drop).map_err(fail)
    }
    fn load_table(&self, name: &str, rows: &RowList, commit: bool) -> Result {
        let mut load = self.0.begin_bulk_load(name).map_err(fail)?;
        rows.iter().try_for_each(|(key, value)| load.push(key, value)).map_err(fail)?;
        if commit { load.commit().map(drop).map_err(fail) } else { Ok(()) }
    }
    fn drop_table(&self, name: &str) -> Result {
        self.0.drop_table(name).map_err(fail)
    }
    fn rename_table(&self, from: &str, to: &str) -> Result {
        self.0.rename_table(from, to).map_err(fail)
    }
    fn change_tables(&self, changes: &[subject::TableChange]) -> Result {
        let changes: Vec<_> = changes.iter().map(table_change).collect();
        self.0.change_tables(&changes, LOCK_WAIT).map_err(fail)
    }
    fn metadata(&self, table: &str) -> Result<Vec<u8>> {
        Ok(self.0.open_table(table).map_err(fail)?.metadata())
    }
    fn take_number(&self, table: &str) -> Result<u64> {
        let step = CounterStep { offset: 1, increment: 1, count: 1, max: u64::MAX };
        let taken = self.0.open_table(table).map_err(fail)?.take_values(step);
        Ok(taken.expect("numbers do not end").first)
    }
    fn next_number(&self, table: &str) -> Result<u64> {
        Ok(self.0.open_table(table).map_err(fail)?.next_value())
    }
    fn table_names(&self) -> Result<Vec<String>> {
        self.0.table_names().map_err(fail)
    }
    fn begin(&self, how: How) -> Result<Box<dyn Tx>> {
        let isolation = match how.isolation {
            Isolation::ReadCommitted => millpond::Isolation::ReadCommitted,
            Isolation::RepeatableRead => millpond::Isolation::RepeatableRead,
            Isolation::Serializable => millpond::Isolation::Serializable,
        };
        let options = TxnOptions::new().isolation(isolation).durability(of(how.durability));
        let tx = self.0.begin_with(options).map_err(fail)?;
        let repeatable = isolation != millpond::Isolation::ReadCommitted;
        Ok(Box::new(EngineTx { db: self.0.clone(), tx, repeatable, savepoints: Vec::new() }))
    }
    fn prepared(&self) -> Result<Vec<Vec<u8>>> {
        self.0.prepared().map_err(fail)
    }
    fn bookmark(&self) -> Result<Vec<u8>> {
        self.0.bookmark().map(Option::unwrap_or_default).map_err(fail)
    }
    fn commit_prepared(&self, xid: &[u8]) -> Result {
        self.0.commit_prepared(xid).map_err(fail)
    }
    fn rollback_prepared(&self, xid: &[u8]) -> Result {
        self.0.rollback_prepared(xid).map_err(fail)
    }
    fn checkpoint(&self) -> Result {
        self.0.checkpoint().map_err(fail)
    }
    fn set_doublewrite(&self, on: bool) -> Result {
        let wanted = if on { Doublewrite::On } else { Doublewrite::UnsafeOff };
        self.0.set_doublewrite(wanted).map_err(fail)
    }
    fn set_redo_dir(&self, dir: &Path) -> Result {
        self.0.set_redo_dir(dir).map_err(fail)
    }
    fn set_doublewrite_dir(&self, dir: &Path) -> Result {
        self.0.set_doublewrite_dir(dir).map_err(fail)
    }
    fn redo_is_moving(&self) -> bool {
        self.0.redo_dir_before().is_some()
    }
    fn set_frames(&self, frames: usize) -> Result {
        set_frames(&self.0, frames).map_err(fail)
    }
    fn check(&self) -> Result<Vec<String>> {
        Ok(self.0.check().map_err(fail)?.problems)
    }
    fn unreachable(&self) -> Result<Option<u64>> {
        Ok(self.0.check().map_err(fail)?.unreachable_pages)
    }
    fn figure(&self, name: &str) -> u64 {
        self.0.metrics().get(name).map_or(0, |value| value as u64)
    }
    fn close(&self) -> Result {
        self.0.close().map_err(fail)?;
        // Rule Bp5: no order of steps may make a caller write a page.
        match self.0.metrics().get("pages_written_foreground") {
            Some(0.0) => Ok(()),
            pages => Err(Fail::Other(format!("callers' threads wrote {pages:?} pages"))),
        }
    }
}

impl EngineTx {
    fn table(&self, name: &str) -> Result<Table> {
        self.db.open_table(name).map_err(fail)
    }
}

impl Tx for EngineTx {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.tx.get(&self.table(table)?, key).map_err(fail)
    }
    fn get_for_update(&mut self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let table = self.table(table)?;
        self.tx.get_for_update(&table, key).map_err(fail)
    }
    fn insert(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result {
        let table = self.table(table)?;
        self.tx.insert(&table, key, value).map_err(fail)
    }
    fn put(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result {
        let table = self.table(table)?;
        self.tx.put(&table, key, value).map_err(fail)
    }
    fn delete(&mut self, table: &str, key: &[u8]) -> Result<bool> {
        let table = self.table(table)?;
        self.tx.delete(&table, key).map_err(fail)
    }
    fn lock_rows(&mut self, table: &str, keys: Range<&[u8]>, how: LockRows) -> Result<RowList> {
        let mut cursor = Cursor::new(&self.table(table)?);
        cursor.set_bounds(keys);
        let lock = if how.exclusive { RowLock::Exclusive } else { RowLock::Shared };
        cursor.set_lock(Some(lock), if how.skip { LockWait::SkipLocked } else { LockWait::Wait });
        let mut shown = RowList::new();
        while shown.len() < how.most {
            let next = if how.backward { cursor.prev(&mut self.tx) } else { cursor.next(&mut self.tx) };
            let Some((key, value)) = next.map_err(fail)? else { break };
            shown.push((key.to_vec(), value.to_vec()));
        }
        Ok(shown)
    }
    fn scan(&self, table: &str) -> Result<RowList> {
        let table = self.table(table)?;
        let mut shown = RowList::new();
        let visit = |key: &[u8], value: &[u8]| {
            shown.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        };
        self.tx.scan(&table, .., visit).map_err(fail)?;
        if self.repeatable {
            // An iterator must show the same rows as the scan.
            let rows: RowList = self
                .tx
                .range(&table, ..)
                .map_err(fail)?
                .map(|row| row.map_err(fail))
                .collect::<Result<_>>()?;
            assert!(rows == shown, "a scan and a range show different rows");
        }
        Ok(shown)
    }
    fn change_row(&mut self, changes: &[subject::EntryChange]) -> Result<Option<usize>> {
        let tables = changes.iter().map(|change| self.table(change.table));
        let tables = tables.collect::<Result<Vec<_>>>()?;
        let entries = changes.iter().zip(&tables).map(|(change, table)| {
            let op = match &change.op {
                subject::EntryOp::Insert(value) => EntryOp::Insert(value),
                subject::EntryOp::Put(value) => EntryOp::Put(value),
                subject::EntryOp::Delete => EntryOp::Delete,
            };
            EntryChange { table, key: &change.key, op }
        });
        match self.tx.change_row(&entries.collect::<Vec<_>>(), Some(RowLock::Shared)).map_err(fail)? {
            RowOutcome::Changed => Ok(None),
            RowOutcome::Exists { index, .. } => Ok(Some(index)),
        }
    }
    fn raise_counter(&mut self, table: &str, next: u64) -> Result {
        let table = self.table(table)?;
        self.tx.raise_counter(&table, next).map_err(fail)
    }
    fn begin_statement(&mut self) -> Result {
        self.tx.begin_statement().map_err(fail)
    }
    fn rollback_statement(&mut self) -> Result {
        self.tx.rollback_statement().map_err(fail)
    }
    fn savepoint(&mut self) -> usize {
        self.savepoints.push(self.tx.savepoint());
        self.savepoints.len() - 1
    }
    fn rollback_to(&mut self, savepoint: usize) -> subject::Result {
        self.savepoints.truncate(savepoint + 1);
        self.tx.rollback_to(&self.savepoints[savepoint]).map_err(fail)
    }
    fn commit(self: Box<Self>) -> Result<u64> {
        self.tx.commit().map(|receipt| receipt.lsn).map_err(fail)
    }
    fn commit_async(self: Box<Self>) -> Result<u64> {
        let future = self.tx.commit_async().map_err(fail)?;
        // A thread that waits may lead a flush. A thread that polls leaves this to the log thread.
        // Both are tried.
        let receipt =
            if base::sync::thread_number().is_multiple_of(2) { future.wait() } else { block_on(future) };
        receipt.map(|receipt| receipt.lsn).map_err(fail)
    }
    fn rollback(self: Box<Self>) {
        self.tx.rollback();
    }
    fn prepare(self: Box<Self>, xid: &[u8]) -> Result {
        self.tx.prepare(xid).map_err(fail)
    }
    fn prepare_held(self: Box<Self>, xid: &[u8]) -> Result<Box<dyn Held>> {
        let held = self.tx.prepare_held(xid, millpond::Durability::Sync).map_err(fail)?;
        Ok(Box::new(EngineHeld { held, _db: self.db }))
    }
    fn commit_with_bookmark(self: Box<Self>, mark: &[u8], durability: Durability) -> Result<u64> {
        self.tx.commit_with_bookmark(mark, of(durability)).map(|receipt| receipt.lsn).map_err(fail)
    }
    fn prepare_repeatable(self: Box<Self>, xid: &[u8]) -> Result<Box<dyn Held>> {
        let held = self.tx.prepare_repeatable(xid, millpond::Durability::None).map_err(fail)?;
        Ok(Box::new(EngineHeld { held, _db: self.db }))
    }
}

fn of(durability: Durability) -> millpond::Durability {
    match durability {
        Durability::Sync => millpond::Durability::Sync,
        Durability::Written { ms, bytes } => millpond::Durability::Written { ms, bytes },
        Durability::Bounded { ms, bytes } => millpond::Durability::Bounded { ms, bytes },
        Durability::None => millpond::Durability::None,
    }
}

/// The handle goes before the database.
struct EngineHeld {
    held: PreparedTransaction,
    _db: Db,
}

impl Held for EngineHeld {
    fn commit_ordered(&mut self) -> Result {
        self.held.commit_ordered().map_err(fail)
    }
    fn commit_ordered_at(&mut self, mark: &[u8]) -> Result {
        self.held.commit_ordered_at(mark).map_err(fail)
    }
    fn commit(self: Box<Self>, durability: Durability) -> Result<u64> {
        self.held.commit(of(durability)).map(|receipt| receipt.lsn).map_err(fail)
    }
    fn rollback(self: Box<Self>) -> Result {
        self.held.rollback(millpond::Durability::Sync).map_err(fail)
    }
}
