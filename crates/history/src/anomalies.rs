//! Finds the anomalies of a history.

use crate::graph::{Graph, RW, TIME, WR, WW};
use crate::record::{History, INITIAL, Op, Outcome, ReadResult, Txn, Version};
use millpond::Isolation;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// The anomalies; Adya's names where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Anomaly {
    /// A transaction did not see its own write.
    Internal,
    /// Aborted read: a transaction saw a write that was rolled back.
    G1a,
    /// Intermediate read: it saw a write that its writer replaced before the commit.
    G1b,
    /// Circular information flow: a cycle of write and read dependencies.
    G1c,
    /// An acknowledged write is lost, or a list lost an element.
    Lost,
    /// A cycle without two consecutive anti-dependencies, which snapshot isolation excludes: read
    /// skew, lost update, long fork.
    GSingle,
    /// A cycle with anti-dependencies: write skew, phantoms.
    G2,
    /// A cycle that includes real time: one transaction had ended before the other began.
    Stale,
    /// A transaction saw a broken rule of the workload.
    Rule,
}

/// Returns whether an isolation level allows an anomaly.
#[must_use]
pub fn allows(isolation: Isolation, anomaly: Anomaly) -> bool {
    match anomaly {
        Anomaly::Internal | Anomaly::G1a | Anomaly::G1b | Anomaly::G1c => false,
        Anomaly::Lost | Anomaly::GSingle => !isolation.repeats_reads(),
        Anomaly::G2 | Anomaly::Rule | Anomaly::Stale => !isolation.is_serial(),
    }
}

/// The result of a check.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Committed transactions.
    pub txns: usize,
    /// Dependencies among them.
    pub edges: usize,
    /// One example of each anomaly.
    pub found: BTreeMap<Anomaly, String>,
}

impl Verdict {
    /// Returns the anomalies that the level does not allow.
    #[must_use]
    pub fn forbidden(&self, isolation: Isolation) -> Vec<(Anomaly, &str)> {
        let found = self.found.iter().map(|(anomaly, example)| (*anomaly, &example[..]));
        found.filter(|(anomaly, _)| !allows(isolation, *anomaly)).collect()
    }

    fn add(&mut self, anomaly: Anomaly, example: impl FnOnce() -> String) {
        self.found.entry(anomaly).or_insert_with(example);
    }
}

/// A write and its transaction.
#[derive(Clone, Copy)]
struct WriteInfo {
    txn: usize,
    /// It is the transaction's last write of the key.
    last: bool,
    deletes: bool,
}

fn writes(txn: &Txn) -> impl Iterator<Item = (u64, Version, bool)> {
    txn.ops.iter().filter_map(|op| match *op {
        Op::Write(key, version) => Some((key, version, false)),
        Op::Delete(key, version) => Some((key, version, true)),
        Op::Read(..) | Op::Range(..) => None,
    })
}

/// Searches a history for all anomalies.
#[must_use]
pub fn check(history: &History) -> Verdict {
    let mut verdict = Verdict::default();
    for rule in &history.broken {
        verdict.add(Anomaly::Rule, || rule.clone());
    }
    let mut txns = history.txns.clone();
    if let Some(lists) = &history.lists {
        // A transaction cut off during its commit has committed if one of its writes is there.
        let present: std::collections::HashSet<Version> = lists.values().flatten().copied().collect();
        for txn in txns.iter_mut().filter(|t| t.outcome == Outcome::Unknown) {
            let happened = writes(txn).any(|(_, version, _)| present.contains(&version));
            txn.outcome = if happened { Outcome::Committed(0) } else { Outcome::Aborted };
        }
    }
    let written = all_writes(&txns);
    let orders = orders(history, &txns, &mut verdict);
    let mut graph = Graph::new(txns.len());
    for (key, order) in &orders {
        for two in order.windows(2) {
            if let (Some(a), Some(b)) = (written.get(&(*key, two[0])), written.get(&(*key, two[1]))) {
                graph.edge(a.txn as u32, b.txn as u32, WW);
            }
        }
    }
    let places: HashMap<(u64, Version), usize> = orders
        .iter()
        .flat_map(|(key, order)| order.iter().enumerate().map(|(at, version)| ((*key, *version), at)))
        .collect();
    for (number, txn) in txns.iter().enumerate().filter(|(_, txn)| txn.committed()) {
        verdict.txns += 1;
        let reader = Reader { number, txn, txns: &txns, written: &written, orders: &orders, places: &places };
        reader.reads(&mut graph, &mut verdict);
    }
    verdict.edges = graph.len();
    let show = |cycle: Vec<(u32, u8)>| describe(&txns, &cycle);
    if let Some(cycle) = graph.cycle(WW | WR) {
        verdict.add(Anomaly::G1c, || show(cycle));
    }
    if let Some(cycle) = graph.cycle_without_two_rw(WW | WR) {
        verdict.add(Anomaly::GSingle, || show(cycle));
    }
    if let Some(cycle) = graph.cycle(WW | WR | RW) {
        verdict.add(Anomaly::G2, || show(cycle));
    }
    add_time(&txns, &mut graph);
    if let Some(cycle) = graph.cycle(WW | WR | RW | TIME) {
        verdict.add(Anomaly::Stale, || show(cycle));
    }
    verdict
}

fn all_writes(txns: &[Txn]) -> HashMap<(u64, Version), WriteInfo> {
    let mut written = HashMap::new();
    for (txn, t) in txns.iter().enumerate() {
        let mut last: HashMap<u64, Version> = HashMap::new();
        for (key, version, deletes) in writes(t) {
            written.insert((key, version), WriteInfo { txn, last: true, deletes });
            if let Some(before) = last.insert(key, version) {
                written.get_mut(&(key, before)).expect("just entered").last = false;
            }
        }
    }
    written
}

/// Returns the order of the writes of each key.
fn orders(history: &History, txns: &[Txn], verdict: &mut Verdict) -> BTreeMap<u64, Vec<Version>> {
    let mut by_lsn: Vec<(u64, usize)> = Vec::new();
    for (number, txn) in txns.iter().enumerate() {
        if let Outcome::Committed(lsn) = txn.outcome {
            by_lsn.push((lsn, number));
        }
    }
    by_lsn.sort_unstable();
    let mut orders: BTreeMap<u64, Vec<Version>> = BTreeMap::new();
    for (_, number) in by_lsn {
        for (key, version, _) in writes(&txns[number]) {
            orders.entry(key).or_default().push(version);
        }
    }
    let Some(lists) = &history.lists else { return orders };
    for (key, order) in &mut orders {
        let list = lists.get(key).map_or(&[][..], Vec::as_slice);
        if let Some(gone) = order.iter().find(|version| !list.contains(version)) {
            verdict.add(Anomaly::Lost, || {
                format!("key {key} ends as {list:?}, without the acknowledged {gone}")
            });
        }
        if history.cuts > 0 {
            *order = list.to_vec();
        }
    }
    orders
}

/// One transaction's reads.
struct Reader<'h> {
    number: usize,
    txn: &'h Txn,
    txns: &'h [Txn],
    written: &'h HashMap<(u64, Version), WriteInfo>,
    orders: &'h BTreeMap<u64, Vec<Version>>,
    places: &'h HashMap<(u64, Version), usize>,
}

impl Reader<'_> {
    fn reads(&self, graph: &mut Graph, verdict: &mut Verdict) {
        let mut own: HashMap<u64, Option<Version>> = HashMap::new();
        for op in &self.txn.ops {
            match op {
                Op::Write(key, version) => drop(own.insert(*key, Some(*version))),
                Op::Delete(key, _) => drop(own.insert(*key, None)),
                Op::Read(key, result) => self.read_or_own(&own, *key, result, graph, verdict),
                Op::Range(from, to, rows) => {
                    // The scan says something about every key that ever had a row.
                    let missing = self.orders.range(from..to).map(|(key, _)| *key);
                    let missing = missing.filter(|key| !rows.iter().any(|(k, _)| k == key));
                    let missing: Vec<_> = missing.map(|key| (key, ReadResult::Nothing)).collect();
                    let rows = rows.iter().map(|&(key, version)| (key, ReadResult::Version(version)));
                    for (key, result) in rows.chain(missing) {
                        self.read_or_own(&own, key, &result, graph, verdict);
                    }
                }
            }
        }
    }

    fn read_or_own(
        &self,
        own: &HashMap<u64, Option<Version>>,
        key: u64,
        result: &ReadResult,
        graph: &mut Graph,
        verdict: &mut Verdict,
    ) {
        match own.get(&key) {
            Some(expected) if result.version() != *expected => {
                verdict.add(Anomaly::Internal, || format!("key {key}: {:?}", self.txn));
            }
            Some(_) => {}
            None => self.read(key, result, graph, verdict),
        }
    }

    fn read(&self, key: u64, result: &ReadResult, graph: &mut Graph, verdict: &mut Verdict) {
        let order = self.orders.get(&key).map_or(&[][..], Vec::as_slice);
        let Some(version) = result.version().or_else(|| self.nothing(key, order)) else { return };
        let mut next = 0;
        if version != INITIAL {
            let Some(writer) = self.written.get(&(key, version)) else {
                return verdict.add(Anomaly::G1a, || format!("{version} was never written: {:?}", self.txn));
            };
            if !self.txns[writer.txn].committed() {
                let (writer, reader) = (&self.txns[writer.txn], self.txn);
                return verdict.add(Anomaly::G1a, || format!("rolled back: {writer:?}\n  seen: {reader:?}"));
            }
            if !writer.last {
                verdict.add(Anomaly::G1b, || format!("replaced later: {version}: {:?}", self.txn));
            }
            graph.edge(writer.txn as u32, self.number as u32, WR);
            let Some(at) = self.places.get(&(key, version)) else {
                return verdict
                    .add(Anomaly::Lost, || format!("{version} of key {key} was seen: {:?}", self.txn));
            };
            next = at + 1;
        }
        if let ReadResult::List(list) = result
            && list[..] != order[..next.min(order.len())]
        {
            verdict.add(Anomaly::Lost, || format!("key {key} was {list:?}, its writes are {order:?}"));
        }
        let after = order.get(next).and_then(|version| self.written.get(&(key, *version)));
        if let Some(after) = after {
            graph.edge(self.number as u32, after.txn as u32, RW);
        }
    }

    /// Returns the state that a missing row shows: before the first write or after the deletion.
    /// `None` if it cannot be known.
    fn nothing(&self, key: u64, order: &[Version]) -> Option<Version> {
        let Some(first) = order.first() else { return Some(INITIAL) };
        let writer = |version: &Version| self.written.get(&(key, *version));
        let mut deletions = order.iter().filter(|version| writer(version).is_some_and(|w| w.deletes));
        let Some(last) = deletions.next() else { return Some(INITIAL) };
        // A level that loses updates may bring a row back.
        if deletions.next().is_some() || order.last() != Some(last) {
            return None;
        }
        let deleter = writer(last)?;
        let creator = writer(first)?;
        if self.txns[creator.txn].ended < self.txn.begun {
            return Some(*last);
        }
        (self.txn.ended < self.txns[deleter.txn].begun).then_some(INITIAL)
    }
}

/// Adds real-time edges: from each transaction to all that began after its end. A chain of extra
/// nodes, one for each end, keeps their number small.
fn add_time(txns: &[Txn], graph: &mut Graph) {
    let mut times: Vec<(u64, u32, bool)> = Vec::new();
    for (number, txn) in txns.iter().enumerate().filter(|(_, txn)| txn.committed()) {
        times.push((txn.begun, number as u32, true));
        times.push((txn.ended, number as u32, false));
    }
    times.sort_unstable();
    let mut last_end = None;
    for (_, txn, begins) in times {
        if begins {
            last_end.into_iter().for_each(|end| graph.edge(end, txn, TIME));
            continue;
        }
        let end = graph.node();
        graph.edge(txn, end, TIME);
        last_end.into_iter().for_each(|before| graph.edge(before, end, TIME));
        last_end = Some(end);
    }
}

fn describe(txns: &[Txn], cycle: &[(u32, u8)]) -> String {
    let mut out = String::new();
    for (node, kind) in cycle {
        let edge = ["", "overwritten by", "read by", "", "read what was overwritten by"];
        let edge = edge.get(*kind as usize).copied().unwrap_or("ended before");
        if let Some(txn) = txns.get(*node as usize) {
            writeln!(out, "  {:?} {:?} {}..{}", txn.ops, txn.outcome, txn.begun, txn.ended)
                .expect("to memory");
        }
        writeln!(out, "    {edge}").expect("to memory");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a history from texts such as `r1=0 w1=5` with their outcomes. Transactions begin in
    /// order, and all overlap.
    fn history(txns: &[(&str, Outcome)]) -> History {
        let ops = |text: &str| {
            let words = text.split(' ').filter(|word| !word.is_empty());
            words
                .map(|word| {
                    let (key, version) = word[1..].split_once('=').unwrap();
                    let (key, version): (u64, u64) = (key.parse().unwrap(), version.parse().unwrap());
                    let result =
                        if version == 0 { ReadResult::Nothing } else { ReadResult::Version(version) };
                    match &word[..1] {
                        // A scan of all keys below 100, which finds one row.
                        "s" => Op::Range(0, 100, vec![(key, version)]),
                        "r" => Op::Read(key, result),
                        "d" => Op::Delete(key, version),
                        _ => Op::Write(key, version),
                    }
                })
                .collect()
        };
        let txn = |(n, (text, outcome)): (usize, &(&str, Outcome))| Txn {
            client: n as u64,
            begun: n as u64,
            ended: 100 + n as u64,
            ops: ops(text),
            outcome: *outcome,
        };
        History { txns: txns.iter().enumerate().map(txn).collect(), ..History::default() }
    }

    fn found(txns: &[(&str, Outcome)]) -> Vec<Anomaly> {
        check(&history(txns)).found.into_keys().collect()
    }

    #[test]
    fn each_anomaly_is_found_in_its_smallest_history() {
        use Anomaly::{G1a, G1b, G1c, G2, GSingle, Internal, Stale};
        let c = Outcome::Committed;
        assert_eq!(found(&[("r1=0 w1=1", c(1)), ("r1=1 w1=2", c(2)), ("r1=2 r2=0", c(0))]), []);
        assert_eq!(found(&[("w1=1 r1=0", c(1))]), [Internal]);
        assert_eq!(found(&[("w1=1", Outcome::Aborted), ("r1=1", c(0))]), [G1a]);
        assert_eq!(found(&[("w1=1 w1=2", c(1)), ("r1=1", c(0))]), [G1b, GSingle, G2, Stale]);
        assert_eq!(found(&[("w1=1 r2=2", c(1)), ("w2=2 r1=1", c(2))]), [G1c, GSingle, G2, Stale]);
        assert_eq!(found(&[("w1=1 w2=2", c(1)), ("r1=0 r2=2", c(0))]), [GSingle, G2, Stale], "read skew");
        assert_eq!(found(&[("r1=0 w1=1", c(1)), ("r1=0 w1=2", c(2))]), [GSingle, G2, Stale], "lost update");
        assert_eq!(found(&[("r1=0 w2=1", c(1)), ("r2=0 w1=2", c(2))]), [G2, Stale], "write skew");
        let phantom = [("w1=1", c(1)), ("s1=1 w2=2", c(2)), ("s1=1 w3=3", c(3))];
        assert_eq!(found(&phantom), [G2, Stale], "each misses the row of the other");
        let fork = [("w1=1", c(1)), ("w2=2", c(2)), ("r1=1 r2=0", c(0)), ("r1=0 r2=2", c(0))];
        assert_eq!(found(&fork), [GSingle, G2, Stale], "long fork");
    }

    #[test]
    fn a_read_of_an_old_version_after_a_newer_commit_is_stale() {
        let mut h = history(&[("w1=1", Outcome::Committed(1)), ("r1=0", Outcome::Committed(0))]);
        assert!(check(&h).found.is_empty());
        h.txns[1].begun = 200;
        h.txns[1].ended = 201;
        assert_eq!(check(&h).found.into_keys().collect::<Vec<_>>(), [Anomaly::Stale]);
    }

    #[test]
    fn an_acknowledged_append_that_is_missing_is_lost() {
        let mut h = history(&[("w1=1", Outcome::Committed(1)), ("w1=2", Outcome::Unknown)]);
        h.lists = Some(BTreeMap::from([(1, vec![1, 2])]));
        h.cuts = 1;
        let verdict = check(&h);
        assert!(verdict.found.is_empty() && verdict.txns == 2);
        h.lists = Some(BTreeMap::from([(1, vec![2])]));
        assert!(check(&h).found.contains_key(&Anomaly::Lost));
    }
}
