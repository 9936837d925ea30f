//! The lives of one database, as their parent process sees them: it starts each one, kills it, and
//! compares what the next one finds with what was acknowledged.

use super::client::number;
use super::recipe::{ClientDigest, ClientModel, HOT_ROWS, Recipe};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A life that prints nothing for so long hangs, and so does one that commits nothing although the
/// disk has free space.
pub(super) const HANGS: Duration = Duration::from_secs(600);

/// The running child process. Dropping it kills the process.
pub(super) struct Process {
    pub(super) child: Child,
    lines: Receiver<String>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Waits for the next line, and calls `idle` every few seconds meanwhile. An error if nothing
    /// happened since `since` for too long, or if the process has ended.
    pub(super) fn next_line(
        &mut self,
        since: Instant,
        idle: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<String, String> {
        loop {
            match self.lines.recv_timeout(Duration::from_secs(5)) {
                Ok(line) if since.elapsed() < HANGS => return Ok(line),
                Ok(_) => return Err(format!("no step was done for {} s", HANGS.as_secs())),
                Err(RecvTimeoutError::Timeout) if since.elapsed() < HANGS => idle()?,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("a life printed nothing for {} s", HANGS.as_secs()));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
            }
        }
    }

    /// Lets the process work. An error if it ends by itself.
    pub(super) fn run_for(&mut self, time: Duration) -> Result<(), String> {
        let start = Instant::now();
        while let Some(left) = time.checked_sub(start.elapsed()) {
            if let Err(RecvTimeoutError::Disconnected) = self.lines.recv_timeout(left) {
                return Err(self.ended());
            }
        }
        Ok(())
    }

    fn ended(&mut self) -> String {
        let status = self.child.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
        format!("a life ended by itself: {status}")
    }
}

/// How a life begins, and in what.
#[derive(Clone, Copy, Debug)]
pub(super) struct LifeSettings {
    pub(super) number: u64,
    /// Work after the report.
    pub(super) work: bool,
    /// Work at once: the report has only how many steps each client has done.
    pub(super) at_once: bool,
    /// Threads that read everything, again and again.
    pub(super) scanners: u16,
    pub(super) page_bytes: u64,
    pub(super) pool_bytes: u64,
    /// 0 follows from the recovery target.
    pub(super) redo_bytes: u64,
    /// 0 is the default.
    pub(super) recovery_target_ms: u64,
    /// 0 is the limit of the system.
    pub(super) open_files: u64,
}

/// The lives of the database in `dir`.
pub(super) struct Lives {
    dir: PathBuf,
    recipe: Recipe,
    models: Vec<ClientModel>,
    /// The steps of each client that the last report had. A client that was killed before it could
    /// note a step goes on from there.
    found: Vec<u64>,
}

impl Lives {
    /// A database that is not there yet. Makes its directory.
    pub(super) fn new(dir: &Path, seed: u64, clients: u16) -> Result<Lives, String> {
        if dir.exists() {
            return Err(format!("{} is there already", dir.display()));
        }
        std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let models = vec![ClientModel::default(); usize::from(clients)];
        let found = vec![0; usize::from(clients)];
        let lives = Lives { dir: dir.to_owned(), recipe: Recipe { seed }, models, found };
        let zeros = vec![0; usize::from(clients) * 8];
        std::fs::write(lives.ledger(), zeros).map_err(|e| format!("{}: {e}", lives.ledger().display()))?;
        Ok(lives)
    }

    fn ledger(&self) -> PathBuf {
        self.dir.join("ledger")
    }

    /// Returns the acknowledged steps of each client, and those that were found.
    pub(super) fn acknowledged(&self) -> Result<Vec<u64>, String> {
        let bytes = std::fs::read(self.ledger()).map_err(|e| format!("{}: {e}", self.ledger().display()))?;
        Ok(bytes
            .chunks_exact(8)
            .map(number)
            .zip(&self.found)
            .map(|(noted, found)| noted.max(*found))
            .collect())
    }

    /// Returns how many steps were acknowledged and found by the last whole report.
    pub(super) fn steps(&self) -> u64 {
        self.models.iter().map(|model| model.steps).sum()
    }

    /// Removes the directory.
    pub(super) fn remove(self) -> Result<(), String> {
        std::fs::remove_dir_all(&self.dir).map_err(|e| format!("{}: {e}", self.dir.display()))
    }

    /// Starts a new process.
    pub(super) fn start(&self, life: &LifeSettings) -> Result<Process, String> {
        let cannot = |e: std::io::Error| format!("cannot start a life: {e}");
        let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
        command.arg("soak-life").arg("--dir").arg(self.dir.join("db"));
        command.arg("--ledger").arg(self.ledger());
        let numbers = [
            ("seed", self.recipe.seed),
            ("life", life.number),
            ("clients", self.models.len() as u64),
            ("scanners", life.scanners.into()),
            ("page-bytes", life.page_bytes),
            ("pool-bytes", life.pool_bytes),
            ("redo-bytes", life.redo_bytes),
            ("recovery-target-ms", life.recovery_target_ms),
            ("open-files", life.open_files),
        ];
        for (name, value) in numbers {
            command.arg(format!("--{name}={value}"));
        }
        command.args(life.work.then_some("--work")).args(life.at_once.then_some("--at-once"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(cannot)?;
        let out = child.stdout.take().ok_or("a life has no output")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            lines.take_while(|line| sender.send(line.clone()).is_ok()).for_each(drop);
        });
        Ok(Process { child, lines })
    }

    /// Compares the report of a life with what was acknowledged. Each client may have done one more
    /// step.
    pub(super) fn compare(
        &mut self,
        process: &mut Process,
        acknowledged: &[u64],
        life: &LifeSettings,
        idle: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<(), String> {
        let opened = Instant::now();
        let mut hot = None;
        loop {
            let line = process.next_line(opened, idle)?;
            let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match word {
                "ready" => break,
                "hot" => hot = Some(rest.to_owned()),
                "found" | "account" => {
                    let (client, rest) = rest.split_once(' ').ok_or("a life printed half a line")?;
                    let client: u16 = client.parse().map_err(|_| "a life named no client")?;
                    let acknowledged =
                        acknowledged.get(usize::from(client)).ok_or("a life named an unknown client")?;
                    if word == "found" {
                        let steps = rest.parse().map_err(|_| "a life counted no steps")?;
                        compare_steps(client, *acknowledged, steps)?;
                        self.found[usize::from(client)] = steps;
                    } else {
                        self.compare_digest(client, rest)?;
                    }
                }
                _ => return Err(format!("a life printed: {line}")),
            }
        }
        if life.at_once { Ok(()) } else { self.compare_hot(hot.as_deref()) }
    }

    fn compare_hot(&self, hot: Option<&str>) -> Result<(), String> {
        let mut sums = [0; HOT_ROWS];
        for model in &self.models {
            sums.iter_mut().zip(model.digest().hot).for_each(|(sum, hot)| *sum += hot);
        }
        let sums = sums.map(|n| n.to_string()).join(" ");
        if hot != Some(&sums) {
            return Err(format!("the hot rows hold {hot:?}, not {sums}"));
        }
        Ok(())
    }

    fn compare_digest(&mut self, client: u16, line: &str) -> Result<(), String> {
        let model = &mut self.models[usize::from(client)];
        let found = ClientDigest::parse(line).ok_or("a life printed no digest")?;
        model.advance(self.recipe, client, found.steps);
        let expected = model.digest();
        // All clients share the hot rows, so a life does not report them by client.
        let found = ClientDigest { hot: expected.hot, ..found };
        if found == expected {
            return Ok(());
        }
        Err(format!("client {client} has {found:?}, must have {expected:?}"))
    }
}

fn compare_steps(client: u16, acknowledged: u64, steps: u64) -> Result<(), String> {
    if steps < acknowledged {
        return Err(format!("client {client} has {steps} steps, but {acknowledged} were acknowledged"));
    }
    if steps > acknowledged + 1 {
        return Err(format!("client {client} has {steps} steps, but only {acknowledged} were acknowledged"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_steps_and_extra_steps_are_found() {
        assert_eq!((compare_steps(0, 7, 7), compare_steps(0, 7, 8)), (Ok(()), Ok(())));
        assert!(compare_steps(0, 7, 6).is_err() && compare_steps(0, 7, 9).is_err());
    }
}
