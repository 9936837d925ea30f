//! What a collection costs: statements of the server, CPU of the program; and what the flight
//! recorder of a database costs.

use super::place::Lab;
use super::runs::{collecting, interrupt};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// The most statements a second that a collection may send.
const STATEMENTS_A_SECOND: f64 = 3.0;
/// The name of the recorder's thread, as long as Linux keeps it.
const RECORDER: &str = "millpond-record";

/// Measures while one client changes rows as fast as it can.
pub(super) fn measure(lab: &Lab<'_>) -> Result<(), String> {
    lab.sql("SET GLOBAL userstat = ON; CREATE OR REPLACE USER meter@localhost; GRANT PROCESS ON *.* TO meter@localhost")?;
    let engines: &[&str] = if lab.base.is_some() { &["InnoDB"] } else { &["InnoDB", "Millpond"] };
    for engine in engines {
        let mut load = load(lab, engine)?;
        let outcome = match *engine {
            "InnoDB" => of_server(lab),
            _ => of_database(lab),
        };
        let _ = load.kill();
        let _ = load.wait();
        // The server goes on with what a client has begun.
        lab.sql("SELECT COUNT(*) FROM (SELECT SLEEP(0)) s")?;
        outcome?;
    }
    Ok(())
}

/// Starts a client that changes rows of a table until some time after the measurement.
fn load(lab: &Lab<'_>, engine: &str) -> Result<Child, String> {
    lab.sql(&format!(
        "CREATE DATABASE IF NOT EXISTS lab; CREATE OR REPLACE TABLE lab.cost \
         (id INT PRIMARY KEY, v VARCHAR(200)) ENGINE={engine}; \
         INSERT INTO lab.cost SELECT seq, REPEAT('x', 200) FROM lab.seq_1_to_20000"
    ))?;
    let statement = format!(
        "BEGIN NOT ATOMIC SET @end = SYSDATE(6) + INTERVAL {} SECOND; WHILE SYSDATE(6) < @end DO \
         UPDATE lab.cost SET v = REPEAT(CHAR(97 + RAND() * 25), 200) WHERE id = 1 + FLOOR(RAND() * 20000); \
         END WHILE; END",
        lab.seconds + 3
    );
    let mut client = lab.server.client();
    client.args(["--delimiter=//", "--execute", &statement]);
    let quiet = client.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.spawn().map_err(|e| format!("cannot start a client: {e}"))
}

fn of_server(lab: &Lab<'_>) -> Result<(), String> {
    let collection = collecting(lab, &lab.target("meter"), "cost-InnoDB")?;
    let statements = || -> Result<f64, String> {
        let row = lab.sql(
            "SELECT SELECT_COMMANDS + UPDATE_COMMANDS + OTHER_COMMANDS \
             FROM information_schema.USER_STATISTICS WHERE USER = 'meter'",
        )?;
        row.parse().map_err(|_| format!("the server does not count the statements: {row:?}"))
    };
    let before = statements()?;
    let (seconds, own) = watched(lab, &collection)?;
    let statements = (statements()? - before) / seconds;
    interrupt(collection)?;
    println!(
        "        collect, of InnoDB, {seconds:.0} s: {:.2} % of a core; {statements:.2} statements a second",
        100.0 * own
    );
    if statements <= STATEMENTS_A_SECOND {
        return Ok(());
    }
    Err(format!("{statements} statements a second are more than {STATEMENTS_A_SECOND}"))
}

fn of_database(lab: &Lab<'_>) -> Result<(), String> {
    let database = lab.server.data().join("#millpond");
    let server = lab.server.process()?;
    let collection = collecting(lab, &database.display().to_string(), "cost-Millpond")?;
    let recorder = || cpu_seconds(&server, Some(RECORDER));
    let length = || std::fs::metadata(database.join("recorder")).map_or(0, |file| file.len());
    let (cpu, bytes) = (recorder(), length());
    let (seconds, own) = watched(lab, &collection)?;
    let (cpu, bytes) = (recorder() - cpu, length() - bytes);
    interrupt(collection)?;
    println!(
        "        collect, of a database of Millpond, {seconds:.0} s: {:.2} % of a core; its recorder {:.2} % of a \
         core, {:.2} MB an hour",
        100.0 * own,
        100.0 * cpu / seconds,
        bytes as f64 / seconds * 3600.0 / 1e6
    );
    Ok(())
}

/// Waits while a collection runs. Returns the seconds and the part of a core that it used.
fn watched(lab: &Lab<'_>, collection: &Child) -> Result<(f64, f64), String> {
    let pid = collection.id().to_string();
    let (began, before) = (Instant::now(), cpu_seconds(&pid, None));
    std::thread::sleep(Duration::from_secs(lab.seconds));
    let (seconds, after) = (began.elapsed().as_secs_f64(), cpu_seconds(&pid, None));
    if after <= before {
        return Err("the collection did nothing".to_owned());
    }
    Ok((seconds, (after - before) / seconds))
}

/// Returns the time that the threads of a process have run, or those of one name.
fn cpu_seconds(pid: &str, name: Option<&str>) -> f64 {
    let tasks = std::fs::read_dir(Path::new("/proc").join(pid).join("task"));
    let tasks = tasks.into_iter().flatten().flatten().map(|task| task.path());
    let read = |task: &Path, file: &str| std::fs::read_to_string(task.join(file)).unwrap_or_default();
    tasks
        .filter(|task| name.is_none_or(|name| read(task, "comm").trim() == name))
        .filter_map(|task| read(&task, "schedstat").split_whitespace().next()?.parse::<f64>().ok())
        .sum::<f64>()
        / 1e9
}
