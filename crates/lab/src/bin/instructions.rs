//! The work whose instructions `cargo xtask instructions` counts. Its thread does nothing else.
//!
//! Makes a new database with 10,000 rows of 8 + 200 bytes, which are all in memory. Then does the
//! operation 1,000 times to warm up, and as often as asked. The cost of the set-up does not depend
//! on that number.

#[path = "../bench/random.rs"]
mod random;

use clap::{Parser, ValueEnum};
use millpond::{Cursor, Db, Durability, Options, Seek, Table, TxnOptions};
use random::next;
use std::ops::ControlFlow;
use std::path::PathBuf;

const ROWS: u64 = 10_000;
const VALUE_BYTES: usize = 200;
const WARM_UP: u64 = 1_000;
/// Rows of a scan.
const SCANNED: u32 = 100;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Do one operation many times, for `cargo xtask instructions`
#[derive(Debug, Parser)]
#[command(name = "instructions")]
struct Cli {
    /// The operation
    #[arg(value_enum)]
    kind: Kind,
    /// How many times
    times: u64,
    /// Where to make the database
    dir: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// A durable update of a random row
    Update,
    /// An update of a random row that is not synced
    Unsynced,
    /// A transaction that reads a random row
    Read,
    /// A read of a random row in one long transaction
    Get,
    /// A transaction that scans 100 rows from a random one
    Scan,
    /// A transaction in which a cursor that is used again reads 100 rows from a random one
    Cursor,
}

fn work(db: &Db, table: &Table, kind: Kind, times: u64) -> Outcome {
    let mut state = 7;
    let mut key = || (next(&mut state) % ROWS).to_be_bytes();
    match kind {
        Kind::Update | Kind::Unsynced => {
            let durability = if matches!(kind, Kind::Update) { Durability::Sync } else { Durability::None };
            for n in 0..times {
                let mut tx = db.begin_with(TxnOptions::new().durability(durability))?;
                tx.put(table, &key(), &[n as u8; VALUE_BYTES])?;
                tx.commit()?;
            }
        }
        Kind::Read => {
            for _ in 0..times {
                assert!(db.begin()?.get(table, &key())?.is_some());
            }
        }
        Kind::Get => {
            let tx = db.begin()?;
            for _ in 0..times {
                assert!(tx.get(table, &key())?.is_some());
            }
        }
        Kind::Scan => {
            for _ in 0..times {
                let (from, mut left) = (key(), SCANNED);
                db.begin()?.scan(table, &from[..].., |_, value| {
                    assert_eq!(value.len(), VALUE_BYTES);
                    left -= 1;
                    if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })?;
            }
        }
        Kind::Cursor => {
            let mut cursor = Cursor::new(table);
            cursor.expect_rows(SCANNED as usize);
            for _ in 0..times {
                let mut tx = db.begin()?;
                let mut row = cursor.seek(&mut tx, Seek::AtOrAfter(&key()))?;
                for _ in 1..SCANNED {
                    assert!(row.is_none_or(|(_, value)| value.len() == VALUE_BYTES));
                    row = cursor.next(&mut tx)?;
                }
            }
        }
    }
    Ok(())
}

fn main() -> Outcome {
    let Cli { kind, times, dir } = Cli::parse();
    let options = Options::new().buffer_pool_bytes(64 << 20).redo_capacity_bytes(64 << 20);
    let db = options.open(dir)?;
    let table = db.bulk_load("rows", (0..ROWS).map(|n| (n.to_be_bytes(), [1; VALUE_BYTES])))?;
    // Reads all pages into memory.
    assert_eq!(db.begin()?.range(&table, ..)?.count() as u64, ROWS);
    work(&db, &table, kind, WARM_UP)?;
    work(&db, &table, kind, times)?;
    db.close()?;
    Ok(())
}
