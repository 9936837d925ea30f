//! Servers that replicate from each other.

use super::super::replicas;
use super::super::server::{self, Server};
use super::super::steps::try_until;
use super::super::{make_dir, output, sql};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A server of a test ends by itself, even if the test is killed.
const LIFE: Duration = Duration::from_secs(1800);
/// How long a replica may take to have what its primary has, once that gets no load.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server, whether it runs or not.
struct Node {
    place: PathBuf,
    port: u16,
    options: Vec<String>,
    server: Option<Server>,
}

/// Where the servers of a check are, and the engine of their tables.
pub(super) struct Setting {
    pub(super) dir: PathBuf,
    pub(super) engine: String,
}

/// Some servers, each with a number.
pub(super) struct Group {
    nodes: Vec<Node>,
}

impl Group {
    /// Starts a server for each list of options.
    pub(super) fn start(setting: &Setting, options: &[&[&str]]) -> Result<Group, String> {
        let Setting { dir, engine } = setting;
        make_dir(dir)?;
        let ports = free_ports(options.len())?;
        let node = |(n, (options, port)): (usize, (&&[&str], u16))| {
            let mut all = common_options(n + 1, port);
            all.push(format!("--default-storage-engine={engine}"));
            all.extend(options.iter().map(|option| (*option).to_owned()));
            Node { place: dir.join(n.to_string()), port, options: all, server: None }
        };
        let mut group = Group { nodes: options.iter().zip(ports).enumerate().map(node).collect() };
        for n in 0..group.nodes.len() {
            group.make_data(n)?;
            group.start_one(n)?;
            // Each has the user, so that each can become the primary.
            let user = "SET sql_log_bin = 0; CREATE USER replica@'127.0.0.1'; \
                        GRANT ALL ON *.* TO replica@'127.0.0.1'";
            group.sql(n, user)?;
        }
        Ok(group)
    }

    /// Copies the data that the first server had before its first start: to make it takes longer.
    fn make_data(&self, n: usize) -> Result<(), String> {
        let (template, place) = (self.nodes[0].place.with_file_name("template"), &self.nodes[n].place);
        make_dir(place)?;
        if n == 0 {
            server::make_new_data(place)?;
            make_dir(&template)?;
            return copy(&place.join("data"), &template);
        }
        copy(&template.join("data"), place)
    }

    /// Starts one of them.
    pub(super) fn start_one(&mut self, n: usize) -> Result<(), String> {
        let node = &mut self.nodes[n];
        let options: Vec<&str> = node.options.iter().map(String::as_str).collect();
        node.server = Some(server::start(&node.place, LIFE, &options)?);
        Ok(())
    }

    /// Kills one of them.
    pub(super) fn kill(&mut self, n: usize) -> Result<(), String> {
        output(Command::new("kill").args(["-9", &self.server(n)?.process()?]))?;
        self.nodes[n].server = None;
        Ok(())
    }

    /// Returns one that runs.
    pub(super) fn server(&self, n: usize) -> Result<&Server, String> {
        self.nodes[n].server.as_ref().ok_or_else(|| format!("the server {n} does not run"))
    }

    /// Returns the directory of one of them.
    pub(super) fn place(&self, n: usize) -> &Path {
        &self.nodes[n].place
    }

    /// Returns the port of one of them, on the loopback interface.
    pub(super) fn port(&self, n: usize) -> u16 {
        self.nodes[n].port
    }

    /// Runs statements in one of them, and returns what they print.
    pub(super) fn sql(&self, n: usize, text: &str) -> Result<String, String> {
        sql(self.server(n)?, text).map_err(|why| format!("server {n}: {text}: {why}"))
    }

    /// Returns where a primary is, for CHANGE MASTER.
    pub(super) fn address(&self, primary: usize) -> String {
        format!(
            "MASTER_HOST='127.0.0.1', MASTER_PORT={}, MASTER_USER='replica', MASTER_CONNECT_RETRY=1, \
             MASTER_USE_GTID=slave_pos",
            self.port(primary)
        )
    }

    /// Makes one a replica of another. `more` are further choices of CHANGE MASTER.
    pub(super) fn follow(&self, replica: usize, primary: usize, more: &str) -> Result<(), String> {
        let address = self.address(primary);
        self.sql(replica, &format!("CHANGE MASTER TO {address}{more}; START SLAVE")).map(drop)
    }

    /// Waits until a replica has all that a primary has.
    pub(super) fn catch_up(&self, replica: usize, primary: usize) -> Result<(), String> {
        let position = self.sql(primary, "SELECT @@gtid_binlog_pos")?;
        self.reach(replica, &position)
    }

    /// Waits until a replica has applied all transactions that it has received.
    pub(super) fn apply_what_is_there(&self, replica: usize) -> Result<(), String> {
        self.sql(replica, "STOP SLAVE IO_THREAD")?;
        let position = self.status(replica, "Gtid_IO_Pos")?;
        self.reach(replica, &position)
    }

    fn reach(&self, replica: usize, position: &str) -> Result<(), String> {
        let began = std::time::Instant::now();
        while self.sql(replica, &format!("SELECT MASTER_GTID_WAIT('{position}', 1)"))? != "0" {
            self.check_goes_on(replica)?;
            if began.elapsed() > PATIENCE {
                let found = self.sql(replica, "SELECT @@gtid_slave_pos; SHOW PROCESSLIST")?;
                return Err(format!("server {replica} does not reach {position}: {found}"));
            }
        }
        Ok(())
    }

    /// Fails if a replica has stopped with an error.
    fn check_goes_on(&self, replica: usize) -> Result<(), String> {
        let errors = ["SQL", "IO"].map(|thread| self.status(replica, &format!("Last_{thread}_Error")));
        let [applier, receiver] = errors;
        let (applier, receiver) = (applier?, receiver?);
        // A replica connects again by itself.
        let fatal = |text: &str| !text.trim().is_empty() && !text.contains("connecting to master");
        match fatal(&applier) || fatal(&receiver) {
            true => Err(format!("server {replica} has stopped: {applier} {receiver}")),
            false => Ok(()),
        }
    }

    /// Returns a field of SHOW ALL SLAVES STATUS, of each connection with one.
    pub(super) fn status(&self, replica: usize, field: &str) -> Result<String, String> {
        let mut client = self.server(replica)?.client();
        let text = output(client.args(["--execute", "SHOW ALL SLAVES STATUS\\G"]))?;
        let lines = text.lines().filter_map(|line| line.trim_start().split_once(": "));
        let values: Vec<&str> = lines.filter(|(name, _)| *name == field).map(|(_, value)| value).collect();
        Ok(values.join(" "))
    }

    /// Waits until a statement prints something.
    pub(super) fn until(&self, n: usize, statement: &str, wanted: &str) -> Result<(), String> {
        try_until(&format!("{statement}: {wanted:?}"), || Ok(self.sql(n, statement)? == wanted))
    }

    /// Checks that two of them have the same tables in the database `test`.
    pub(super) fn equal(&self, primary: usize, replica: usize) -> Result<(), String> {
        self.equal_in("test", primary, replica)
    }

    /// Checks that two of them have the same tables in a database.
    pub(super) fn equal_in(&self, database: &str, primary: usize, replica: usize) -> Result<(), String> {
        let count = replicas::compare_in(database, self.server(primary)?, self.server(replica)?)?;
        if count == 0 { Err(format!("there is no table in {database}")) } else { Ok(()) }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for node in &self.nodes {
            // One that waits for a replica that is gone does not stop.
            if let Some(server) = node.server.as_ref().filter(|_| server::stop(&node.place).is_err()) {
                let _ = server.process().and_then(|id| output(Command::new("kill").args(["-9", &id])));
            }
        }
    }
}

fn copy(from: &Path, into: &Path) -> Result<(), String> {
    output(Command::new("cp").arg("-a").args([from, into])).map(drop)
}

/// Returns different ports of the loopback interface that nobody uses now.
fn free_ports(count: usize) -> Result<Vec<u16>, String> {
    let none = |e: std::io::Error| format!("no port is free: {e}");
    let listeners: Result<Vec<TcpListener>, String> =
        (0..count).map(|_| TcpListener::bind(("127.0.0.1", 0)).map_err(none)).collect();
    listeners?.iter().map(|one| one.local_addr().map(|address| address.port()).map_err(none)).collect()
}

fn common_options(id: usize, port: u16) -> Vec<String> {
    let mut all: Vec<String> = [
        "--log-bin=binlog",
        "--log-slave-updates=1",
        "--gtid-strict-mode=1",
        "--gtid-pos-auto-engines=Millpond",
        "--relay-log-recovery=1",
        "--sync-binlog=1",
        "--innodb-buffer-pool-size=16M",
        "--slave-parallel-threads=4",
        // The last of several wins.
        "--skip-networking=0",
        "--bind-address=127.0.0.1",
    ]
    .map(str::to_owned)
    .into();
    all.extend([format!("--server-id={id}"), format!("--port={port}")]);
    all
}

/// Starts a server and a replica of it, both with these options, and runs `work` with them.
pub(in super::super) fn with_replica(
    dir: &Path,
    options: &[&str],
    work: impl FnOnce(&Server, &Server) -> Result<(), String>,
) -> Result<(), String> {
    let setting = Setting { dir: dir.to_owned(), engine: "Millpond".to_owned() };
    let group = Group::start(&setting, &[options, options])?;
    group.follow(1, 0, "")?;
    work(group.server(0)?, group.server(1)?)
}
