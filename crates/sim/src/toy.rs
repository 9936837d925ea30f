//! The reference database: so simple that one can see that it is correct, with variants that are
//! wrong in known ways. All rows are in memory. One log file has a checksummed record for each
//! change and is synced at each commit.
//!
//! It tests the simulator, which must find nothing in the correct variant and something in each
//! wrong one.

use crate::history::{DbState, Effect, RowWrite, Rows};
use crate::subject::{Database, Durability, Fail, How, Isolation, Result, RowList, Shape, Subject, Tx};
use base::codec::{Put, Reader};
use base::sync::{Condvar, Mutex};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use vfs::{Create, File, OpenMode, Vfs};

/// How the toy is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It is correct.
    None,
    /// Commits are not synced.
    NoSync,
    /// The directory of the log is not synced.
    NoDirSync,
    /// The log's end is not checked.
    NoChecksum,
    /// The last complete record is treated as a torn one.
    EndTooEarly,
    /// A transaction is logged in two records.
    NotAtomic,
}

/// The toy as a subject.
#[derive(Clone, Copy, Debug)]
pub struct Toy(pub Flaw);

#[derive(Debug)]
struct LoggedState {
    state: DbState,
    /// Where the log ends.
    end: u64,
    tables: u64,
}

struct ToyDb {
    flaw: Flaw,
    file: Arc<dyn File>,
    _lock: Box<dyn Send + Sync>,
    inner: Mutex<LoggedState>,
    /// The locks of rows and whole tables, and how many transactions were begun.
    locks: Mutex<(Vec<Lock>, u64)>,
    /// Pairs of a transaction and a table that it uses.
    users: Mutex<Vec<(u64, u64)>>,
    /// Notified when a transaction no longer uses its tables.
    left: Condvar,
    /// Prepared transactions: the id under which each holds its locks.
    prepared: Mutex<BTreeMap<Vec<u8>, u64>>,
    unlocked: Condvar,
}

/// The transaction, the table, and the row; without a row the whole table is locked.
type Lock = (u64, u64, Option<Vec<u8>>);

struct ToyTx {
    db: Arc<ToyDb>,
    id: u64,
    writes: Vec<RowWrite>,
    savepoints: Vec<usize>,
    how: How,
    /// It keeps its locks until it is decided.
    prepared: bool,
    /// What plain reads see at REPEATABLE READ, taken by the first one.
    snapshot: OnceCell<DbState>,
}

fn io(e: std::io::Error) -> Fail {
    Fail::Other(e.to_string())
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.put_u32(bytes.len() as u32);
    out.extend_from_slice(bytes);
}

fn encode(effect: &Effect) -> Vec<u8> {
    let mut out = Vec::new();
    let rows = |out: &mut Vec<u8>, writes: &[RowWrite]| {
        out.put_u32(writes.len() as u32);
        for (table, key, value) in writes {
            out.put_u64(*table);
            put_bytes(out, key);
            out.put_u8(u8::from(value.is_some()));
            put_bytes(out, value.as_deref().unwrap_or_default());
        }
    };
    match effect {
        Effect::Commit(writes) => {
            out.put_u8(1);
            rows(&mut out, writes);
        }
        Effect::Create(name, number) => {
            out.put_u8(2);
            put_bytes(&mut out, name.as_bytes());
            out.put_u64(*number);
        }
        Effect::Drop(name) => {
            out.put_u8(3);
            put_bytes(&mut out, name.as_bytes());
        }
        Effect::Rename(from, to) => {
            out.put_u8(4);
            put_bytes(&mut out, from.as_bytes());
            put_bytes(&mut out, to.as_bytes());
        }
        Effect::Prepare(xid, writes) => {
            out.put_u8(5);
            put_bytes(&mut out, xid);
            rows(&mut out, writes);
        }
        Effect::CommitPrepared(xid) => {
            out.put_u8(6);
            put_bytes(&mut out, xid);
        }
        Effect::RollbackPrepared(xid) => {
            out.put_u8(7);
            put_bytes(&mut out, xid);
        }
        Effect::Load(name, number, list) => {
            out.put_u8(8);
            put_bytes(&mut out, name.as_bytes());
            out.put_u64(*number);
            let row = |(key, value): &(Vec<u8>, Vec<u8>)| (*number, key.clone(), Some(value.clone()));
            rows(&mut out, &list.iter().map(row).collect::<Vec<_>>());
        }
        Effect::ChangeTables(_) => unreachable!("only the engine changes sets of tables"),
    }
    out
}

fn decode(bytes: &[u8]) -> Option<Effect> {
    let r = &mut Reader::new(bytes);
    fn bytes_of(r: &mut Reader<'_>) -> Option<Vec<u8>> {
        let n = r.u32().ok()? as usize;
        Some(r.bytes(n).ok()?.to_vec())
    }
    fn name(r: &mut Reader<'_>) -> Option<String> {
        String::from_utf8(bytes_of(r)?).ok()
    }
    fn rows(r: &mut Reader<'_>) -> Option<Vec<RowWrite>> {
        let n = r.u32().ok()?;
        (0..n)
            .map(|_| {
                let table = r.u64().ok()?;
                let key = bytes_of(r)?;
                let there = r.u8().ok()? == 1;
                let value = bytes_of(r)?;
                Some((table, key, there.then_some(value)))
            })
            .collect()
    }
    Some(match r.u8().ok()? {
        1 => Effect::Commit(rows(r)?),
        2 => Effect::Create(name(r)?, r.u64().ok()?),
        3 => Effect::Drop(name(r)?),
        4 => Effect::Rename(name(r)?, name(r)?),
        5 => Effect::Prepare(bytes_of(r)?, rows(r)?),
        6 => Effect::CommitPrepared(bytes_of(r)?),
        7 => Effect::RollbackPrepared(bytes_of(r)?),
        8 => {
            let (name, number) = (name(r)?, r.u64().ok()?);
            let rows = rows(r)?.into_iter().filter_map(|(_, key, value)| Some((key, value?)));
            Effect::Load(name, number, rows.collect())
        }
        _ => return None,
    })
}

impl Subject for Toy {
    fn open(&self, vfs: &Vfs, dir: &Path, _: &Shape) -> Result<Arc<dyn Database>> {
        let flaw = self.0;
        match vfs.disk.create_dir(dir) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(io(e)),
            _ => {}
        }
        let lock = vfs.disk.lock(&dir.join("LOCK")).map_err(io)?;
        let mode = OpenMode { create: Create::IfMissing, direct: false, read_only: false };
        let file = vfs.disk.open(&dir.join("log"), mode).map_err(io)?;
        if flaw != Flaw::NoDirSync {
            vfs.disk.sync_dir(dir).map_err(io)?;
            vfs.disk.sync_dir(Path::new("/")).map_err(io)?;
        }
        let mut log = vec![0; file.len().map_err(io)? as usize];
        file.read_at(&mut log, 0).map_err(io)?;
        let mut inner = LoggedState { state: DbState::default(), end: 0, tables: 0 };
        let mut effects = Vec::new();
        loop {
            let mut r = Reader::new(&log[inner.end as usize..]);
            let (Ok(len), Ok(crc)) = (r.u32(), r.u32()) else { break };
            let Ok(body) = r.bytes(len as usize) else { break };
            if len == 0 || (flaw != Flaw::NoChecksum && base::crc::crc32c(body) != crc) {
                break;
            }
            let Some(effect) = decode(body) else { break };
            effects.push(effect);
            inner.end += 8 + u64::from(len);
        }
        if flaw == Flaw::EndTooEarly && inner.end < log.len() as u64 {
            effects.pop();
        }
        for effect in &effects {
            inner.state.apply(effect);
            if let Effect::Create(_, number) | Effect::Load(_, number, _) = effect {
                inner.tables = inner.tables.max(*number);
            }
        }
        // Bytes after the end must not become valid again when the log grows past them.
        file.set_len(inner.end).map_err(io)?;
        file.sync().map_err(io)?;
        let db = ToyDb {
            flaw,
            file,
            _lock: lock,
            inner: Mutex::new(inner),
            locks: Mutex::default(),
            users: Mutex::default(),
            left: Condvar::default(),
            prepared: Mutex::default(),
            unlocked: Condvar::new(),
        };
        Ok(Arc::new(ToyDatabase(Arc::new(db))))
    }
}

impl ToyDb {
    /// Logs an effect, makes it durable if `sync`, and then visible. Returns its LSN.
    fn log(&self, effect: Effect, sync: bool) -> Result<u64> {
        let mut inner = self.inner.lock();
        let parts = match &effect {
            Effect::Commit(writes) if self.flaw == Flaw::NotAtomic && writes.len() > 1 => {
                let (a, b) = writes.split_at(writes.len() / 2);
                vec![Effect::Commit(a.to_vec()), Effect::Commit(b.to_vec())]
            }
            _ => vec![effect.clone()],
        };
        let mut record = Vec::new();
        for part in parts {
            let body = encode(&part);
            record.put_u32(body.len() as u32);
            record.put_u32(base::crc::crc32c(&body));
            record.extend_from_slice(&body);
        }
        self.file.write_at(&record, inner.end).map_err(io)?;
        inner.end += record.len() as u64;
        if sync && self.flaw != Flaw::NoSync {
            self.file.sync().map_err(io)?;
        }
        inner.state.apply(&effect);
        Ok(inner.end)
    }

    fn new_number(&self, name: &str) -> Result<u64> {
        let mut inner = self.inner.lock();
        if inner.state.tables.contains_key(name) {
            return Err(Fail::TableExists);
        }
        inner.tables += 1;
        Ok(inner.tables)
    }

    fn unlock(&self, txn: u64) {
        self.locks.lock().0.retain(|(id, _, _)| *id != txn);
        self.users.lock().retain(|(id, _)| *id != txn);
        self.unlocked.notify_all();
        self.left.notify_all();
    }

    fn unlock_prepared(&self, xid: &[u8]) {
        let txn = self.prepared.lock().remove(xid);
        if let Some(txn) = txn {
            self.unlock(txn);
        }
    }

    /// Logs a drop or rename of a table after waiting until no transaction uses it.
    fn change_table(&self, name: &str, effect: Effect) -> Result {
        let mut users = self.users.lock();
        let number = self.number(name)?;
        while users.iter().any(|(_, table)| *table == number) {
            if self.left.wait_for(&mut users, Duration::from_secs(5)) {
                return Err(Fail::Retry("waited too long".into()));
            }
        }
        self.log(effect, true).map(drop)
    }

    fn number(&self, table: &str) -> Result<u64> {
        self.inner.lock().state.tables.get(table).copied().ok_or(Fail::NoSuchTable)
    }
}

/// The handle of the caller.
struct ToyDatabase(Arc<ToyDb>);

impl Database for ToyDatabase {
    fn create_table(&self, name: &str) -> Result {
        let number = self.0.new_number(name)?;
        self.0.log(Effect::Create(name.to_owned(), number), true).map(drop)
    }
    fn load_table(&self, name: &str, rows: &RowList, commit: bool) -> Result {
        let number = self.0.new_number(name)?;
        if commit {
            self.0.log(Effect::Load(name.to_owned(), number, rows.clone()), true)?;
        }
        Ok(())
    }
    fn drop_table(&self, name: &str) -> Result {
        self.0.change_table(name, Effect::Drop(name.to_owned()))
    }
    fn rename_table(&self, from: &str, to: &str) -> Result {
        self.0.change_table(from, Effect::Rename(from.to_owned(), to.to_owned()))
    }
    fn table_names(&self) -> Result<Vec<String>> {
        Ok(self.0.inner.lock().state.tables.keys().cloned().collect())
    }
    fn begin(&self, how: How) -> Result<Box<dyn Tx>> {
        let (writes, savepoints, snapshot) = Default::default();
        let id = {
            let mut locks = self.0.locks.lock();
            locks.1 += 1;
            locks.1
        };
        Ok(Box::new(ToyTx {
            db: Arc::clone(&self.0),
            id,
            writes,
            savepoints,
            how,
            prepared: false,
            snapshot,
        }))
    }
    fn prepared(&self) -> Result<Vec<Vec<u8>>> {
        Ok(self.0.inner.lock().state.prepared.keys().cloned().collect())
    }
    fn commit_prepared(&self, xid: &[u8]) -> Result {
        self.0.log(Effect::CommitPrepared(xid.to_vec()), true)?;
        self.0.unlock_prepared(xid);
        Ok(())
    }
    fn rollback_prepared(&self, xid: &[u8]) -> Result {
        self.0.log(Effect::RollbackPrepared(xid.to_vec()), true)?;
        self.0.unlock_prepared(xid);
        Ok(())
    }
    fn checkpoint(&self) -> Result {
        self.0.file.sync().map_err(io)
    }
    fn check(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
    fn unreachable(&self) -> Result<Option<u64>> {
        Ok(Some(0))
    }
    fn figure(&self, _: &str) -> u64 {
        0
    }
    fn close(&self) -> Result {
        self.checkpoint()
    }
}

impl Drop for ToyDatabase {
    fn drop(&mut self) {
        // A failure here loses no more than a power cut would: what was acknowledged is safe.
        let _ = self.checkpoint();
    }
}

impl ToyTx {
    /// Returns a table's rows as this transaction sees them, or the newest ones.
    fn rows(&self, table: &str, newest: bool) -> Result<Rows> {
        let number = self.table(table)?;
        if self.how.isolation == Isolation::Serializable {
            self.lock(table, None)?;
        }
        let rows = |state: &DbState| state.rows.get(&number).cloned().unwrap_or_default();
        let mut rows = if newest || self.how.isolation != Isolation::RepeatableRead {
            rows(&self.db.inner.lock().state)
        } else {
            rows(self.snapshot.get_or_init(|| self.db.inner.lock().state.clone()))
        };
        for (_, key, value) in self.writes.iter().filter(|(t, _, _)| *t == number) {
            match value {
                Some(value) => drop(rows.insert(key.clone(), value.clone())),
                None => drop(rows.remove(key)),
            }
        }
        Ok(rows)
    }

    /// Returns the table's number. No other transaction can drop or rename the table until this one
    /// ends.
    fn table(&self, name: &str) -> Result<u64> {
        let mut users = self.db.users.lock();
        let number = self.db.number(name)?;
        if !users.contains(&(self.id, number)) {
            users.push((self.id, number));
        }
        Ok(number)
    }

    /// Locks a row or a whole table. Waits for others for a second at most.
    fn lock(&self, table: &str, key: Option<&[u8]>) -> Result {
        let number = self.table(table)?;
        let overlaps = |a: &Option<Vec<u8>>| a.is_none() || key.is_none() || a.as_deref() == key;
        let mut locks = self.db.locks.lock();
        while locks.0.iter().any(|(id, t, k)| *id != self.id && *t == number && overlaps(k)) {
            if self.db.unlocked.wait_for(&mut locks, Duration::from_secs(1)) {
                return Err(Fail::Retry("waited too long".into()));
            }
        }
        locks.0.push((self.id, number, key.map(<[u8]>::to_vec)));
        Ok(())
    }

    fn write(&mut self, table: &str, key: &[u8], value: Option<&[u8]>) -> Result {
        let number = self.db.number(table)?;
        self.writes.push((number, key.to_vec(), value.map(<[u8]>::to_vec)));
        Ok(())
    }
}

impl Drop for ToyTx {
    fn drop(&mut self) {
        if !self.prepared {
            self.db.unlock(self.id);
        }
    }
}

impl Tx for ToyTx {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.rows(table, false)?.get(key).cloned())
    }
    fn get_for_update(&mut self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.lock(table, Some(key))?;
        Ok(self.rows(table, true)?.get(key).cloned())
    }
    fn insert(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result {
        self.lock(table, Some(key))?;
        if self.rows(table, true)?.contains_key(key) {
            return Err(Fail::KeyExists);
        }
        self.write(table, key, Some(value))
    }
    fn put(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result {
        self.lock(table, Some(key))?;
        self.write(table, key, Some(value))
    }
    fn delete(&mut self, table: &str, key: &[u8]) -> Result<bool> {
        self.lock(table, Some(key))?;
        let there = self.rows(table, true)?.contains_key(key);
        self.write(table, key, None)?;
        Ok(there)
    }
    fn scan(&self, table: &str) -> Result<RowList> {
        Ok(self.rows(table, false)?.into_iter().collect())
    }
    fn savepoint(&mut self) -> usize {
        self.savepoints.push(self.writes.len());
        self.savepoints.len() - 1
    }
    fn rollback_to(&mut self, savepoint: usize) -> Result {
        self.savepoints.truncate(savepoint + 1);
        self.writes.truncate(self.savepoints[savepoint]);
        Ok(())
    }
    fn commit(mut self: Box<Self>) -> Result<u64> {
        let writes = std::mem::take(&mut self.writes);
        if writes.is_empty() {
            return Ok(0);
        }
        self.db.log(
            Effect::Commit(writes),
            matches!(self.how.durability, Durability::Sync | Durability::Written { .. }),
        )
    }
    fn commit_async(self: Box<Self>) -> Result<u64> {
        self.commit()
    }
    fn rollback(self: Box<Self>) {}
    fn prepare(mut self: Box<Self>, xid: &[u8]) -> Result {
        let writes = std::mem::take(&mut self.writes);
        self.db.log(Effect::Prepare(xid.to_vec(), writes), true)?;
        self.prepared = true;
        self.db.prepared.lock().insert(xid.to_vec(), self.id);
        Ok(())
    }
}
