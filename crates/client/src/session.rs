//! What a session that watches sets for itself, so that the server's GLOBAL settings do not spoil
//! its figures: cut an answer, refuse or end a statement, or close an idle connection.

use crate::trouble::Trouble;

/// What every server has, in one statement.
const EVERYWHERE: &str = "SET SESSION sql_mode = '', sql_select_limit = 18446744073709551615, \
     max_join_size = 18446744073709551615, sql_big_selects = 1, autocommit = 1, \
     wait_timeout = 86400, net_read_timeout = 30, net_write_timeout = 60, long_query_time = 31536000";

/// What only some servers have.
const SOMEWHERE: [&str; 8] = [
    // MariaDB: seconds; 0 is no limit.
    "SET SESSION max_statement_time = 0",
    "SET SESSION idle_transaction_timeout = 0",
    "SET SESSION max_session_mem_used = 9223372036854775807",
    "SET SESSION tmp_disk_table_size = 18446744073709551615",
    // Galera: a node that lags would answer only when it has caught up.
    "SET SESSION wsrep_sync_wait = 0",
    // MySQL: milliseconds.
    "SET SESSION max_execution_time = 0",
    "SET SESSION group_replication_consistency = 'EVENTUAL'",
    // Names and texts come in UTF-8, also if the server ignores what its clients ask for.
    "SET NAMES utf8mb4",
];

/// Unknown variable, one that is only global here or may be set by some users only, or a value that
/// this version does not have.
const NOT_HERE: [u16; 6] = [1193, 1227, 1229, 1231, 1232, 1238];

/// Sets everything, by `run`, which runs a statement.
pub(crate) fn set(mut run: impl FnMut(&str) -> Result<(), Trouble>) -> Result<(), Trouble> {
    run(EVERYWHERE)?;
    for statement in SOMEWHERE {
        match run(statement) {
            Err(Trouble::Refused { code, .. }) if NOT_HERE.contains(&code) => {}
            said => said?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_does_not_have_is_left_out_and_trouble_is_not() {
        let mut seen = Vec::new();
        let refuse = |code: u16| Err(Trouble::Refused { code, why: String::new() });
        let first = set(|statement| {
            seen.push(statement.to_owned());
            if statement.contains("wsrep") { refuse(1193) } else { Ok(()) }
        });
        assert_eq!((first, seen.len()), (Ok(()), 1 + SOMEWHERE.len()));
        assert!(
            set(|statement| if statement.contains("max_statement") { refuse(1317) } else { Ok(()) }).is_err()
        );
        assert!(set(|_| Err(Trouble::Gone("broke".into()))).is_err());
    }
}
