//! A primary with two replicas dies. The replica that has most takes its place, and the other one
//! follows it from where it is.

use super::super::clients::{self, Killed};
use super::super::steps::expect;
use super::group::{Group, Setting};
use std::time::Duration;

/// The time under load while both replicas follow, and while one of them does.
const LOAD: Duration = Duration::from_millis(1500);
/// Where replicas keep the position of transactions of Millpond.
const POSITION: &str = "SELECT LOWER(table_name), engine FROM information_schema.tables \
                        WHERE table_name LIKE 'gtid\\_slave\\_pos\\_%'";

/// The check.
pub(super) fn most_advanced(setting: &Setting) -> Result<(), String> {
    let mut group = Group::start(setting, &[&[], &[], &[]])?;
    group.sql(0, clients::TABLES)?;
    for replica in [1, 2] {
        group.follow(replica, 0, "")?;
    }
    let clients = clients::start(group.server(0)?, group.place(0), 1, Killed::Primary)?;
    std::thread::sleep(LOAD);
    group.sql(2, "STOP SLAVE IO_THREAD")?;
    std::thread::sleep(LOAD);
    group.kill(0)?;
    clients::end(clients);
    for replica in [1, 2] {
        group.apply_what_is_there(replica)?;
        expect(
            "the table of the position",
            &group.sql(replica, POSITION)?,
            "gtid_slave_pos_millpond\tMillpond",
        )?;
    }
    let [first, second] = [1, 2].map(|replica| position(&group, replica));
    let (first, second) = (first?, second?);
    if first <= second {
        return Err(format!("the replica that follows is at {first}, the one that does not at {second}"));
    }
    group.sql(1, "STOP SLAVE; RESET SLAVE ALL")?;
    group.sql(2, "STOP SLAVE")?;
    group.follow(2, 1, "")?;
    let clients = clients::start(group.server(1)?, group.place(1), 2, Killed::Both)?;
    std::thread::sleep(LOAD / 2);
    group.kill(2)?;
    group.start_one(2)?;
    std::thread::sleep(LOAD / 2);
    clients::end(clients);
    group.catch_up(2, 1)?;
    group.equal(1, 2)
}

/// Returns the number of the last transaction that a replica has applied.
fn position(group: &Group, replica: usize) -> Result<u64, String> {
    let position = group.sql(replica, "SELECT @@gtid_slave_pos")?;
    position.rsplit('-').next().and_then(|n| n.parse().ok()).ok_or_else(|| format!("what is {position}"))
}
