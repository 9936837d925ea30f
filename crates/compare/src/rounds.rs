//! The run: rounds in which the peers do each kind of work in turns.
//!
//! A round begins with new databases. For each kind of work the peers follow each other closely,
//! and their order changes from round to round. So a disturbance of the machine affects all of
//! them.

use crate::device::Device;
use crate::measure::{self, Measurement};
use crate::peer::{Peer, PeerKind, Promise, Result, Settings};
use crate::work::Work;
use crate::work_dir::{WorkDir, bytes_below};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// The name of the reference in results; it is no peer.
pub const DEVICE: &str = "bare device";

/// What to run.
#[derive(Debug)]
pub struct Plan {
    /// The peers.
    pub kinds: Vec<&'static PeerKind>,
    /// The work.
    pub works: Vec<Work>,
    /// Rows of each database.
    pub rows: u64,
    /// How long each peer does each work.
    pub time: Duration,
    /// How long rows are updated before the size is measured again.
    pub churn: Duration,
    /// How many rounds.
    pub rounds: usize,
    /// Bytes of cache of each peer.
    pub cache_bytes: u64,
}

/// The measurements of one kind of work with one number of threads.
#[derive(Debug)]
pub struct WorkResult {
    /// The work.
    pub work: Work,
    /// The number of threads.
    pub threads: usize,
    /// The name of each peer and its measurements, one for each round.
    pub by_peer: Vec<(&'static str, Vec<Measurement>)>,
}

/// The sizes of a peer's files, one for each round.
#[derive(Debug)]
pub struct Size {
    /// The peer's name.
    pub peer: &'static str,
    /// Bytes after the load.
    pub loaded: Vec<u64>,
    /// Bytes after the updates.
    pub churned: Vec<u64>,
}

/// Everything that was measured.
#[derive(Debug, Default)]
pub struct Results {
    /// In the order of the work.
    pub cells: Vec<WorkResult>,
    /// Empty unless requested.
    pub sizes: Vec<Size>,
}

/// A peer in a round.
struct RoundPeer {
    kind: &'static PeerKind,
    dir: PathBuf,
    settings: Settings,
    database: Option<Box<dyn Peer>>,
}

impl RoundPeer {
    fn new(kind: &'static PeerKind, dir: PathBuf, cache_bytes: u64) -> Result<RoundPeer> {
        std::fs::create_dir(&dir)?;
        let settings = Settings { cache_bytes, promise: Promise::Durable };
        Ok(RoundPeer { kind, dir, settings, database: None })
    }

    /// Returns the open database. Opens it again if it was opened for another promise.
    fn database(&mut self, promise: Promise) -> Result<&dyn Peer> {
        if self.kind.promises_at_open && self.settings.promise != promise {
            self.database = None;
        }
        if self.database.is_none() {
            self.settings.promise = promise;
            self.database = Some((self.kind.open)(&self.dir, &self.settings)?);
        }
        Ok(self.database.as_deref().expect("it was just opened"))
    }

    fn named<R>(&self, result: Result<R>) -> Result<R> {
        result.map_err(|error| format!("{}: {error}", self.kind.name).into())
    }
}

impl Results {
    fn cell(&mut self, work: Work, threads: usize) -> &mut WorkResult {
        let at = self.cells.iter().position(|cell| cell.work == work && cell.threads == threads);
        let at = at.unwrap_or_else(|| {
            self.cells.push(WorkResult { work, threads, by_peer: Vec::new() });
            self.cells.len() - 1
        });
        &mut self.cells[at]
    }

    fn add(&mut self, work: Work, threads: usize, peer: &'static str, figures: Measurement) {
        let by_peer = &mut self.cell(work, threads).by_peer;
        match by_peer.iter_mut().find(|(name, _)| *name == peer) {
            Some((_, rounds)) => rounds.push(figures),
            None => by_peer.push((peer, vec![figures])),
        }
    }

    fn size(&mut self, peer: &'static str) -> &mut Size {
        let at = self.sizes.iter().position(|size| size.peer == peer).unwrap_or_else(|| {
            self.sizes.push(Size { peer, loaded: Vec::new(), churned: Vec::new() });
            self.sizes.len() - 1
        });
        &mut self.sizes[at]
    }
}

/// Runs the whole plan.
pub fn run(plan: &Plan, work_dir: &WorkDir) -> Result<Results> {
    let mut results = Results::default();
    for round in 0..plan.rounds {
        one_round(plan, work_dir, round, &mut results)?;
    }
    for cell in &mut results.cells {
        // The cells have the order of the first round.
        cell.by_peer.sort_by_key(|(name, _)| plan.kinds.iter().position(|kind| kind.name == *name));
    }
    results.sizes.sort_by_key(|size| plan.kinds.iter().position(|kind| kind.name == size.peer));
    Ok(results)
}

fn one_round(plan: &Plan, work_dir: &WorkDir, round: usize, results: &mut Results) -> Result {
    let device_path = work_dir.dir().join("device");
    let mut device = None;
    let mut peers = Vec::new();
    for n in 0..plan.kinds.len() {
        let kind = plan.kinds[(n + round) % plan.kinds.len()];
        let peer = RoundPeer::new(kind, work_dir.dir().join(kind.name), plan.cache_bytes);
        peers.push(peer?);
    }
    if plan.works.contains(&Work::Bulk) {
        for peer in &mut peers {
            // In a separate database, because the other work needs one that was filled by
            // transactions.
            let dir = work_dir.dir().join(format!("{}-bulk", peer.kind.name));
            let mut own = RoundPeer::new(peer.kind, dir, plan.cache_bytes)?;
            let figures = turn(&mut own, Work::Bulk, 1, plan, plan.time, round)?;
            results.add(Work::Bulk, 1, peer.kind.name, figures);
            drop(own.database);
            std::fs::remove_dir_all(&own.dir)?;
        }
    }
    if plan.works == [Work::Bulk] {
        peers.clear();
    }
    for peer in &mut peers {
        let figures = turn(peer, Work::Load, 1, plan, plan.time, round)?;
        if plan.works.contains(&Work::Load) {
            results.add(Work::Load, 1, peer.kind.name, figures);
        }
        if plan.works.contains(&Work::Size) {
            results.size(peer.kind.name).loaded.push(bytes_below(&peer.dir));
        }
    }
    for &work in plan.works.iter().filter(|work| !matches!(work, Work::Bulk | Work::Load | Work::Size)) {
        for &threads in work.threads() {
            if work == Work::Update && threads == 1 {
                if device.is_none() {
                    device = Some(Device::create(&device_path)?);
                }
                if let Some(device) = &device {
                    progress(round, plan, work, threads, DEVICE);
                    results.add(work, threads, DEVICE, device.run(plan.time)?);
                }
            }
            for peer in peers.iter_mut().filter(|peer| work.fits(peer.kind)) {
                let figures = turn(peer, work, threads, plan, plan.time, round)?;
                results.add(work, threads, peer.kind.name, figures);
            }
        }
    }
    if plan.works.contains(&Work::Size) {
        for peer in &mut peers {
            turn(peer, Work::Size, Work::Size.threads()[0], plan, plan.churn, round)?;
            results.size(peer.kind.name).churned.push(bytes_below(&peer.dir));
        }
    }
    for peer in peers {
        drop(peer.database);
        std::fs::remove_dir_all(&peer.dir)?;
    }
    if device.is_some() {
        std::fs::remove_file(&device_path)?;
    }
    Ok(())
}

/// Lets one peer do one kind of work and measures it. After many writes, waits for the peer's
/// background work.
fn turn(
    peer: &mut RoundPeer,
    work: Work,
    threads: usize,
    plan: &Plan,
    time: Duration,
    round: usize,
) -> Result<Measurement> {
    progress(round, plan, work, threads, peer.kind.name);
    let result = peer.database(work.promise()).and_then(|peer| {
        let figures = measure::run(peer, work, threads, plan.rows, time, round as u64 + 1)?;
        if matches!(work, Work::Load | Work::Unsynced | Work::Size) {
            peer.settle()?;
        }
        Ok(figures)
    });
    peer.named(result)
}

fn progress(round: usize, plan: &Plan, work: Work, threads: usize, name: &str) {
    let mut out = std::io::stderr().lock();
    if std::io::IsTerminal::is_terminal(&out) {
        let round = format!("round {} of {}", round + 1, plan.rounds);
        let _ = write!(out, "\r\x1b[K{round}: {} on {threads} threads, {name}", work.name());
        let _ = out.flush();
    }
}
