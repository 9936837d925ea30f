//! Where the cases run: a server, the program, and a directory for what it writes.

use crate::output;
use crate::server::{self, Server};
use crate::steps::expect;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server of a test ends by itself, even if the test is killed.
pub(super) const LIFE: Duration = Duration::from_secs(1800);

/// A server, the program, and a directory for what it writes.
pub(super) struct Lab<'l> {
    pub(super) program: PathBuf,
    /// Where the server's programs lie; `None` for the installed one with the plugin.
    pub(super) base: Option<PathBuf>,
    pub(super) server: &'l Server,
    pub(super) server_dir: &'l Path,
    pub(super) dir: &'l Path,
    pub(super) seconds: u64,
}

/// Starts a server.
pub(super) fn start(base: Option<&Path>, dir: &Path, more: &[&str]) -> Result<Server, String> {
    let mysql = base.is_some_and(server::is_mysql);
    let log = if mysql { "--innodb-redo-log-capacity=8M" } else { "--innodb-log-file-size=8M" };
    let options = [log, "--innodb-buffer-pool-size=32M", "--performance-schema=ON"];
    let options = [&options, more].concat();
    match base {
        Some(base) => server::start_release(base, dir, LIFE, &options),
        None => server::start(dir, LIFE, &options),
    }
}

impl Lab<'_> {
    pub(super) fn target(&self, user: &str) -> String {
        format!("mysql://{user}@localhost/?socket={}", self.server.socket.display())
    }

    /// The program, with no option file and no password of the caller.
    pub(super) fn millpond(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).env("HOME", self.dir).env_remove("MYSQL_PWD").current_dir(self.dir);
        command
    }

    pub(super) fn ok(&self, args: &[&str]) -> Result<String, String> {
        output(&mut self.millpond(args))
    }

    pub(super) fn sql(&self, text: &str) -> Result<String, String> {
        let said = output(self.server.client().args(["--batch", "--skip-column-names", "--execute", text]))?;
        Ok(said.trim().to_owned())
    }

    /// Whether the server is one of MySQL.
    pub(super) fn is_mysql(&self) -> bool {
        self.base.as_deref().is_some_and(server::is_mysql)
    }

    /// Starts a client that changes rows of a table for some seconds.
    pub(super) fn load(&self, engine: &str) -> Result<Child, String> {
        self.sql(&format!(
            "CREATE DATABASE IF NOT EXISTS lab; DROP TABLE IF EXISTS lab.{engine}; CREATE TABLE lab.{engine} \
             (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(200)) ENGINE={engine}"
        ))?;
        let statement = format!(
            "INSERT INTO lab.{engine} (v) WITH RECURSIVE n (i) AS \
             (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) SELECT REPEAT('x', 200) FROM n; \
             UPDATE lab.{engine} SET v = REPEAT('y', 200) WHERE id % 7 = 0;"
        );
        let mut client = self.server.client();
        client.args(["--database=lab", "--execute", &statement.repeat(200)]);
        let quiet = client.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.spawn().map_err(|e| format!("cannot start a client: {e}"))
    }

    pub(super) fn stats(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.join(name).join("stats.jsonl")).unwrap_or_default()
    }

    /// Collects under load, draws the collection, and looks for plots.
    pub(super) fn collect_and_plot(
        &self,
        target: &str,
        engine: &str,
        name: &str,
        plots: &[&str],
    ) -> Result<(), String> {
        let mut load = self.load(engine)?;
        let collected = self.ok(&["collect", target, "--out", name, "-l", "3"]);
        let _ = load.kill();
        let _ = load.wait();
        expect("collect", &collected?, "3 samples of")?;
        let report = format!("{name}-plots");
        self.ok(&["plot", name, "--out", &report])?;
        for plot in plots {
            let file = self.dir.join(&report).join(plot);
            if !file.exists() {
                return Err(format!("there is no {}", file.display()));
            }
        }
        Ok(())
    }
}
