//! A second opinion by the crate `adya`, which follows Jepsen's Elle (Kingsbury and Alvaro, "Elle:
//! Inferring Isolation Anomalies from Experimental Observations", VLDB 2020). It shares no code
//! with [`crate::anomalies`].

use crate::record::{History, Op, Outcome, ReadResult};
use adya::history::{Interner, Mop, Op as Event, OpType, ReadValue, Scalar};
use adya::{Opts, Workload};
use millpond::Isolation;
use std::collections::HashMap;
use std::time::Duration;

/// Returns the anomalies that a database of this isolation level must not show; none if the history
/// is valid.
///
/// # Errors
/// If it cannot judge the history: it contains ranges or deletions, or the search takes too long.
pub fn ask(history: &History, isolation: Isolation) -> Result<Vec<String>, String> {
    let mut interner = Interner::default();
    // Each transaction is an event when it begins and one when it ends.
    let mut events: Vec<(u64, Event, u64)> = Vec::new();
    for txn in &history.txns {
        let mut value = Vec::new();
        for op in &txn.ops {
            value.push(mop(op, history.lists.is_some(), &mut interner)?);
        }
        let (kind, lsn) = match txn.outcome {
            Outcome::Committed(lsn) => (OpType::Ok, lsn),
            Outcome::Aborted => (OpType::Fail, 0),
            Outcome::Unknown => (OpType::Info, 0),
        };
        let client = txn.client as i64;
        let event = |kind| Event { index: 0, kind, process: Some(client), value: value.clone(), time: None };
        events.push((txn.begun, event(OpType::Invoke), 0));
        events.push((txn.ended, event(kind), lsn));
    }
    events.sort_by_key(|(at, ..)| *at);
    let mut order = HashMap::new();
    for (n, (_, event, lsn)) in events.iter_mut().enumerate() {
        event.index = n as u64;
        if *lsn > 0 {
            order.insert(n as u64, *lsn as i64);
        }
    }
    let events = events.into_iter().map(|(_, event, _)| event).collect();
    let (workload, transaction_order) = match history.lists {
        Some(_) => (Workload::ListAppend, None),
        None => (Workload::RwRegister, Some(order)),
    };
    let model = if isolation.is_serial() {
        "strict-serializable"
    } else if isolation.takes_one_snapshot() {
        "strong-snapshot-isolation"
    } else {
        "read-committed"
    };
    let timeout = Duration::from_secs(60);
    let opts = Opts { models: vec![model.into()], transaction_order, timeout, ..Opts::default() };
    let report = adya::check(&adya::History::from_ops(events, interner), workload, &opts);
    match report.valid {
        adya::Valid::True => Ok(Vec::new()),
        adya::Valid::False => Ok(report.anomaly_types),
        adya::Valid::Unknown => Err(format!("no opinion: {:?}", report.anomaly_types)),
    }
}

fn mop(op: &Op, lists: bool, interner: &mut Interner) -> Result<Mop, String> {
    let mut id = |n: u64| interner.intern(Scalar::Int(n as i64));
    Ok(match op {
        Op::Write(key, version) if lists => Mop::Append { key: id(*key), value: id(*version) },
        Op::Write(key, version) => Mop::Write { key: id(*key), value: id(*version) },
        Op::Read(key, result) => {
            let key = id(*key);
            let value = match result {
                ReadResult::Nothing => ReadValue::Nil,
                ReadResult::Version(version) => ReadValue::Scalar(id(*version)),
                ReadResult::List(list) => ReadValue::List(list.iter().map(|&version| id(version)).collect()),
            };
            Mop::Read { key, value }
        }
        Op::Range(..) | Op::Delete(..) => return Err("it knows no ranges and no deletions".into()),
    })
}
