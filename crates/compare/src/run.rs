//! The run: rounds in which the peers take turns at each piece of work.
//!
//! A round begins with fresh databases. In it the peers do one piece of work after the other, close together in time, and
//! in another order each round, so that what disturbs the machine disturbs all of them.

use crate::device::Device;
use crate::measure::{self, Figures};
use crate::peer::{Kind, Peer, Promise, Result, Settings};
use crate::place::{Place, bytes_below};
use crate::work::Work;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// What the reference is called in results; it is no peer.
pub const DEVICE: &str = "bare device";

/// What to run.
#[derive(Debug)]
pub struct Plan {
    /// Who takes part.
    pub kinds: Vec<&'static Kind>,
    /// What they do.
    pub works: Vec<Work>,
    /// Rows of each database.
    pub rows: u64,
    /// How long each does each work.
    pub time: Duration,
    /// How long rows are updated before the size is taken again.
    pub churn: Duration,
    /// How often all of it is done.
    pub rounds: usize,
    /// Memory of each.
    pub cache_bytes: u64,
}

/// One piece of work on a number of threads, and what each peer made of it.
#[derive(Debug)]
pub struct Cell {
    /// The work.
    pub work: Work,
    /// By how many threads.
    pub threads: usize,
    /// Names and what they gave, one entry a round.
    pub by_peer: Vec<(&'static str, Vec<Figures>)>,
}

/// What the files of a peer took, one entry a round.
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
    pub cells: Vec<Cell>,
    /// Empty unless it was asked for.
    pub sizes: Vec<Size>,
}

/// A peer in a round.
struct Entrant {
    kind: &'static Kind,
    dir: PathBuf,
    settings: Settings,
    peer: Option<Box<dyn Peer>>,
}

impl Entrant {
    fn new(kind: &'static Kind, dir: PathBuf, cache_bytes: u64) -> Result<Entrant> {
        std::fs::create_dir(&dir)?;
        let settings = Settings { cache_bytes, promise: Promise::Durable };
        Ok(Entrant { kind, dir, settings, peer: None })
    }

    /// The open database; opened anew if it was opened for another promise.
    fn peer(&mut self, promise: Promise) -> Result<&dyn Peer> {
        if self.kind.promises_at_open && self.settings.promise != promise {
            self.peer = None;
        }
        if self.peer.is_none() {
            self.settings.promise = promise;
            self.peer = Some((self.kind.open)(&self.dir, &self.settings)?);
        }
        Ok(self.peer.as_deref().expect("it was just opened"))
    }

    fn named<R>(&self, result: Result<R>) -> Result<R> {
        result.map_err(|error| format!("{}: {error}", self.kind.name).into())
    }
}

impl Results {
    fn cell(&mut self, work: Work, threads: usize) -> &mut Cell {
        let at = self.cells.iter().position(|cell| cell.work == work && cell.threads == threads);
        let at = at.unwrap_or_else(|| {
            self.cells.push(Cell { work, threads, by_peer: Vec::new() });
            self.cells.len() - 1
        });
        &mut self.cells[at]
    }

    fn add(&mut self, work: Work, threads: usize, peer: &'static str, figures: Figures) {
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
pub fn run(plan: &Plan, place: &Place) -> Result<Results> {
    let mut results = Results::default();
    for round in 0..plan.rounds {
        one_round(plan, place, round, &mut results)?;
    }
    for cell in &mut results.cells {
        // The order of the first round was only one of them.
        cell.by_peer.sort_by_key(|(name, _)| plan.kinds.iter().position(|kind| kind.name == *name));
    }
    results.sizes.sort_by_key(|size| plan.kinds.iter().position(|kind| kind.name == size.peer));
    Ok(results)
}

fn one_round(plan: &Plan, place: &Place, round: usize, results: &mut Results) -> Result {
    let device_path = place.dir().join("device");
    let mut device = None;
    let mut entrants = Vec::new();
    for n in 0..plan.kinds.len() {
        let kind = plan.kinds[(n + round) % plan.kinds.len()];
        let entrant = Entrant::new(kind, place.dir().join(kind.name), plan.cache_bytes);
        entrants.push(entrant?);
    }
    if plan.works.contains(&Work::Bulk) {
        for entrant in &mut entrants {
            // In a database of its own: the other work wants one that was filled by transactions.
            let dir = place.dir().join(format!("{}-bulk", entrant.kind.name));
            let mut own = Entrant::new(entrant.kind, dir, plan.cache_bytes)?;
            let figures = turn(&mut own, Work::Bulk, 1, plan, plan.time, round)?;
            results.add(Work::Bulk, 1, entrant.kind.name, figures);
            drop(own.peer);
            std::fs::remove_dir_all(&own.dir)?;
        }
    }
    if plan.works == [Work::Bulk] {
        entrants.clear();
    }
    for entrant in &mut entrants {
        let figures = turn(entrant, Work::Load, 1, plan, plan.time, round)?;
        if plan.works.contains(&Work::Load) {
            results.add(Work::Load, 1, entrant.kind.name, figures);
        }
        if plan.works.contains(&Work::Size) {
            results.size(entrant.kind.name).loaded.push(bytes_below(&entrant.dir));
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
            for entrant in entrants.iter_mut().filter(|entrant| work.fits(entrant.kind)) {
                let figures = turn(entrant, work, threads, plan, plan.time, round)?;
                results.add(work, threads, entrant.kind.name, figures);
            }
        }
    }
    if plan.works.contains(&Work::Size) {
        for entrant in &mut entrants {
            turn(entrant, Work::Size, Work::Size.threads()[0], plan, plan.churn, round)?;
            results.size(entrant.kind.name).churned.push(bytes_below(&entrant.dir));
        }
    }
    for entrant in entrants {
        drop(entrant.peer);
        std::fs::remove_dir_all(&entrant.dir)?;
    }
    if device.is_some() {
        std::fs::remove_file(&device_path)?;
    }
    Ok(())
}

/// One peer does one piece of work. After it has written much it is given time to put that in order.
fn turn(
    entrant: &mut Entrant,
    work: Work,
    threads: usize,
    plan: &Plan,
    time: Duration,
    round: usize,
) -> Result<Figures> {
    progress(round, plan, work, threads, entrant.kind.name);
    let result = entrant.peer(work.promise()).and_then(|peer| {
        let figures = measure::run(peer, work, threads, plan.rows, time, round as u64 + 1)?;
        if matches!(work, Work::Load | Work::Unsynced | Work::Size) {
            peer.settle()?;
        }
        Ok(figures)
    });
    entrant.named(result)
}

fn progress(round: usize, plan: &Plan, work: Work, threads: usize, name: &str) {
    let mut out = std::io::stderr().lock();
    if std::io::IsTerminal::is_terminal(&out) {
        let round = format!("round {} of {}", round + 1, plan.rounds);
        let _ = write!(out, "\r\x1b[K{round}: {} on {threads} threads, {name}", work.name());
        let _ = out.flush();
    }
}
