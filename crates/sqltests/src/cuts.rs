//! A server with the binary log whose power is cut under load: its data directory, with the files
//! of InnoDB and of Millpond and the binary log, is on a file system that loses what was not synced
//! ([`cuts`]). Afterwards the log and the tables have the same transactions, and all that were
//! acknowledged. The load is that of [`binlog_kills`].

use super::binlog_kills::{self, TABLES};
use super::server::{self, Server};
use super::share::Share;
use super::steps::in_own_directory;
use super::steps::try_until;
use super::{build_for_tests, is_root, make_dir, output, sql};
use base::prng::Prng;
use cuts::{Left, Moment, Mounted, NewFiles, Policy, Syncs};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What the file system promises: as ext4, for that is what the server's own files are made for.
const POLICY: Policy = Policy { new_files: NewFiles::HaveTheirName, syncs: Syncs::Kept };
/// A load that has not come to its sync by then is cut.
const LONGEST: Duration = Duration::from_secs(5);
/// Cuts in the tests.
const FEW: u32 = 10;
/// Cuts of a share, whose seed is that of the commit.
const FEW_OF_A_SHARE: u32 = 4;
/// So many cuts find a binary log that is not synced.
const TO_FIND: u32 = 5;

/// How often.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Cuts in a row
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    cuts: u32,
    /// Seed of the moments, and of what a cut leaves
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// With 0 the server does not sync its binary log, and the cuts must find that
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=1))]
    sync_binlog: u32,
}

/// Cuts the power again and again.
pub(super) fn run(args: &Args) -> Result<(), String> {
    if let Some(why) = cuts::unavailable() {
        return Err(why);
    }
    build_for_tests()?;
    in_own_directory(|dir| {
        let cutting = Cutting::new(&dir.join("cuts"), args.seed, args.sync_binlog)?;
        let rows = cutting.run(args.cuts)?;
        println!("{} cuts, 0 servers refused, {rows} transactions found, seed {}", args.cuts, args.seed);
        Ok(())
    })
}

/// The test: what a server has acknowledged survives cuts of the power. One that does not sync its
/// binary log loses some of it, which shows that the cuts are real.
pub(super) fn cut(dir: &Path, share: Share) -> Result<(), String> {
    if let Some(why) = cuts::unavailable() {
        println!("        {why}: not run");
        return Ok(());
    }
    let cuts = if share.is_part() { FEW_OF_A_SHARE } else { FEW };
    Cutting::new(&dir.join("synced"), share.seed(), 1)?.run(cuts)?;
    match Cutting::new(&dir.join("unsynced"), 1, 0)?.run(TO_FIND) {
        Err(why) if why.contains(LOST) => Ok(()),
        Err(why) => Err(format!("with sync_binlog=0: {why}")),
        Ok(_) => Err(format!("{TO_FIND} cuts have not found a binary log that is not synced")),
    }
}

/// The beginning of a finding.
const LOST: &str = "after cut";

/// A server and its disk.
struct Cutting {
    /// The server's directory. Its data is the file system.
    dir: PathBuf,
    /// What is durable of it.
    disk: PathBuf,
    mounted: Option<Mounted>,
    rng: Prng,
    sync_binlog: u32,
}

impl Cutting {
    fn new(dir: &Path, seed: u64, sync_binlog: u32) -> Result<Cutting, String> {
        let (server, disk) = (dir.join("server"), dir.join("disk"));
        let data = server.join("data");
        [&data, &disk].into_iter().try_for_each(|dir| make_dir(dir))?;
        if is_root() {
            output(Command::new("chown").arg(server::USER).args([&data, &disk]))?;
        }
        Ok(Cutting { dir: server, disk, mounted: None, rng: Prng::new(seed), sync_binlog })
    }

    /// Returns how many transactions were found. A finding names the directory.
    fn run(mut self, cuts: u32) -> Result<u64, String> {
        let found = self.cut_in_a_row(cuts);
        let ended = match found {
            Ok(_) => server::stop(&self.dir),
            Err(_) => end(&self.dir),
        };
        let disk = self.disk.display();
        let unmounted = self.mounted.take().map_or(Ok(()), |mounted| mounted.finish(0).map(drop));
        let found = found.map_err(|why| format!("{why}; what the disk has is in {disk}"))?;
        ended.and(unmounted).map(|()| found)
    }

    fn cut_in_a_row(&mut self, cuts: u32) -> Result<u64, String> {
        let mut server = self.start()?;
        sql(&server, TABLES)?;
        let mut committed = 0;
        for turn in 1..=cuts {
            // Files of earlier turns are not needed.
            sql(&server, "RESET MASTER")?;
            let clients = binlog_kills::start_clients(&server, &self.dir, turn)?;
            let what = self.wait_and_cut()?;
            end(&self.dir)?;
            let acknowledged = binlog_kills::acknowledged(clients, turn)?;
            let left = self.mounted.take().map(|power| power.finish(self.rng.next_u64())).transpose()?;
            let Left { blocks, of_blocks, names, of_names } = left.unwrap_or_default();
            let what = format!(
                "{LOST} {turn}, {what}, {blocks} of {of_blocks} blocks and {names} of {of_names} changes of \
                 directories kept"
            );
            server = self.start().map_err(|why| format!("{what}: the server does not start: {why}"))?;
            let rows = binlog_kills::compare(&server, turn, &acknowledged)
                .and_then(|rows| binlog_kills::agree(&server, &self.dir).map(|()| rows))
                .map_err(|why| format!("{what}: {why}"))?;
            println!("        {what}: {rows} transactions");
            committed += rows;
        }
        Ok(committed)
    }

    /// Mounts the file system if it is not, and starts the server on it.
    fn start(&mut self) -> Result<Server, String> {
        if self.mounted.is_none() {
            self.mounted = Some(Mounted::mount(&self.disk, &self.dir.join("data"), POLICY)?);
        }
        binlog_kills::start(&self.dir, self.sync_binlog)
    }

    /// Waits for the moment of a cut, and returns it in words. A third each: at any time, before a
    /// sync, after one.
    fn wait_and_cut(&mut self) -> Result<String, String> {
        let power = self.mounted.as_ref().ok_or("there is no file system")?;
        let before = power.syncs();
        let nth = self.rng.between(1, 1_500);
        let said = match self.rng.below(3) {
            0 => {
                let ms = self.rng.between(100, 1_500);
                std::thread::sleep(Duration::from_millis(ms));
                power.cut();
                format!("at {ms} ms")
            }
            1 => {
                power.plan(Moment::BeforeSync(nth));
                format!("before sync {nth}")
            }
            _ => {
                power.plan(Moment::AfterSync(nth));
                format!("after sync {nth}")
            }
        };
        let in_time = power.wait_for_cut(LONGEST);
        if !in_time {
            power.cut();
        }
        let syncs = power.syncs() - before;
        Ok(if in_time { format!("{said} ({syncs} done)") } else { format!("after {syncs} syncs") })
    }
}

/// Ends the server of a directory, if it has not ended by itself, and waits for its end.
fn end(dir: &Path) -> Result<(), String> {
    let Ok(process) = std::fs::read_to_string(dir.join("pid")) else { return Ok(()) };
    let process = process.trim();
    let of_process = Path::new("/proc").join(process);
    if of_process.exists() {
        let _ = output(Command::new("kill").args(["-9", process]));
    }
    try_until("the end of the server", || Ok(!of_process.exists()))
}
