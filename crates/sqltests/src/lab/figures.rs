//! What figures mean, against a second source: the server's own text of its state, and the load's
//! own count.

use super::place::{LIFE, Lab};
use super::runs::refused;
use crate::server;
use crate::steps::expect;
use std::collections::BTreeMap;

/// Figures by name.
type Figures = BTreeMap<String, f64>;

/// Reads the table of `age --all`: name, value, unit.
fn figures(lab: &Lab<'_>) -> Result<Figures, String> {
    let all = lab.ok(&["age", &lab.target("root"), "--all"])?;
    let read = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
    };
    Ok(all.lines().filter_map(read).collect())
}

fn of(figures: &Figures, name: &str) -> Result<f64, String> {
    figures.get(name).copied().ok_or_else(|| format!("there is no figure {name}"))
}

/// A status variable of the server.
fn status(lab: &Lab<'_>, name: &str) -> Result<f64, String> {
    let row = lab.sql(&format!("SHOW GLOBAL STATUS LIKE '{name}'"))?;
    row.split_whitespace().nth(1).and_then(|n| n.parse().ok()).ok_or_else(|| format!("no {name}: {row:?}"))
}

/// Levels lie between what they were before and after the server told its state as text.
pub(super) fn levels(lab: &Lab<'_>) -> Result<(), String> {
    let before = figures(lab)?;
    let text = lab.sql("SHOW ENGINE INNODB STATUS")?.replace("\\n", "\n");
    let after = figures(lab)?;
    let number = |name: &str| -> Result<f64, String> {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name));
        let word = line.and_then(|rest| rest.split_whitespace().next());
        word.and_then(|n| n.parse().ok()).ok_or_else(|| format!("the server's text has no {name:?}"))
    };
    let lsn = number("Log sequence number")?;
    for (name, value, slack) in [
        ("current_lsn", lsn, 0.0),
        ("checkpoint_lsn", number("Last checkpoint at")?, 0.0),
        // A checkpoint may come between.
        ("checkpoint_age_bytes", lsn - number("Last checkpoint at")?, 100_000.0),
        ("dirty_pages", number("Modified db pages")?, 20.0),
        ("lru_pages", number("Database pages")?, 20.0),
        ("free_frames", number("Free buffers")?, 20.0),
        ("history_transactions", number("History list length")?, 20.0),
    ] {
        let (a, b) = (of(&before, name)?, of(&after, name)?);
        let (least, most) = (a.min(b) - slack, a.max(b) + slack);
        if !(least..=most).contains(&value) {
            return Err(format!("{name} is from {a} to {b}, and the server's text says {value}"));
        }
    }
    Ok(())
}

/// Transactions of the load that fail or are taken back.
const ROLLED_BACK: f64 = 5.0;
const FAILED: f64 = 3.0;
/// What the server itself may do meanwhile.
const BESIDES: f64 = 20.0;

/// Counters grow as the load has counted, and bytes as the pages and the log that were written.
pub(super) fn counters(lab: &Lab<'_>) -> Result<(), String> {
    lab.sql(
        "CREATE DATABASE meant; CREATE TABLE meant.t (id INT PRIMARY KEY, v VARCHAR(200)) ENGINE=InnoDB; \
         INSERT INTO meant.t VALUES (1, ''); SET GLOBAL innodb_monitor_enable = 'trx_rollbacks'",
    )?;
    // An idle server writes pages while the program starts: each figure lies between two readings.
    let mut written = vec![bytes_written(lab)?];
    let before = figures(lab)?;
    written.push(bytes_written(lab)?);
    let transaction =
        "BEGIN; UPDATE t SET v = REPEAT('x', 200) WHERE id = 1; UPDATE t SET v = '' WHERE id = 1;";
    lab.sql(&format!(
        "USE meant; INSERT INTO t SELECT seq, REPEAT('y', 200) FROM seq_2_to_20000; {}{}",
        format!("{transaction} COMMIT;").repeat(100),
        format!("{transaction} ROLLBACK;").repeat(ROLLED_BACK as usize)
    ))?;
    for _ in 0..FAILED as usize {
        let again = lab.sql("INSERT INTO meant.t VALUES (1, '')").err().unwrap_or_default();
        expect("a second row with one key", &again, "Duplicate entry")?;
    }
    // Pages are written.
    lab.sql("FLUSH TABLES meant.t FOR EXPORT; UNLOCK TABLES")?;
    written.push(bytes_written(lab)?);
    let after = figures(lab)?;
    written.push(bytes_written(lab)?);
    let grew = |name: &str| Ok::<f64, String>(of(&after, name)? - of(&before, name)?);
    let near = |name: &str, wanted: f64, slack: f64| match grew(name)? {
        found if (found - wanted).abs() <= slack => Ok(()),
        found => Err(format!("{name} grew by {found}, wanted {wanted}, give or take {slack}")),
    };
    near("rollbacks", ROLLED_BACK + FAILED, 0.0)?;
    // The server is on this machine: its process worked, and so did its device, if it has one.
    if grew("processor_us_total")? <= 0.0 {
        return Err("the server's process has used no processor time".to_owned());
    }
    near("rollback_statements", ROLLED_BACK, 0.0)?;
    // Those that were rolled back are counted as if they had committed.
    near("commits", 100.0 + 1.0 + ROLLED_BACK + FAILED, BESIDES)?;
    // Two statements and a COMMIT: the reason why it is no count of transactions.
    let statements = grew("statement_commits")?;
    if statements < 300.0 {
        return Err(format!("statement_commits grew by {statements} only"));
    }
    let (least, most) = (written[2] - written[1], written[3] - written[0]);
    // Pages are counted when their writes begin, or when they end.
    let slack = 0.1 * most + 1e6;
    near("device_bytes_written", f64::midpoint(least, most), (most - least) / 2.0 + slack)
}

/// Bytes of pages, of their copies and of the log that the server has written since its start.
fn bytes_written(lab: &Lab<'_>) -> Result<f64, String> {
    let of = |name| status(lab, name);
    let pages = of("Innodb_pages_written")? + of("Innodb_dblwr_pages_written")?;
    Ok(pages * of("Innodb_page_size")? + of("Innodb_lsn_current")?)
}

/// Metrics that are off are counted as long as somebody watches, and off again afterwards.
pub(super) fn switched_on(lab: &Lab<'_>) -> Result<(), String> {
    lab.sql("SET GLOBAL innodb_monitor_disable = 'buffer_flush_%'")?;
    let on = if lab.is_mysql() { "STATUS = 'enabled'" } else { "ENABLED" };
    let query = format!("SELECT NAME FROM information_schema.INNODB_METRICS WHERE {on} ORDER BY 1");
    let enabled = || lab.sql(&query);
    let before = enabled()?;
    let target = lab.target("root");
    let top = ["top", &target, "--print", "120x40", "--seconds", "2"];
    let without = lab.ok(&top)?;
    expect("what switches them on", &without, "innodb_monitor_enable")?;
    let with = lab.ok(&[&top[..], &["--enable-metrics"]].concat())?;
    expect("what is switched on", &with, "adaptive")?;
    let after = enabled()?;
    if before != after {
        return Err(format!("the metrics were {before:?}, and are {after:?}"));
    }
    Ok(())
}

/// A server without InnoDB tells none of these figures: it was "nothing waits" in green, and the
/// advice was a setting that such a server refuses.
pub(super) fn without_innodb(lab: &Lab<'_>) -> Result<(), String> {
    let dir = lab.dir.join("without");
    let options = ["--skip-innodb", "--default-storage-engine=Aria", "--default-tmp-storage-engine=Aria"];
    let server = match &lab.base {
        Some(base) => server::start_release(base, &dir, LIFE, &options)?,
        None => server::start(&dir, LIFE, &options)?,
    };
    let target = format!("mysql://root@localhost/?socket={}", server.socket.display());
    let outcome = refused(&mut lab.millpond(&["age", &target])).and_then(|(_, said)| {
        expect("age", &said, "the server runs without InnoDB")?;
        if said.contains("innodb_monitor_enable") {
            return Err(format!("the advice is refused by the server: {said}"));
        }
        let picture = lab.ok(&["top", &target, "--print", "120x40", "--seconds", "2"])?;
        expect("top", &picture, "not known")?;
        if picture.contains("nothing waits") {
            return Err(format!("top says that all is well:\n{picture}"));
        }
        Ok(())
    });
    outcome.and(server::stop(&dir))
}
