//! A table is dropped by mistake. A dump and the binary log bring the database back as it was just
//! before.

use super::super::server::Server;
use super::super::steps::{expect, run_file};
use super::super::{output, write};
use super::group::{Group, Setting};
use std::path::PathBuf;
use std::process::Command;

/// Before the dump, between it and the mistake, and behind the mistake.
const BEFORE: &str = "CREATE DATABASE test; USE test; \
    CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY, v DECIMAL(10,2), t TEXT, b LONGBLOB, KEY (v)); \
    CREATE TABLE bare (a INT, t VARCHAR(20)); \
    INSERT INTO orders (v, t) SELECT seq / 3, REPEAT('o', seq) FROM seq_1_to_200; \
    INSERT INTO bare SELECT seq % 7, 'same' FROM seq_1_to_50";
const BETWEEN: &str = "USE test; \
    INSERT INTO orders (v, b) SELECT seq / 7, REPEAT('b', seq * 100) FROM seq_1_to_200; \
    BEGIN; UPDATE orders SET v = v + 1 WHERE id % 3 = 0; DELETE FROM bare WHERE a = 2 LIMIT 3; COMMIT; \
    ALTER TABLE bare ADD COLUMN w INT DEFAULT 4; CREATE TABLE late AS SELECT * FROM orders WHERE id < 50; \
    UPDATE orders SET t = NULL, b = 'changed' WHERE id % 5 = 0; DELETE FROM orders WHERE id % 11 = 0";
const BEHIND: &str = "USE test; INSERT INTO bare VALUES (99, 'behind', 1); DELETE FROM late; \
    CREATE TABLE orders (id INT PRIMARY KEY); INSERT INTO orders VALUES (1)";
const SUMS: &str = "CHECKSUM TABLE test.orders, test.bare, test.late EXTENDED; \
    SELECT COUNT(*), SUM(v), MAX(id) FROM test.orders; SELECT COUNT(*) FROM test.bare";

/// The check.
pub(super) fn restored(setting: &Setting) -> Result<(), String> {
    let group = Group::start(setting, &[&[]])?;
    group.sql(0, BEFORE)?;
    let server = group.server(0)?;
    let dump = output(program("mariadb-dump", server).args(["--single-transaction", "--databases", "test"]))?;
    // The restored rows are not logged again.
    write(&setting.dir.join("dump"), &format!("SET sql_log_bin = 0;\n{dump}"))?;
    let log = last_log(&group)?;
    group.sql(0, "FLUSH BINARY LOGS")?;
    group.sql(0, BETWEEN)?;
    let wanted = group.sql(0, SUMS)?;
    // The time in the binary log has whole seconds: the mistake is in one of its own.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let time = group.sql(0, "SELECT NOW()")?;
    group.sql(0, "DROP TABLE test.orders")?;
    group.sql(0, BEHIND)?;
    let mut logs = files(&group)?;
    logs.retain(|file| file.file_name().is_some_and(|name| name.to_string_lossy().into_owned() > log));
    let position = position_of_drop(&output(print(&[]).args(&logs))?)?;
    for stop in [format!("--stop-position={position}"), format!("--stop-datetime={time}")] {
        let events = output(print(&["--disable-log-bin", &stop]).args(&logs))?;
        write(&setting.dir.join("events"), &events)?;
        // The events have the numbers that the server has given already.
        group.sql(0, "SET GLOBAL gtid_strict_mode = 0; SET sql_log_bin = 0; DROP DATABASE test")?;
        for file in ["dump", "events"] {
            run_file(server, &setting.dir.join(file))?;
        }
        expect(&stop, &group.sql(0, SUMS)?, &wanted)?;
        expect("CHECK TABLE", &group.sql(0, "CHECK TABLE test.orders")?, "status\tOK")?;
    }
    Ok(())
}

fn program(name: &str, server: &Server) -> Command {
    let mut program = Command::new(name);
    program.args(["--no-defaults", "--user=root", &format!("--socket={}", server.socket.display())]);
    program
}

/// Returns the program that prints a binary log.
fn print(options: &[&str]) -> Command {
    let mut print = Command::new("mariadb-binlog");
    print.arg("--no-defaults").args(options);
    print
}

/// Returns the name of the file that is written.
fn last_log(group: &Group) -> Result<String, String> {
    let status = group.sql(0, "SHOW MASTER STATUS")?;
    status.split('\t').next().map(str::to_owned).ok_or_else(|| "there is no binary log".to_owned())
}

fn files(group: &Group) -> Result<Vec<PathBuf>, String> {
    let (names, data) = (group.sql(0, "SHOW BINARY LOGS")?, group.server(0)?.data());
    Ok(names.lines().filter_map(|line| line.split_whitespace().next()).map(|name| data.join(name)).collect())
}

/// Returns where the event begins that drops the table.
fn position_of_drop(text: &str) -> Result<String, String> {
    let mut position = None;
    for line in text.lines() {
        if let Some(at) = line.strip_prefix("# at ") {
            position = Some(at);
        } else if line.starts_with("DROP TABLE `test`.`orders`") {
            return position.map(str::to_owned).ok_or_else(|| "the event has no position".to_owned());
        }
    }
    Err("the binary log has no DROP TABLE".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_is_that_of_the_statement() {
        let text =
            "# at 4\nCREATE TABLE t\n# at 77\n#Q> x\nDROP TABLE `test`.`orders` /* generated */\n# at 99";
        assert_eq!(position_of_drop(text), Ok("77".to_owned()));
        assert!(position_of_drop("# at 4\nDROP TABLE `test`.`bare`").is_err());
    }
}
