//! What was measured of each transaction of a workload that has several, and tpmC.

use crate::measurements::{KindTotals, Totals, tenth_of_us};
use crate::workload::tpcc::NEW_ORDER;
use output::units::{show_count, show_micros};
use serde::Serialize;
use std::collections::BTreeMap;

/// What was measured of one transaction.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OneTransaction {
    /// Those that are done: committed, or rolled back as they had to.
    pub(crate) transactions: u64,
    pub(crate) rolled_back: u64,
    pub(crate) retries: u64,
    pub(crate) latency_us: ShortLatency,
}

/// Latency in microseconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ShortLatency {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl OneTransaction {
    fn of(totals: &KindTotals) -> OneTransaction {
        let at = |percentile| tenth_of_us(totals.latency.value_at_percentile(percentile));
        OneTransaction {
            transactions: totals.latency.len(),
            rolled_back: totals.rolled_back,
            retries: totals.retries,
            latency_us: ShortLatency {
                p50: at(50.0),
                p95: at(95.0),
                p99: at(99.0),
                max: tenth_of_us(totals.latency.max()),
            },
        }
    }

    /// Returns it for people.
    pub(crate) fn show(&self) -> String {
        let ShortLatency { p50, p95, p99, max } = self.latency_us;
        let rolled_back = match self.rolled_back {
            0 => String::new(),
            n => format!("   {} rolled back", show_count(n as f64)),
        };
        format!(
            "{}   p50 {}   p95 {}   p99 {}   max {}   {} retries{rolled_back}",
            show_count(self.transactions as f64),
            show_micros(p50),
            show_micros(p95),
            show_micros(p99),
            show_micros(max),
            show_count(self.retries as f64),
        )
    }
}

/// What was measured of each transaction.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct ByTransaction {
    /// New orders committed in a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tpmc: Option<f64>,
    #[serde(rename = "by_transaction", skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) all: BTreeMap<&'static str, OneTransaction>,
}

impl ByTransaction {
    /// Takes what all threads measured.
    pub(crate) fn of(totals: &Totals) -> ByTransaction {
        let all: BTreeMap<_, _> =
            totals.kinds.iter().map(|(name, kind)| (*name, OneTransaction::of(kind))).collect();
        let tpmc = |orders: &OneTransaction| {
            let committed = orders.transactions - orders.rolled_back;
            (committed as f64 * 60.0 / totals.seconds * 10.0).round() / 10.0
        };
        let tpmc = all.get(NEW_ORDER).filter(|_| totals.seconds > 0.0).map(tpmc);
        ByTransaction { tpmc, all }
    }
}
