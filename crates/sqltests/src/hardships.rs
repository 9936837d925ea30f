//! What can happen to a server with the plugin: it is killed under load, a page decays, the disk is
//! full, the plugin leaves and comes back, it is stopped while statements wait.

use super::binlog_kills;
use super::cuts;
use super::dumped;
use super::kills::{Counting, killed};
use super::monitor;
use super::repeated;
use super::replicas;
use super::reports;
use super::server::{self, Server};
use super::share::Share;
use super::snapshots;
use super::steps::{expect, refused, try_until};
use super::together;
use super::torn;
use super::xa;
use super::{is_root, make_dir, output, sql, watchdog};
use Case::{Shared, Whole};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A server of a test ends by itself, even if the test is killed.
const LIFE: Duration = Duration::from_secs(1800);
/// A case that has not ended by then is stuck.
const LONGEST: Duration = Duration::from_secs(900);
/// Bytes of the file system that is filled.
const SMALL_DISK: u64 = 256 << 20;
/// In each row of the table whose pages are damaged.
const MARK: &str = "a row of the damaged table";

/// A case, which gets a directory of its own.
enum Case {
    /// It runs as a whole.
    Whole(fn(&Path) -> Result<(), String>),
    /// It takes minutes, so it runs a share.
    Shared(fn(&Path, Share) -> Result<(), String>),
}

const CASES: [(&str, Case); 24] = [
    ("a database that stops says why, at once and to each statement", Whole(reports::stopped)),
    ("a definition that does not fit its trees is named", Whole(reports::misfits)),
    ("its status reads like InnoDB's, and deadlocks are told", Whole(monitor::shown)),
    ("the engine's directory is no schema, whatever is in it", Whole(reports::directory)),
    ("a server that is killed loses nothing that it has acknowledged", Whole(killed)),
    ("a killed server has in its tables what its binary log has", Shared(binlog_kills::killed)),
    ("a server whose power is cut has what it has acknowledged, if it syncs", Shared(cuts::cut)),
    ("what only the binary log has is repeated when the server starts", Whole(repeated::repeated)),
    ("what the binary log has of its last transaction decides in all engines", Whole(torn::torn)),
    ("what two engines have committed together is in both after a kill", Whole(together::both)),
    ("a replica has its primary's rows, although both are killed", Whole(replicas::follows)),
    ("a dump under load and the binary log from there on are the database", Whole(dumped::replayed)),
    ("a consistent snapshot is one point of both engines and the log", Whole(snapshots::at_one_point)),
    ("what XA has prepared outlives connection, stop and kill, and keeps its locks", Whole(xa::prepared)),
    ("what a killed server was making is dropped", Whole(leftovers)),
    ("the only copy of a partitioned table is dropped with its database and not before", Whole(only_copy)),
    ("partitions without a definition are dropped by the name of their table", Whole(nameless)),
    ("an index is found although the server ended while it was renamed", Whole(renamed)),
    ("a damaged page fails the statement and is named", Whole(damaged)),
    ("a full disk fails the statement and nothing else", Whole(full_disk)),
    ("the plugin leaves and comes back", Whole(plugin_leaves)),
    ("a server starts without the plugin, and with it again", Whole(without_plugin)),
    ("log and doublewrite move under load, and a killed server finds them", Whole(moved)),
    ("a server stops although statements wait for locks", Whole(stopped)),
];

/// Runs the cases whose names have `part`, each in a directory of its own below `dir`. Those that
/// take minutes run a share.
pub(super) fn run(dir: &Path, part: &str, share: Share) -> Result<(), String> {
    for (n, (name, case)) in CASES.iter().enumerate().filter(|(_, (name, _))| name.contains(part)) {
        let began = Instant::now();
        let dir = dir.join(n.to_string());
        make_dir(&dir)?;
        let outcome = watchdog::within(LONGEST, name, || match case {
            Whole(run) => run(&dir),
            Shared(run) => run(&dir, share),
        });
        if let Err(why) = outcome {
            // If one still runs.
            let _ = server::stop(&dir);
            return Err(format!("{name}: {why}"));
        }
        println!("ok      {name}, {:.1} s", began.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Log and doublewrite move there and back while clients count. Then the server is killed, and
/// started with options that name other directories.
fn moved(dir: &Path) -> Result<(), String> {
    let mut server = server::start(dir, LIFE, &[])?;
    sql(
        &server,
        "CREATE DATABASE test; CREATE TABLE test.counted (n INT PRIMARY KEY) ENGINE=Millpond; \
         CREATE TABLE test.numbered (n BIGINT PRIMARY KEY) ENGINE=Millpond; \
         CREATE SEQUENCE test.s ENGINE=Millpond",
    )?;
    let dirs = ["fast", "areas", "other"].map(|name| dir.join(name));
    dirs.iter().try_for_each(|dir| make_dir(dir))?;
    let [log, areas, other] = dirs.each_ref().map(|dir| dir.display().to_string());
    let set =
        |variable: &str, value: &str| format!("SET GLOBAL millpond_{variable} = {value}; SHOW WARNINGS");
    for (value, wanted) in [("'/missing'", "cannot list /missing"), ("'x'", "an absolute one is needed")] {
        expect("the warning", &sql(&server, &set("redo_dir", value))?, wanted)?;
    }
    std::fs::write(dir.join("other/foreign"), "").map_err(|e| e.to_string())?;
    let said = sql(&server, &set("doublewrite_dir", &format!("'{other}'")))?;
    expect("the warning", &said, "millpond_doublewrite_dir stays as it is")?;
    if is_root() {
        let said = sql(&server, &set("redo_dir", &format!("'{log}'")))?;
        expect("the warning", &said, "LOCK: Permission denied")?;
        output(Command::new("chown").arg(server::USER).args([&log, &areas, &other]))?;
    }
    let mut counting = Counting::start(&server, dir, 1)?;
    for (redo, doublewrite) in
        [(format!("'{log}'"), format!("'{areas}'")), ("DEFAULT".into(), "DEFAULT".into())]
    {
        for (variable, value) in [("redo_dir", &redo), ("doublewrite_dir", &doublewrite)] {
            let said = sql(&server, &set(variable, value))?;
            if !said.is_empty() {
                return Err(format!("millpond_{variable} = {value}: {said}"));
            }
        }
    }
    sql(&server, &set("doublewrite_dir", &format!("'{areas}'")))?;
    output(Command::new("kill").args(["-9", &server.process()?]))?;
    let _ = counting.client.wait();
    let last = counting.acknowledged()?.ok_or("nothing was acknowledged")?;
    server = server::start(dir, LIFE, &[&format!("--millpond-doublewrite-dir={other}")])?;
    let is = sql(&server, "SELECT @@millpond_redo_dir, @@millpond_doublewrite_dir")?;
    expect("the log", &is, "#millpond/redo\t")?;
    expect("the doublewrite", &is, &areas)?;
    let log = std::fs::read_to_string(server.log()).map_err(|e| e.to_string())?;
    expect("the server's log", &log, &format!("but it was moved to {areas}, and that counts"))?;
    let rows: u64 = sql(&server, "SELECT COUNT(*) FROM test.counted")?.parse().map_err(|e| format!("{e}"))?;
    if rows < last {
        return Err(format!("{last} rows were acknowledged, {rows} are there"));
    }
    expect("CHECK TABLE", &sql(&server, "CHECK TABLE test.counted")?, "OK")?;
    server::stop(dir)
}

/// The tree of an index has its new name already, and the definition has not.
fn renamed(dir: &Path) -> Result<(), String> {
    let server = server::start(dir, LIFE, &[])?;
    sql(
        &server,
        "CREATE DATABASE test; USE test; CREATE TABLE t (id INT PRIMARY KEY, k INT, UNIQUE KEY a (k), \
         KEY c (k, id)) ENGINE=Millpond; INSERT INTO t SELECT seq, seq FROM seq_1_to_100",
    )?;
    let definition = dir.join("data/test/t.frm");
    let before = std::fs::read(&definition).map_err(|e| format!("{}: {e}", definition.display()))?;
    sql(&server, "ALTER TABLE test.t RENAME INDEX a TO b, ALGORITHM=INSTANT")?;
    output(Command::new("kill").args(["-9", &server.process()?]))?;
    std::fs::write(&definition, before).map_err(|e| format!("{}: {e}", definition.display()))?;
    let server = server::start(dir, LIFE, &[])?;
    expect("a search", &sql(&server, "SELECT id FROM test.t FORCE INDEX (a) WHERE k = 77")?, "77")?;
    expect("a duplicate", &refused(&server, "INSERT INTO test.t VALUES (200, 5)")?, "for key 'a'")?;
    sql(&server, "ALTER TABLE test.t RENAME INDEX a TO d, ALGORITHM=INSTANT")?;
    expect("a search", &sql(&server, "SELECT id FROM test.t FORCE INDEX (d) WHERE k = 77")?, "77")?;
    expect("CHECK TABLE", &sql(&server, "CHECK TABLE test.t")?, "status\tOK")?;
    server::stop(dir)
}

/// Kills a server with a temporary table `wait` after it began to load indexes of a table.
fn kill_while_indexes_are_loaded(server: &Server, wait: Duration) -> Result<(), String> {
    let client = |text: &str| {
        let mut client = server.client();
        client.args(["--execute", text]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        client.spawn().map_err(|e| format!("cannot start a client: {e}"))
    };
    let mut clients = [
        client(
            "CREATE TEMPORARY TABLE test.temporary (id INT PRIMARY KEY, a INT, KEY (a)) ENGINE=Millpond; \
             BEGIN; INSERT INTO test.temporary VALUES (1, 1); SELECT SLEEP(3600)",
        )?,
        client("ALTER TABLE test.t ADD KEY a (a), ADD KEY b (b), ADD KEY ab (a, b)")?,
    ];
    let state = "SELECT GROUP_CONCAT(state) FROM information_schema.processlist";
    try_until("the load of the indexes", || {
        let states = sql(server, state)?;
        Ok(states.contains("User sleep") && states.contains("keys"))
    })?;
    std::thread::sleep(wait);
    output(Command::new("kill").args(["-9", &server.process()?]))?;
    clients.iter_mut().try_for_each(|client| client.wait().map(drop)).map_err(|e| e.to_string())
}

/// Kills a server that has temporary tables and changes a table by loading its indexes.
fn leftovers(dir: &Path) -> Result<(), String> {
    const TRIES: u32 = 6;
    const DROPPED: &str = "that a crash had left";
    let mut server = server::start(dir, LIFE, &[])?;
    // Each start begins a new log.
    let dropped = |server: &Server| {
        let log =
            std::fs::read_to_string(server.log()).map_err(|e| format!("{}: {e}", server.log().display()));
        log.map(|log| log.contains(DROPPED))
    };
    sql(
        &server,
        "CREATE DATABASE test; USE test; \
         CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(60), b VARCHAR(60)) ENGINE=Millpond; \
         INSERT INTO t SELECT seq, MD5(seq), MD5(-seq) FROM seq_1_to_200000",
    )?;
    for turn in 0.. {
        kill_while_indexes_are_loaded(&server, Duration::from_millis(200 >> turn))?;
        server = server::start(dir, LIFE, &[])?;
        if !sql(&server, "SHOW CREATE TABLE test.t")?.contains("KEY `ab`") {
            break;
        }
        // The statement ended before the server did: the next kill comes sooner.
        if turn == TRIES {
            return Err("ALTER TABLE ends before the server is killed".into());
        }
        sql(&server, "ALTER TABLE test.t DROP KEY a, DROP KEY b, DROP KEY ab")?;
    }
    if !dropped(&server)? {
        return Err("the log names no tree that was dropped".into());
    }
    expect("the tables", &sql(&server, "SHOW TABLES FROM test")?, "t")?;
    sql(&server, "ALTER TABLE test.t ADD KEY a (a), ADD KEY b (b)")?;
    expect("CHECK TABLE", &sql(&server, "CHECK TABLE test.t")?, "OK")?;
    server::stop(dir)?;
    server = server::start(dir, LIFE, &[])?;
    if dropped(&server)? {
        return Err("something was left for the second start".into());
    }
    server::stop(dir)
}

/// A server that is killed while it drops a partitioned table may have removed the definition
/// alone.
fn nameless(dir: &Path) -> Result<(), String> {
    const TABLE: &str = "CREATE TABLE test.t (id INT PRIMARY KEY, v INT, KEY (v)) ENGINE=Millpond \
                         PARTITION BY HASH (id) PARTITIONS 3";
    let server = server::start(dir, LIFE, &[])?;
    sql(&server, &format!("CREATE DATABASE test; {TABLE}; INSERT INTO test.t VALUES (1, 1), (2, 2)"))?;
    sql(&server, "CREATE TABLE test.t2 (id INT PRIMARY KEY) ENGINE=Millpond PARTITION BY HASH (id)")?;
    output(Command::new("kill").args(["-9", &server.process()?]))?;
    for end in ["frm", "par"] {
        let file = server.data().join("test/t").with_extension(end);
        std::fs::remove_file(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    let server = server::start(dir, LIFE, &[])?;
    expect("a table of this name", &refused(&server, TABLE)?, "already exist")?;
    sql(&server, "DROP TABLE test.t")?;
    sql(&server, &format!("{TABLE}; INSERT INTO test.t VALUES (3, 3); INSERT INTO test.t2 VALUES (1)"))?;
    expect("the rows", &sql(&server, "SELECT * FROM test.t")?, "3\t3")?;
    server::stop(dir)
}

/// A server that is killed while ALTER TABLE moves a partitioned table may have neither the old
/// table nor the definition of the new one at its next start. Here it is killed earlier, and the
/// definition and the list of what it was doing are removed.
fn only_copy(dir: &Path) -> Result<(), String> {
    let server = server::start(dir, LIFE, &[])?;
    sql(
        &server,
        "CREATE DATABASE test; USE test; CREATE TABLE t (id INT PRIMARY KEY, v INT) ENGINE=Millpond \
         PARTITION BY HASH (id) PARTITIONS 3; INSERT INTO t SELECT seq, seq FROM seq_1_to_200000",
    )?;
    let mut alter = server.client();
    alter.args(["--execute", "ALTER TABLE test.t ADD COLUMN w INT, ALGORITHM=COPY"]);
    let mut alter = alter.stderr(Stdio::null()).spawn().map_err(|e| format!("cannot start a client: {e}"))?;
    let state = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'copy to tmp table'";
    try_until("the copy", || Ok(sql(&server, state)? == "1"))?;
    output(Command::new("kill").args(["-9", &server.process()?]))?;
    alter.wait().map_err(|e| format!("a client: {e}"))?;
    let files = std::fs::read_dir(server.data().join("test")).map_err(|e| format!("test: {e}"))?;
    let mut names = files
        .flatten()
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|end| end == "frm"));
    let definition = names.find(|path| path.to_string_lossy().contains("#sql-alter"));
    let definition = definition.ok_or("the server was making no copy when it was killed")?;
    for file in [&definition, &server.data().join("ddl_recovery.log")] {
        std::fs::remove_file(file).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    let again = server::start(dir, LIFE, &[])?;
    let copies =
        "SELECT COUNT(*) FROM information_schema.MILLPOND_TABLES WHERE table_name LIKE '%sql-alter%'";
    expect("the partitions of the copy", &sql(&again, copies)?, "3")?;
    // The server does not know the file, which is in the way of DROP DATABASE.
    let list = definition.with_extension("par");
    std::fs::remove_file(&list).map_err(|e| format!("{}: {e}", list.display()))?;
    sql(&again, "DROP DATABASE test")?;
    expect("the partitions of a dropped database", &sql(&again, copies)?, "0")?;
    server::stop(dir)
}

fn damaged(dir: &Path) -> Result<(), String> {
    let server = server::start(dir, LIFE, &[])?;
    sql(
        &server,
        &format!(
            "CREATE DATABASE test; USE test; \
             CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200)) ENGINE=Millpond; \
             CREATE TABLE u (id INT PRIMARY KEY) ENGINE=Millpond; INSERT INTO u VALUES (1); \
             INSERT INTO t SELECT seq, CONCAT('{MARK} ', seq) FROM seq_1_to_200000"
        ),
    )?;
    server::stop(dir)?;
    let damaged = damage(&server.data().join("#millpond/pages"))?;
    let server = server::start(dir, LIFE, &[])?;
    let error = refused(&server, "SELECT SUM(LENGTH(v)) FROM test.t")?;
    expect("the error", &error, "page")?;
    let named = error.split("page ").nth(1).and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    let named = named.and_then(|number| number.parse().ok());
    if named.is_none_or(|number| !damaged.contains(&number)) {
        return Err(format!("a damaged page is one of {damaged:?}; the error is {error:?}"));
    }
    expect(
        "another table",
        &sql(&server, "INSERT INTO test.u VALUES (2); SELECT COUNT(*) FROM test.u")?,
        "2",
    )?;
    expect("CHECK TABLE", &sql(&server, "CHECK TABLE test.t")?, "page")?;
    expect("CHECK TABLE of another", &sql(&server, "CHECK TABLE test.u")?, "OK")?;
    server::stop(dir)
}

/// Changes a byte in each page of a file that holds a row with the mark, but for those that the
/// doublewrite may have copies of. Returns the numbers of the pages.
fn damage(pages: &Path) -> Result<Vec<u64>, String> {
    const PAGE: usize = 16 << 10;
    let mut bytes = std::fs::read(pages).map_err(|e| format!("{}: {e}", pages.display()))?;
    let mut damaged = Vec::new();
    for (number, page) in bytes.chunks_mut(PAGE).enumerate() {
        let at = page.windows(MARK.len()).position(|part| part == MARK.as_bytes());
        if let Some(at) = at {
            page[at] ^= 1;
            damaged.push(number as u64);
        }
    }
    if damaged.is_empty() {
        return Err(format!("{} has no page with the mark", pages.display()));
    }
    std::fs::write(pages, bytes).map_err(|e| format!("{}: {e}", pages.display()))?;
    Ok(damaged)
}

/// A small file system, which is unmounted at the end.
struct SmallDisk<'a>(&'a Path);

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = output(Command::new("umount").arg("--lazy").arg(self.0));
    }
}

fn full_disk(dir: &Path) -> Result<(), String> {
    if !is_root() {
        println!("        only root can mount a small file system: not run");
        return Ok(());
    }
    // Only the engine's directory is small: the server writes files of its own, also for a drop.
    server::start(dir, LIFE, &[])?;
    server::stop(dir)?;
    let place = dir.join("data/#millpond");
    std::fs::remove_dir_all(&place).map_err(|e| format!("{}: {e}", place.display()))?;
    make_dir(&place)?;
    let size = format!("size={SMALL_DISK},mode=777");
    output(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&place))?;
    let _disk = SmallDisk(&place);
    let server = server::start(dir, LIFE, &["--millpond-redo-capacity=64M"])?;
    sql(&server, "CREATE DATABASE test; CREATE TABLE test.keep (id INT PRIMARY KEY) ENGINE=Millpond")?;
    sql(&server, "CREATE TABLE test.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(1000)) ENGINE=Millpond")?;
    let fill = "USE test; INSERT INTO t (v) SELECT REPEAT('x', 900) FROM seq_1_to_5000";
    let mut error = None;
    try_until("a full disk", || {
        error = sql(&server, fill).err();
        Ok(error.is_some())
    })?;
    let error = error.unwrap_or_default();
    if !error.contains("ERROR 1021") && !error.contains("ERROR 1114") {
        return Err(format!("the error of a full disk is {error:?}"));
    }
    // Each batch is there as a whole or not at all.
    let rows: u64 = sql(&server, "SELECT COUNT(*) FROM test.t")?.parse().map_err(|_| "no number of rows")?;
    if rows == 0 || !rows.is_multiple_of(5000) {
        return Err(format!("{rows} rows after the failure"));
    }
    sql(&server, "DROP TABLE test.t")?;
    try_until("space after a drop", || Ok(sql(&server, "REPLACE INTO test.keep VALUES (1)").is_ok()))?;
    sql(&server, "CREATE TABLE test.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(1000)) ENGINE=Millpond")?;
    try_until("the same rows again", || Ok(sql(&server, fill).is_ok()))?;
    server::stop(dir)
}

fn plugin_leaves(dir: &Path) -> Result<(), String> {
    let server = server::start(dir, LIFE, &[])?;
    sql(
        &server,
        "CREATE DATABASE test; CREATE TABLE test.t (id INT PRIMARY KEY) ENGINE=Millpond; \
         INSERT INTO test.t VALUES (1), (2)",
    )?;
    // The table is in the server's table cache, and a transaction is open in this session.
    sql(&server, "USE test; BEGIN; INSERT INTO t VALUES (3); UNINSTALL SONAME 'ha_millpond'")?;
    try_until("the end of the plugin", || {
        Ok(!sql(&server, "FLUSH TABLES; SHOW ENGINES")?.contains("Millpond"))
    })?;
    expect("a table without its engine", &refused(&server, "SELECT * FROM test.t")?, "ERROR 1286")?;
    sql(&server, "INSTALL SONAME 'ha_millpond'")?;
    expect("the rows", &sql(&server, "SELECT COUNT(*), MAX(id) FROM test.t WHERE id < 3")?, "2\t2")?;
    sql(&server, "INSERT INTO test.t VALUES (4)")?;
    server::stop(dir)
}

fn without_plugin(dir: &Path) -> Result<(), String> {
    let server = server::start(dir, LIFE, &[])?;
    sql(
        &server,
        "CREATE DATABASE test; CREATE TABLE test.t (id INT PRIMARY KEY) ENGINE=Millpond; \
         INSERT INTO test.t VALUES (1), (2)",
    )?;
    server::stop(dir)?;
    let server = server::start_without_plugin(dir, LIFE)?;
    expect("a table without its engine", &refused(&server, "SELECT * FROM test.t")?, "ERROR 1286")?;
    server::stop(dir)?;
    let server = server::start(dir, LIFE, &[])?;
    expect("the rows", &sql(&server, "SELECT COUNT(*) FROM test.t")?, "2")?;
    server::stop(dir)
}

fn stopped(dir: &Path) -> Result<(), String> {
    const WAITERS: u64 = 20;
    let server = server::start(dir, LIFE, &["--millpond-lock-wait-timeout=3600"])?;
    sql(
        &server,
        "CREATE DATABASE test; CREATE TABLE test.t (id INT PRIMARY KEY, n INT) ENGINE=Millpond; \
         INSERT INTO test.t VALUES (1, 0)",
    )?;
    let client = |text: &str| {
        let mut client = server.client();
        client.args(["--execute", text]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        client.spawn().map_err(|e| format!("cannot start a client: {e}"))
    };
    let mut clients = vec![client("BEGIN; UPDATE test.t SET n = 1; SELECT SLEEP(3600)")?];
    try_until("the lock", || {
        Ok(sql(&server, "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User sleep'")?
            == "1")
    })?;
    for _ in 0..WAITERS {
        clients.push(client("UPDATE test.t SET n = n + 1")?);
    }
    try_until("waiting statements", || {
        let waits = sql(&server, "SHOW GLOBAL STATUS LIKE 'Millpond_lock_waits'")?;
        Ok(waits.split('\t').nth(1).and_then(|n| n.parse().ok()).is_some_and(|n: u64| n >= WAITERS))
    })?;
    server::stop(dir)?;
    clients.iter_mut().try_for_each(|client| client.wait().map(drop)).map_err(|e| e.to_string())?;
    let server = server::start(dir, LIFE, &[])?;
    expect("the row", &sql(&server, "SELECT n FROM test.t")?, "0")?;
    server::stop(dir)
}
