//! The tests of an application: each changes rows in a transaction that is rolled back, with all
//! files on a disk, and with all in memory.

use super::finding::Finding;
use super::place::Place;
use super::private_server::PrivateServer;
use super::room::Room;
use super::sides::Sides;
use super::sql::Sql;
use crate::own_process;
use base::prng::Prng;
use millpond::{Db, Table};
use output::failure::Outcome;
use output::stop;
use std::time::Instant;

/// Tables of the application.
const TABLES: u32 = 20;
/// What a test inserts; it reads them, and changes half of them.
const ROWS: u32 = 10;

/// A suite that has run.
#[derive(Clone, Copy, Debug)]
struct Ran {
    seconds: f64,
    /// Rows that are left: there must be none.
    left: u64,
}

/// Runs the suite in both places.
pub(super) fn in_memory(room: &Room<'_>) -> Outcome<Finding> {
    let begun = Instant::now();
    let tests = room.either(500, 5000);
    let mut ran = Vec::new();
    for (place, all) in [("disk", false), ("memory", true)] {
        let files = Place::of(room, [all; 3])?;
        let innodb = format!("D0.B3-innodb-{place}");
        let server = room.server_in(files.data, &innodb, &files.innodb(&innodb))?;
        let innodb = over_sql(&server, "InnoDB", tests)?;
        server.end()?;
        let mut in_server = None;
        if room.has_plugin() {
            let name = format!("D0.B3-server-{place}");
            let server = room.server_in(files.data, &name, &files.plugin(&name))?;
            in_server = Some(over_sql(&server, "Millpond", tests)?);
            server.end()?;
        }
        let dir = files.data.join(format!("D0.B3-millpond-{place}"));
        let db = own_process::options().open(&dir)?;
        let millpond = in_process(&db, tests);
        db.close()?;
        room.remove(&dir)?;
        ran.push(Sides { innodb, millpond: millpond?, in_server });
    }
    let left: u64 = ran.iter().flat_map(Sides::all).map(|one| one.left).sum();
    let seconds = |i: usize| ran.get(i).map(|sides: &Sides<Ran>| sides.innodb.seconds);
    let row = |i: usize, place: &str, published| {
        ran[i].row(&format!("all files {place}"), Some(published), "s", |one| Some(one.seconds))
    };
    Ok(Finding {
        rows: vec![row(0, "on the disk", "32.9"), row(1, "in memory", "32.6")],
        holds: verdict(seconds(0).zip(seconds(1))),
        scaled: format!(
            "{tests} tests that insert {ROWS} rows each into {TABLES} tables, read them, change half of them, and roll back; the article's suite is that of an application, in Ruby. The tables are made before. What is rolled back needs no sync."
        ),
        check: if left == 0 { "ok".to_owned() } else { format!("{left} rows were not rolled back") },
        seconds: begun.elapsed().as_secs_f64(),
    })
}

fn over_sql(server: &PrivateServer, engine: &str, tests: u32) -> Outcome<Ran> {
    let mut sql = Sql::to(server)?;
    for n in 0..TABLES {
        sql.run(&format!(
            "CREATE TABLE app{n} (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(60) NOT NULL) ENGINE={engine}"
        ))?;
    }
    let mut rng = Prng::new(3);
    let begun = Instant::now();
    for test in 0..tests {
        sql.run("BEGIN")?;
        for n in 0..ROWS {
            let table = rng.next_u64() % u64::from(TABLES);
            let name = format!("test {test}, row {n}");
            sql.run(&format!("INSERT INTO app{table} (name) VALUES ('{name}')"))?;
            sql.number(&format!("SELECT COUNT(*) FROM app{table} WHERE id = LAST_INSERT_ID()"))?;
            if n % 2 == 0 {
                sql.run(&format!("UPDATE app{table} SET name = 'other' WHERE id = LAST_INSERT_ID()"))?;
            }
        }
        sql.run("ROLLBACK")?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let mut left = 0;
    for n in 0..TABLES {
        left += sql.number(&format!("SELECT COUNT(*) FROM app{n}"))?;
    }
    Ok(Ran { seconds, left })
}

fn in_process(db: &Db, tests: u32) -> Outcome<Ran> {
    let names: Vec<String> = (0..TABLES).map(|n| format!("app{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let tables: Vec<Table> = db.create_tables(&names)?;
    let mut rng = Prng::new(3);
    let begun = Instant::now();
    for test in 0..tests {
        stop::check()?;
        let mut tx = db.begin()?;
        for n in 0..ROWS {
            let table = &tables[(rng.next_u64() % u64::from(TABLES)) as usize];
            let key = (test * ROWS + n).to_be_bytes();
            tx.insert(table, &key, format!("test {test}, row {n}").as_bytes())?;
            tx.get(table, &key)?;
            if n % 2 == 0 {
                tx.put(table, &key, b"other")?;
            }
        }
        tx.rollback();
    }
    let seconds = begun.elapsed().as_secs_f64();
    let mut left = 0;
    for table in &tables {
        left += db.begin()?.range(table, ..)?.count() as u64;
    }
    Ok(Ran { seconds, left })
}

/// A time that differs by less than this is the same.
const SAME: f64 = 0.1;

/// Says whether memory helps InnoDB.
fn verdict(innodb: Option<(f64, f64)>) -> String {
    let Some((disk, memory)) = innodb else { return "Nothing was run.".to_owned() };
    let gain = 1.0 - memory / disk;
    let holds = if gain < SAME { "It holds" } else { "It does not show here" };
    format!("{holds}: in memory InnoDB needs {:.0} % of the time on the disk.", 100.0 * (1.0 - gain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_compares_both_places() {
        assert_eq!(
            verdict(Some((32.9, 32.6))),
            "It holds: in memory InnoDB needs 99 % of the time on the disk."
        );
        assert!(verdict(Some((10.0, 5.0))).starts_with("It does not show"));
    }
}
