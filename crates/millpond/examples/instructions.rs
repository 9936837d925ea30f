//! The work whose instructions `cargo xtask instructions` counts. Its thread does nothing else.
//!
//! ```text
//! cargo run --release -p millpond --example instructions -- update|unsynced|read|get|scan N DIR
//! ```
//! Makes a new database in DIR with 10,000 rows of 8 + 200 bytes, which are all in memory. Then,
//! after 1,000 times to warm up, N times: a durable update of a random row (`update`), an unsynced
//! update (`unsynced`), a transaction that reads a random row (`read`), a read in one long
//! transaction (`get`), or a transaction that scans 100 rows from a random one (`scan`). The cost
//! of the set-up does not depend on N.

#[path = "common/random.rs"]
mod random;

use millpond::{Db, Durability, Options, Table, TxnOptions};
use random::next;
use std::ops::ControlFlow;
use std::path::Path;

const ROWS: u64 = 10_000;
const VALUE_BYTES: usize = 200;
const WARM_UP: u64 = 1_000;
/// Rows of a scan.
const SCANNED: u32 = 100;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn work(db: &Db, table: &Table, what: &str, times: u64) -> Outcome {
    let mut state = 7;
    let mut key = || (next(&mut state) % ROWS).to_be_bytes();
    match what {
        "update" | "unsynced" => {
            let durability = if what == "update" { Durability::Sync } else { Durability::None };
            for n in 0..times {
                let mut tx = db.begin_with(TxnOptions::new().durability(durability))?;
                tx.put(table, &key(), &[n as u8; VALUE_BYTES])?;
                tx.commit()?;
            }
        }
        "read" => {
            for _ in 0..times {
                assert!(db.begin()?.get(table, &key())?.is_some());
            }
        }
        "get" => {
            let tx = db.begin()?;
            for _ in 0..times {
                assert!(tx.get(table, &key())?.is_some());
            }
        }
        "scan" => {
            for _ in 0..times {
                let (from, mut left) = (key(), SCANNED);
                db.begin()?.scan(table, &from[..].., |_, value| {
                    assert_eq!(value.len(), VALUE_BYTES);
                    left -= 1;
                    if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })?;
            }
        }
        other => return Err(format!("{other}: update, unsynced, read, get or scan").into()),
    }
    Ok(())
}

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [what, times, dir] = &args[..] else {
        return Err("usage: instructions update|unsynced|read|get|scan N DIR".into());
    };
    let options = Options::new().buffer_pool_bytes(64 << 20).redo_capacity_bytes(64 << 20);
    let db = options.open(Path::new(dir))?;
    let table = db.bulk_load("rows", (0..ROWS).map(|n| (n.to_be_bytes(), [1; VALUE_BYTES])))?;
    // Reads all pages into memory.
    assert_eq!(db.begin()?.range(&table, ..)?.count() as u64, ROWS);
    work(&db, &table, what, WARM_UP)?;
    work(&db, &table, what, times.parse()?)?;
    db.close()?;
    Ok(())
}
