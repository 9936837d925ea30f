//! What probes are told, such as those of Kubernetes: whether the target is ready, and how far its
//! recovery is. Texts of files go in, texts of answers come out; [`Places`] reads the files.

use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// So much of the end of an error log is read.
const TAIL_BYTES: u64 = 64 << 10;
/// A recovery that has written nothing to its file for so long is not running.
const SILENT: Duration = Duration::from_secs(10);

/// How the target is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// It answers, and no recovery runs.
    Ready,
    /// Its recovery runs.
    Recovering(Progress),
    /// It does not answer.
    Gone,
}

/// How far a recovery is. What is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) done: Option<u64>,
    pub(super) total: Option<u64>,
    /// What is counted.
    pub(super) unit: &'static str,
    pub(super) seconds_left: Option<u64>,
    /// What tells it.
    pub(super) source: &'static str,
}

/// Where the progress of a recovery is told.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// The directory of a database of Millpond.
    pub(super) database: Option<PathBuf>,
    /// The error log of a server.
    pub(super) error_log: Option<PathBuf>,
}

impl Places {
    /// Returns how the target is; `answers`: it gives samples.
    pub(super) fn health(&self, answers: bool) -> Health {
        let of_database = self.database.as_deref().and_then(read_progress).and_then(|text| of_file(&text));
        // A server that answers has recovered.
        let of_server = || self.error_log.as_deref().and_then(tail).and_then(|text| of_error_log(&text));
        match (of_database, answers) {
            (Some(progress), _) => Health::Recovering(progress),
            (None, true) => Health::Ready,
            (None, false) => of_server().map_or(Health::Gone, Health::Recovering),
        }
    }
}

/// Returns the status of `/ready` of one target and its text.
fn ready(health: &Health) -> (u16, String) {
    match health {
        Health::Ready => (200, "ready\n".to_owned()),
        Health::Gone => (503, "gone: the target does not answer\n".to_owned()),
        Health::Recovering(progress) => {
            let mut text = "recovering".to_owned();
            if let (Some(done), Some(total)) = (progress.done, progress.total) {
                text += &format!(", {done} of {total} {}", progress.unit);
            }
            if let Some(left) = progress.seconds_left {
                text += &format!(", {left} s left");
            }
            (503, text + "\n")
        }
    }
}

/// Returns the status of `/ready` of several targets and its text: all must be ready. They have
/// their numbers, and not their names, which not everyone may know.
pub(super) fn all_ready(healths: &[Health]) -> (u16, String) {
    if let [health] = healths {
        return ready(health);
    }
    let each = healths.iter().map(ready);
    let status = each.clone().map(|(status, _)| status).max().unwrap_or(200);
    (status, each.enumerate().map(|(place, (_, text))| format!("{}: {text}", place + 1)).collect())
}

/// Returns the text of `/progress`, of several targets a list in their order.
pub(super) fn all_progress(healths: &[Health]) -> String {
    match healths {
        [health] => format!("{}\n", progress(health)),
        several => format!("{}\n", several.iter().map(progress).collect::<Value>()),
    }
}

fn progress(health: &Health) -> Value {
    let (state, progress) = match health {
        Health::Ready => ("ready", None),
        Health::Gone => ("gone", None),
        Health::Recovering(progress) => ("recovering", Some(progress)),
    };
    json!({
        "state": state,
        "done": progress.and_then(|progress| progress.done),
        "total": progress.and_then(|progress| progress.total),
        "unit": progress.map(|progress| progress.unit),
        "seconds_left": progress.and_then(|progress| progress.seconds_left),
        "source": progress.map(|progress| progress.source),
    })
}

/// Reads the file `progress` of a database; `None` if nobody has written to it for some time.
fn read_progress(dir: &Path) -> Option<String> {
    let mut file = File::open(dir.join("progress")).ok()?;
    let written = file.metadata().ok()?.modified().ok()?;
    // A clock that was set back makes it of the future: then it counts.
    if written.elapsed().is_ok_and(|past| past > SILENT) {
        return None;
    }
    let mut text = String::new();
    file.by_ref().take(4096).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Reads the end of a file.
fn tail(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES))).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns how far a recovery of Millpond is, by its file; `None` if it has ended.
fn of_file(text: &str) -> Option<Progress> {
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='));
        line.map(str::trim).filter(|value| !value.is_empty())
    };
    let number = |name: &str| of(name).and_then(|value| value.parse::<u64>().ok());
    let total = match of("state")? {
        "opening" => None,
        "replaying" => number("redo_bytes"),
        _ => return None,
    };
    let done = total.zip(number("left_bytes")).map(|(total, left)| total.saturating_sub(left));
    let source = "the database's file `progress`";
    Some(Progress { done, total, unit: "bytes", seconds_left: number("seconds_left"), source })
}

/// Returns how far a crash recovery of InnoDB is, by the server's last start in its error log;
/// `None` if none runs.
fn of_error_log(text: &str) -> Option<Progress> {
    const BEGINS: [&str; 3] = [
        "InnoDB: Starting crash recovery",
        "InnoDB: Starting final batch",
        "Database was not shutdown normally",
    ];
    const ENDS: [&str; 4] =
        ["ready for connections", "Shutdown complete", "Aborting", "Crash recovery finished"];
    let mut progress: Option<Progress> = None;
    for line in text.lines() {
        if ENDS.iter().any(|end| line.contains(end)) {
            progress = None;
        } else if BEGINS.iter().any(|begin| line.contains(begin)) {
            let source = "the server's error log";
            progress.get_or_insert(Progress { unit: "pages", source, ..Progress::default() });
        } else if let (Some(progress), Some(left)) = (&mut progress, pages_left(line)) {
            let total = progress.total.unwrap_or(0).max(left);
            (progress.total, progress.done) = (Some(total), Some(total - left));
        }
    }
    progress
}

/// Reads `InnoDB: To recover: 8512 pages from log`, or `… To recover: LSN 17/42; 8512 pages`.
fn pages_left(line: &str) -> Option<u64> {
    let rest = line.split_once("InnoDB: To recover: ")?.1;
    let before = rest.split_once(" pages")?.0;
    before.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn told(health: &Health) -> String {
        let (status, text) = all_ready(std::slice::from_ref(health));
        format!("{status} {text}{}", all_progress(std::slice::from_ref(health)))
    }

    #[test]
    fn what_probes_are_told_of_a_database() {
        let mut out = told(&Health::Ready) + &told(&Health::Gone);
        for text in [
            "state=opening\npercent=0\nseconds_left=\nredo_bytes=\nleft_bytes=\n   ",
            "state=replaying\npercent=25\nseconds_left=9\nredo_bytes=4000\nleft_bytes=3000\n   ",
        ] {
            out += &told(&Health::Recovering(of_file(text).unwrap()));
        }
        for ended in ["state=done\npercent=100\n", "", "rubbish"] {
            assert_eq!(of_file(ended), None, "{ended}");
        }
        expect![[r#"
            200 ready
            {"done":null,"seconds_left":null,"source":null,"state":"ready","total":null,"unit":null}
            503 gone: the target does not answer
            {"done":null,"seconds_left":null,"source":null,"state":"gone","total":null,"unit":null}
            503 recovering
            {"done":null,"seconds_left":null,"source":"the database's file `progress`","state":"recovering","total":null,"unit":"bytes"}
            503 recovering, 1000 of 4000 bytes, 9 s left
            {"done":1000,"seconds_left":9,"source":"the database's file `progress`","state":"recovering","total":4000,"unit":"bytes"}
        "#]].assert_eq(&out);
    }

    #[test]
    fn several_targets_are_ready_only_together() {
        let recovering = of_file("state=replaying\nredo_bytes=10\nleft_bytes=4\n").unwrap();
        let healths = [Health::Ready, Health::Recovering(recovering), Health::Gone];
        assert_eq!(
            all_ready(&healths),
            (503, "1: ready\n2: recovering, 6 of 10 bytes\n3: gone: the target does not answer\n".to_owned())
        );
        assert_eq!(all_ready(&[Health::Ready, Health::Ready]), (200, "1: ready\n2: ready\n".to_owned()));
        let told = all_progress(&healths);
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!((&told[0]["state"], &told[1]["done"]), (&json!("ready"), &json!(6)));
    }

    #[test]
    fn what_probes_are_told_of_a_server_by_its_error_log() {
        let begins = "2026-11-30  3:26:37 0 [Note] InnoDB: Starting crash recovery from checkpoint LSN=46846";
        let pages =
            |left: u64| format!("2026-11-30  3:26:52 0 [Note] InnoDB: To recover: {left} pages from log");
        let newer = "[Note] InnoDB: To recover: LSN 9/20; 70 pages";
        let ready = "2026-11-30  3:27:37 0 [Note] mariadbd: ready for connections.";
        let of = |lines: &[&str]| {
            let found = of_error_log(&lines.join("\n"));
            found.map(|progress| (progress.done, progress.total))
        };
        assert_eq!(of(&[begins]), Some((None, None)));
        assert_eq!(of(&[begins, &pages(100), &pages(60)]), Some((Some(40), Some(100))));
        assert_eq!(of(&[begins, &pages(100), newer]), Some((Some(30), Some(100))));
        assert_eq!(of(&[begins, &pages(100), ready]), None);
        assert_eq!(of(&[begins, ready, begins]), Some((None, None)), "the last start counts");
        assert_eq!(of(&[&pages(7), "", "rubbish pages"]), None);
    }

    #[test]
    fn a_database_that_answers_is_ready_only_when_nothing_is_replayed() {
        let scratch = crate::scratch::Scratch::new("serve-probe");
        let dir = scratch.0.join("db");
        millpond::Options::new().buffer_pool_bytes(16 << 20).open(&dir).unwrap().close().unwrap();
        let places = Places { database: Some(dir.clone()), error_log: Some(scratch.0.join("err.log")) };
        assert_eq!((places.health(true), places.health(false)), (Health::Ready, Health::Gone));
        std::fs::write(dir.join("progress"), "state=replaying\nredo_bytes=10\nleft_bytes=4\n").unwrap();
        for answers in [true, false] {
            let Health::Recovering(progress) = places.health(answers) else { panic!("{answers}") };
            assert_eq!((progress.done, progress.total), (Some(6), Some(10)));
        }
        // The process was killed long ago.
        let file = File::options().write(true).open(dir.join("progress")).unwrap();
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(60)).unwrap();
        assert_eq!(places.health(false), Health::Gone);
        std::fs::write(scratch.0.join("err.log"), "InnoDB: Starting crash recovery\n").unwrap();
        assert!(matches!(places.health(false), Health::Recovering(_)));
        assert_eq!(places.health(true), Health::Ready);
    }
}
