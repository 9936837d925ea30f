//! The syncs of a server that is named by its URL: by tracepoints, if its process runs here and may
//! be traced; else from the server's own summary of files, which has no histogram and counts other
//! operations with the syncs.

use super::process::Process;
use super::purpose::purpose;
use super::request::Request;
use super::result::{Counted, Row, Second, Trace};
use super::watch as tracepoints;
use crate::sources::{Sample, Source};
use client::{Access, Connection, LoginFlags};
use output::failure::{Failure, Outcome};
use output::stop;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// The summary of files. `MISC` is syncs, and opening, closing, and asking for a file's state.
const SUMMARY: &str = "SELECT FILE_NAME, COUNT_MISC, SUM_TIMER_MISC, MAX_TIMER_MISC \
                       FROM performance_schema.file_summary_by_instance";
const FACTS: &str = "SELECT @@pid_file, @@datadir, @@performance_schema";
/// Picoseconds, in which the server counts, of a microsecond.
const PICOSECONDS: u64 = 1_000_000;

/// What the server has counted of a file: operations, their picoseconds, the longest.
type Counts = BTreeMap<String, (u64, u64, u64)>;

/// Traces a server.
pub(crate) fn trace(request: &Request, login: &LoginFlags) -> Outcome<Trace> {
    let access = Access::to(&request.target, login)?;
    let mut connection = access.connect()?;
    let facts = connection.rows(FACTS).map_err(|trouble| Failure::failed(trouble.to_string()))?;
    let facts: Vec<String> =
        facts.into_iter().next().unwrap_or_default().into_iter().map(Option::unwrap_or_default).collect();
    let [pid_file, datadir, performance_schema] = facts.as_slice() else {
        return Err(Failure::failed(format!("{} does not say where it runs", request.target)));
    };
    let mut source = crate::sources::of_access(&access)?;
    stop::install();
    let refused = match local(Path::new(datadir), pid_file) {
        Some(process) => match with_commits(source.as_mut(), || {
            tracepoints::trace(process, request.length, request.step_us)
        }) {
            Ok(trace) => {
                let target = format!("{}, process {} here", request.target, process.0);
                return Ok(Trace { target, ..trace });
            }
            Err(failure) => failure.to_string(),
        },
        None => "its process does not run on this machine, or is not visible here".to_owned(),
    };
    if performance_schema != "1" && performance_schema != "ON" {
        return Err(Failure::failed(format!(
            "{} cannot be traced: {refused}; and its performance_schema is off (performance_schema=ON, at its start)",
            request.target
        )));
    }
    let trace = with_commits(source.as_mut(), || by_summary(&mut connection, request))?;
    let mut trace = Trace { target: request.target.clone(), ..trace };
    trace.notes.insert(0, format!("not by the kernel's tracepoints: {refused}"));
    Ok(trace)
}

/// Returns the process of a server, if it runs here and is visible.
pub(crate) fn process_of(access: &Access) -> Option<Process> {
    let facts = access.try_connect().ok()?.rows(FACTS).ok()?;
    let [pid_file, datadir, _] = facts.into_iter().next()?.try_into().ok()?;
    local(Path::new(&datadir?), &pid_file?)
}

/// Returns the process of a server whose data directory is here: it is the process of its pid file,
/// and works in its data directory.
fn local(datadir: &Path, pid_file: &str) -> Option<Process> {
    let text = std::fs::read_to_string(datadir.join(pid_file)).ok()?;
    let process = Process(text.trim().parse().ok()?);
    let works_in = std::fs::read_link(format!("/proc/{}/cwd", process.0)).ok()?;
    (process.runs() && works_in == datadir.canonicalize().ok()?).then_some(process)
}

/// Traces, and compares with what the server counts in the same time.
fn with_commits(source: &mut dyn Source, trace: impl FnOnce() -> Outcome<Trace>) -> Outcome<Trace> {
    let before = source.sample().ok();
    let mut trace = trace()?;
    if let (Some(before), Ok(after)) = (before, source.sample()) {
        let origin = |name: &str| {
            let origins = &source.about().origins;
            let found = origins.iter().find(|(known, _)| *known == name);
            found.and_then(|(_, origin)| origin.clone().ok()).unwrap_or_default()
        };
        trace.counted = counted(trace.seconds, &before, &after, origin);
        if let Some(note) = own_syncs(&before, &after, origin) {
            trace.notes.push(note);
        }
    }
    Ok(trace)
}

/// Returns how many commits the server has counted in the `seconds` of a trace, at the rate between
/// two samples around it. `origin` says where the server has a figure.
fn counted(
    seconds: f64,
    before: &Sample,
    after: &Sample,
    origin: impl Fn(&str) -> String,
) -> Option<Counted> {
    let rate = growth_a_second(before, after, "commits")?;
    let by = format!("by the server's {}", origin("commits"));
    Some(Counted { commits: (rate * seconds).round() as u64, by, all: true })
}

/// Returns what the server says of its syncs.
fn own_syncs(before: &Sample, after: &Sample, origin: impl Fn(&str) -> String) -> Option<String> {
    let syncs = growth_a_second(before, after, "fsyncs")?;
    Some(format!("the server counts {syncs:.0} syncs a second of its engine ({})", origin("fsyncs")))
}

fn growth_a_second(before: &Sample, after: &Sample, name: &str) -> Option<f64> {
    let seconds = after.unix_us.saturating_sub(before.unix_us) as f64 / 1e6;
    Some((after.get(name)? - before.get(name)?).max(0.0) / seconds.max(0.001))
}

/// Compares two summaries of files.
fn by_summary(connection: &mut Connection, request: &Request) -> Outcome<Trace> {
    let before = summary(connection)?;
    let begin = Instant::now();
    while begin.elapsed() < request.length && !stop::asked() {
        std::thread::sleep(Duration::from_millis(50).min(request.length));
    }
    let seconds = begin.elapsed().as_secs_f64();
    let after = summary(connection)?;
    let rows = difference(&before, &after);
    let syncs = rows.iter().map(|row| row.syncs).sum();
    let mut notes = vec![
        "the server counts opening, closing and asking for a file's state with its syncs, and has no histogram; \
         the longest is since it counts"
            .to_owned(),
    ];
    if !after.keys().any(|file| purpose(Path::new(file), &[]) == "redo log") {
        // MariaDB does so from 10.6 on.
        notes.push("this server does not count InnoDB's redo log in its performance_schema".to_owned());
    }
    Ok(Trace {
        way: "performance_schema",
        how: "by the server's performance_schema".to_owned(),
        seconds,
        over_time: vec![Second { seconds, syncs, commits: None }],
        rows,
        notes,
        ..Trace::default()
    })
}

fn summary(connection: &mut Connection) -> Outcome<Counts> {
    let rows = connection.rows(SUMMARY).map_err(|trouble| {
        let grant = "the user needs GRANT SELECT ON performance_schema.* TO the user";
        Failure::failed(format!("cannot read the server's summary of files: {trouble}; {grant}"))
    })?;
    Ok(counts(rows))
}

/// Reads rows of a name and three numbers.
fn counts(rows: Vec<Vec<Option<String>>>) -> Counts {
    let number = |cell: Option<Option<String>>| cell.flatten().and_then(|text| text.parse().ok());
    let one = |row: Vec<Option<String>>| {
        let mut cells = row.into_iter();
        let name = cells.next()??;
        Some((name, (number(cells.next())?, number(cells.next())?, number(cells.next())?)))
    };
    rows.into_iter().filter_map(one).collect()
}

/// Returns what happened between two summaries, most first.
fn difference(before: &Counts, after: &Counts) -> Vec<Row> {
    let mut rows: Vec<Row> = after
        .iter()
        .map(|(file, (count, total, longest))| {
            let (then, then_total, _) = before.get(file).copied().unwrap_or_default();
            Row {
                file: file.clone(),
                reason: purpose(Path::new(file), &[]).to_owned(),
                syncs: count.saturating_sub(then),
                us_total: total.saturating_sub(then_total) / PICOSECONDS,
                us_max: longest / PICOSECONDS,
                ..Row::default()
            }
        })
        .filter(|row| row.syncs > 0)
        .collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.syncs), row.file.clone()));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use output::samples::ColumnKind::Counter;

    #[test]
    fn what_happened_between_two_summaries() {
        let rows = |texts: &[[&str; 4]]| {
            texts.iter().map(|row| row.iter().map(|cell| Some((*cell).to_owned())).collect()).collect()
        };
        let before =
            counts(rows(&[["/d/ib_logfile0", "10", "5000000", "900000000"], ["/d/t.ibd", "3", "1", "1"]]));
        let mut after: Vec<Vec<Option<String>>> = rows(&[
            ["/d/ib_logfile0", "15", "7005000000", "2000000000"],
            ["/d/t.ibd", "3", "1", "1"],
            ["/d/new.ibd", "1", "1000000", "1000000"],
            ["/d/odd", "x", "1", "1"],
        ]);
        after.push(vec![None, None, None, None]);
        after.push(Vec::new());
        let rows = difference(&before, &counts(after));
        let seen: Vec<_> =
            rows.iter().map(|row| (row.file.as_str(), row.syncs, row.us_total, row.us_max)).collect();
        assert_eq!(seen, [("/d/ib_logfile0", 5, 7000, 2000), ("/d/new.ibd", 1, 1, 1)]);
        assert_eq!(rows[0].reason, "redo log");
    }

    /// The head said that commits are not known, and the foot how many they were.
    #[test]
    fn commits_that_the_server_counts_are_in_the_head() {
        let sample = |second: u64, n: f64| {
            let values = [("commits", 4.0 * n), ("fsyncs", n)];
            let values = values.map(|(name, value)| (name.to_owned(), "count", Counter, value));
            Sample::new(second * 1_000_000, values.into())
        };
        let (before, after) = (sample(1, 100.0), sample(5, 500.0));
        let origin = |name: &str| format!("own {name}");
        let row = Row { file: "/d/ib_logfile0".to_owned(), syncs: 100, ..Row::default() };
        let mut trace = Trace { seconds: 2.0, rows: vec![row], ..Trace::default() };
        trace.over_time = vec![Second { seconds: 2.0, syncs: 100, commits: None }];
        trace.counted = counted(trace.seconds, &before, &after, origin);
        assert_eq!(trace.commits(), Some(800));
        let text = super::super::text(&trace, 100);
        let head = text.lines().nth(1).unwrap_or_default();
        expect![["100 syncs, 50 a second; 800 commits, 8.00 for each sync (by the server's own commits)"]]
            .assert_eq(head);
        assert!(!text.contains("not known"), "{text}");
        let note = own_syncs(&before, &after, origin).unwrap();
        expect![["the server counts 100 syncs a second of its engine (own fsyncs)"]].assert_eq(&note);
        let empty = Sample::new(9, Vec::new());
        assert_eq!(counted(2.0, &empty, &empty, origin), None);
    }

    #[test]
    fn only_a_process_in_its_data_directory_is_taken() {
        assert_eq!(local(Path::new("/nowhere"), "pid"), None);
        let dir = std::env::temp_dir().join(format!("millpond-trace-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("pid"), format!("{}\n", std::process::id())).unwrap();
        assert_eq!(local(&dir, "pid"), None, "this process works elsewhere");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
