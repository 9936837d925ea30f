//! Restores a table with two indexes: over SQL, and in this process.

use super::place::Place;
use super::private_server::PrivateServer;
use super::room::Room;
use super::sql::Sql;
use crate::own_process;
use crate::workload::row::{Row, id_key, index_key};
use base::prng::Prng;
use millpond::{Db, Table};
use output::failure::{Failure, Outcome};
use output::stop;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::time::Instant;

/// Rows of a statement.
const ROWS: u32 = 1000;
/// The pool of each side, bytes: the table fits.
pub(super) const POOL: u64 = 2 << 30;
const SEED: u64 = 7;

/// What a restore has shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Restored {
    /// Seconds for the rows.
    pub(super) rows: f64,
    /// Seconds for the indexes, one after the other.
    pub(super) indexes: f64,
    /// Seconds for the indexes, both at the same time.
    pub(super) together: f64,
    /// Whether all rows are in the table and in the indexes.
    pub(super) whole: bool,
}

/// Restores it on a server.
pub(super) fn on_server(server: &PrivateServer, engine: &str, rows: u32) -> Outcome<Restored> {
    let mut sql = Sql::to(server)?;
    sql.run(&format!(
        "CREATE TABLE restored (id INT PRIMARY KEY, k INT UNSIGNED NOT NULL, c CHAR(120) NOT NULL, \
         pad CHAR(60) NOT NULL) DEFAULT CHARSET=latin1 ENGINE={engine}"
    ))?;
    let mut rng = Prng::new(SEED);
    let begun = Instant::now();
    for first in (1..=rows).step_by(ROWS as usize) {
        sql.run(&insert(first, rows.min(first + ROWS - 1), &mut rng))?;
    }
    let of_rows = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    sql.run("CREATE INDEX k ON restored (k)")?;
    sql.run("CREATE INDEX pad ON restored (pad)")?;
    let indexes = begun.elapsed().as_secs_f64();
    let mut whole = true;
    for index in ["PRIMARY", "k", "pad"] {
        let found = sql.number(&format!("SELECT COUNT(*) FROM restored FORCE INDEX ({index})"))?;
        whole &= found == u64::from(rows);
    }
    sql.run("ALTER TABLE restored DROP INDEX k, DROP INDEX pad")?;
    let begun = Instant::now();
    sql.run("ALTER TABLE restored ADD INDEX k (k), ADD INDEX pad (pad)")?;
    Ok(Restored { rows: of_rows, indexes, together: begun.elapsed().as_secs_f64(), whole })
}

/// Returns the statement that inserts these rows.
fn insert(first: u32, last: u32, rng: &mut Prng) -> String {
    let mut statement = "INSERT INTO restored VALUES ".to_owned();
    for id in first..=last {
        let row = row(rng);
        let text = |column: &[u8]| String::from_utf8_lossy(column).trim_end().to_owned();
        let comma = if id == first { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(statement, "{comma}({id},{},'{}','{}')", row.k, text(&row.c), text(&row.pad));
    }
    statement
}

fn row(rng: &mut Prng) -> Row {
    let k = rng.next_u64() as u32;
    Row::random(k, rng)
}

/// An index: its table's name, and its key of a row's id and value.
type Index = (&'static str, fn(u32, &Row) -> Vec<u8>);

const INDEXES: [Index; 2] = [
    ("restored_k", |id, row| index_key(row.k, id).to_vec()),
    ("restored_pad", |id, row| [&row.pad[..], &id_key(id)].concat()),
];

/// Restores it in this process, in a new database.
pub(super) fn in_process(room: &Room<'_>, place: &Place<'_>, name: &str, rows: u32) -> Outcome<Restored> {
    let (dir, redo) = (place.data.join(name), place.log.join(format!("{name}-log")));
    let db = own_process::options().buffer_pool_bytes(POOL).redo_dir(&redo).open(&dir)?;
    let restored = restore(&db, rows);
    let closed = db.close();
    room.remove(&dir)?;
    room.remove(&redo)?;
    closed?;
    restored
}

fn restore(db: &Db, rows: u32) -> Outcome<Restored> {
    let mut rng = Prng::new(SEED);
    let begun = Instant::now();
    let mut load = db.begin_bulk_load("restored")?;
    for id in 1..=rows {
        if id % ROWS == 0 {
            stop::check()?;
        }
        load.push(&id_key(id), &row(&mut rng).encode())?;
    }
    let table = load.commit()?;
    let of_rows = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let indexes = INDEXES.map(|index| build(db, &table, index));
    let of_indexes = begun.elapsed().as_secs_f64();
    let mut whole = count(db, &table)? == u64::from(rows);
    for index in indexes {
        whole &= count(db, &index?)? == u64::from(rows);
    }
    for (name, _) in INDEXES {
        db.drop_table(name)?;
    }
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let threads = INDEXES.map(|index| {
            scope.spawn({
                let table = &table;
                move || build(db, table, index).map(drop)
            })
        });
        let ends = threads.map(|thread| {
            thread.join().unwrap_or_else(|_| Err(Failure::failed("a thread that builds an index panicked")))
        });
        // Joins both before it returns the first failure.
        ends.into_iter().collect::<Outcome>()
    })?;
    let together = begun.elapsed().as_secs_f64();
    Ok(Restored { rows: of_rows, indexes: of_indexes, together, whole })
}

/// Builds an index: reads the rows, sorts its keys, and loads them.
fn build(db: &Db, table: &Table, (name, key): Index) -> Outcome<Table> {
    let mut keys = Vec::new();
    let mut broken = false;
    db.begin()?.scan(table, .., |id, value| {
        let id = id.try_into().ok().map(u32::from_be_bytes);
        match id.zip(Row::decode(value)) {
            Some((id, row)) => keys.push(key(id, &row)),
            None => broken = true,
        }
        if broken || stop::asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    stop::check()?;
    if broken {
        return Err(Failure::failed("a row of the restored table is none of this experiment"));
    }
    keys.sort_unstable();
    let mut load = db.begin_bulk_load(name)?;
    keys.iter().try_for_each(|key| load.push(key, b""))?;
    Ok(load.commit()?)
}

fn count(db: &Db, table: &Table) -> Outcome<u64> {
    let mut rows = 0;
    db.begin()?.scan(table, .., |_, _| {
        rows += 1;
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}
