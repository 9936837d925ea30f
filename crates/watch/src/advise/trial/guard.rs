//! Which servers are not tried: replicas and read-only servers, and those that do not let this user
//! change settings. Asked before anything is watched.

use client::{Access, Connection, SETTINGS_NEED, Trouble, set_to};
use output::failure::{Failure, Outcome};

/// What says whether a server is a replica: MariaDB, MySQL from 8.0.22 on, and before.
const REPLICA: [&str; 3] = ["SHOW ALL SLAVES STATUS", "SHOW REPLICA STATUS", "SHOW SLAVE STATUS"];
/// Settings of a server that takes no changes.
const READ_ONLY: [&str; 3] = ["read_only", "super_read_only", "innodb_read_only"];
/// The server does not know the statement.
const UNKNOWN: u16 = 1064;
/// Access denied for want of a privilege.
const NO_PRIVILEGE: u16 = 1227;
/// A setting that every InnoDB has and that may be changed.
const EXAMPLE: &str = "innodb_io_capacity";

/// Fails if a server must not be tried.
pub(super) fn check(access: &Access) -> Outcome {
    let mut connection = access.connect()?;
    let settings = connection.rows("SHOW GLOBAL VARIABLES").map_err(|trouble| failed(&trouble))?;
    let of = |name: &str| {
        let row = settings.iter().find(|row| row.first().and_then(Option::as_deref) == Some(name))?;
        row.get(1)?.clone()
    };
    if let Some(name) = READ_ONLY.iter().find(|name| of(name).is_some_and(|value| is_on(&value))) {
        return Err(Failure::misuse(format!("the server is read-only ({name}), and --try needs its load")));
    }
    if is_replica(&mut connection)? {
        let why = "the server is a replica: it repeats the load of another server, so --try is not for it";
        return Err(Failure::misuse(why));
    }
    let Some(value) = of(EXAMPLE) else { return Ok(()) };
    // The value that it has: it says now whether this user may change settings.
    match connection.rows(&set_to(EXAMPLE, &value)) {
        Err(Trouble::Refused { code: NO_PRIVILEGE, why }) => {
            Err(Failure::misuse(format!("--try changes settings: {why}; {SETTINGS_NEED}")))
        }
        Err(trouble) => Err(failed(&trouble)),
        Ok(_) => Ok(()),
    }
}

fn is_replica(connection: &mut Connection) -> Outcome<bool> {
    for statement in REPLICA {
        match connection.rows(statement) {
            Ok(rows) => return Ok(!rows.is_empty()),
            Err(Trouble::Refused { code: UNKNOWN, .. }) => {}
            Err(Trouble::Refused { code: NO_PRIVILEGE, why }) => {
                return Err(Failure::misuse(format!(
                    "the server does not say whether it is a replica: {why}; it needs the privilege SLAVE \
                     MONITOR, in MySQL REPLICATION CLIENT"
                )));
            }
            Err(trouble) => return Err(failed(&trouble)),
        }
    }
    Ok(false)
}

/// Whether a setting is on. Some versions have more words for it than ON.
fn is_on(value: &str) -> bool {
    !["off", "0", "no", "false", ""].contains(&value.to_lowercase().as_str())
}

fn failed(trouble: &Trouble) -> Failure {
    Failure::failed(trouble.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_read_only() {
        assert!(["ON", "1", "NO_LOCK", "NO_LOCK_NO_ADMIN"].into_iter().all(is_on));
        assert!(["OFF", "0", ""].into_iter().all(|value| !is_on(value)));
    }
}
