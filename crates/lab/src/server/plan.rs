//! What a run would do on a server, in words: its statements, without running them.

use super::load::engine_clause;
use super::sysbench::{self, ROWS_A_STATEMENT};
use super::workloads::ServerWorkload;
use super::{insert, napkin, schema_reload, tpcc};
use crate::workload::{INSERTS_PER_THREAD, SCHEMA_TABLES, WorkloadKind, mix};

/// The statements of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Of the load; one table stands for all that are like it.
    pub(crate) load: Vec<String>,
    /// Of a transaction, in their order.
    pub(crate) transaction: Vec<String>,
}

impl ServerWorkload {
    /// Returns the statements of a run.
    pub(crate) fn plan(&self) -> Plan {
        let clause = engine_clause(self.engine.as_deref());
        let (params, tables) = (&self.params, self.params.tables);
        match (mix(self.kind), self.kind) {
            (Some(mix), _) => {
                let transaction = counted(sysbench::statements(mix, params));
                Plan { load: all_like(filled(&clause), tables), transaction }
            }
            (None, WorkloadKind::Napkin) => Plan {
                load: vec![napkin::create(&clause)],
                transaction: vec![format!("{INSERTS_PER_THREAD} a thread: {}", napkin::insert())],
            },
            (None, WorkloadKind::SchemaReload) => Plan {
                load: all_like(vec![schema_reload::create(0, &clause)], SCHEMA_TABLES),
                transaction: all_like(
                    vec![schema_reload::drop_it(0), schema_reload::create(0, &clause)],
                    SCHEMA_TABLES,
                ),
            },
            (None, WorkloadKind::BulkLoad) => {
                let again = format!("DROP TABLE IF EXISTS {}", sysbench::table(1));
                let transaction = std::iter::once(again).chain(filled(&clause)).collect();
                Plan { load: Vec::new(), transaction: all_like(transaction, tables) }
            }
            (None, WorkloadKind::Tpcc) => Plan {
                load: tpcc::made(&clause, params.tpcc.foreign_keys),
                transaction: vec!["TPC-C's five transactions, between BEGIN and COMMIT".to_owned()],
            },
            (None, _) => Plan { load: all_like(filled(&clause), tables), transaction: vec![insert::text(1)] },
        }
    }
}

/// Returns the statements that make and fill the first table of sysbench.
fn filled(clause: &str) -> Vec<String> {
    let rows = format!("INSERT INTO {} (id, k, c, pad) VALUES (…), …", sysbench::table(1));
    vec![sysbench::create(1, clause), format!("{rows}   {ROWS_A_STATEMENT} rows each"), sysbench::index(1)]
}

/// Adds that there are more tables, if there are.
fn all_like(mut statements: Vec<String>, tables: u32) -> Vec<String> {
    if tables > 1 {
        statements.push(format!("the same for {tables} tables in all"));
    }
    statements
}

/// Joins statements, and pairs of them, that are repeated.
fn counted(statements: Vec<String>) -> Vec<String> {
    let (mut rest, mut out) = (statements.as_slice(), Vec::new());
    while !rest.is_empty() {
        let times = |of: usize| rest.chunks(of).take_while(|chunk| *chunk == &rest[..of]).count();
        let (of, times) =
            if rest.len() > 1 && times(2) > 1 && times(1) == 1 { (2, times(2)) } else { (1, times(1)) };
        let what = rest[..of].join("; ");
        out.push(match (of, times) {
            (_, 1) => what,
            (1, _) => format!("{times} x {what}"),
            _ => format!("{times} x ({what})"),
        });
        rest = &rest[of * times..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;
    use crate::workload::distribution::Distribution;
    use crate::workload::tpcc::TpccSetup;
    use crate::workload::{TxnSettings, WorkloadParams};
    use millpond::{Durability, Isolation};

    fn workload(kind: WorkloadKind) -> ServerWorkload {
        let begin = TxnSettings { durability: Durability::Sync, isolation: Isolation::RepeatableRead };
        let (distribution, tpcc) = (Distribution::Uniform, TpccSetup::default());
        let params = WorkloadParams { tables: 3, rows: 1000, distribution, seed: 1, begin, tpcc };
        build(kind, params, Some("InnoDB".to_owned()), None)
    }

    fn plan(kind: WorkloadKind) -> Plan {
        workload(kind).plan()
    }

    #[test]
    fn a_session_prepares_what_it_needs_of_each_table() {
        assert_eq!(workload(WorkloadKind::ReadWrite).statements_a_session(), 3 * 9);
        assert_eq!(workload(WorkloadKind::PointSelect).statements_a_session(), 3);
        assert_eq!(workload(WorkloadKind::Insert).statements_a_session(), 3);
        assert_eq!(workload(WorkloadKind::BulkLoad).statements_a_session(), 0);
    }

    #[test]
    fn statements_of_a_transaction_are_counted_and_name_no_table() {
        let Plan { load, transaction } = plan(WorkloadKind::ReadWrite);
        assert_eq!(
            transaction,
            [
                "BEGIN",
                "10 x SELECT c FROM sbtestN WHERE id = ?",
                "SELECT c FROM sbtestN WHERE id BETWEEN ? AND ?",
                "SELECT SUM(k) FROM sbtestN WHERE id BETWEEN ? AND ?",
                "SELECT c FROM sbtestN WHERE id BETWEEN ? AND ? ORDER BY c",
                "SELECT DISTINCT c FROM sbtestN WHERE id BETWEEN ? AND ? ORDER BY c",
                "UPDATE sbtestN SET k = k + 1 WHERE id = ?",
                "UPDATE sbtestN SET c = ? WHERE id = ?",
                "DELETE FROM sbtestN WHERE id = ?",
                "INSERT INTO sbtestN (id, k, c, pad) VALUES (?, ?, ?, ?)",
                "COMMIT",
            ]
        );
        let heavy = plan(WorkloadKind::WriteHeavy).transaction;
        let pair = "10 x (DELETE FROM sbtestN WHERE id = ?; INSERT INTO sbtestN (id, k, c, pad) VALUES (?, ?, ?, ?))";
        assert_eq!(heavy[heavy.len() - 2], pair);
        assert!(load[0].starts_with("CREATE TABLE sbtest1 (") && load[0].ends_with("ENGINE=InnoDB"));
        assert_eq!(load[2..], ["CREATE INDEX k_1 ON sbtest1 (k)", "the same for 3 tables in all"]);
        assert_eq!(plan(WorkloadKind::PointSelect).transaction, ["SELECT c FROM sbtestN WHERE id = ?"]);
    }

    #[test]
    fn each_workload_has_a_plan() {
        use clap::ValueEnum;
        for kind in WorkloadKind::value_variants() {
            let plan = plan(*kind);
            assert!(!plan.transaction.is_empty(), "{kind:?}");
            assert!(!plan.load.is_empty() || *kind == WorkloadKind::BulkLoad, "{kind:?}");
        }
    }
}
