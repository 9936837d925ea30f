//! Private servers: a data directory, a socket, no network, and a life that ends by itself.

use super::{is_root, make_dir, output, plugin_path};
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server of `mariadb start` lives.
pub(super) const LIFE: Duration = Duration::from_secs(4 * 3600);
/// How long a start, with a recovery in it, or a stop may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// The user of a server that root starts. It owns nothing else.
pub(super) const USER: &str = "nobody";

/// A running server.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) socket: PathBuf,
    dir: PathBuf,
}

impl Server {
    /// Returns the client program, connected to the server.
    pub(super) fn client(&self) -> Command {
        let mut client = Command::new("mariadb");
        client.arg("--no-defaults").arg("--user=root").arg(format!("--socket={}", self.socket.display()));
        // The kernel takes connections for a process that is stuck in its end.
        client.arg(format!("--connect-timeout={}", PATIENCE.as_secs()));
        client
    }

    /// Returns the number of the server's process.
    pub(super) fn process(&self) -> Result<String, String> {
        let file = self.dir.join("pid");
        let number = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        Ok(number.trim().to_owned())
    }

    /// Returns the server's data directory.
    pub(super) fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Returns the server's error log.
    pub(super) fn log(&self) -> PathBuf {
        self.dir.join("log")
    }
}

/// Returns the directory of a server's temporary files. A server that starts removes those of all
/// servers that have the same one.
fn temporary_in(dir: &Path) -> PathBuf {
    dir.join("tmp")
}

fn server_in(dir: &Path) -> Server {
    Server { socket: dir.join("socket"), dir: dir.to_owned() }
}

/// Starts a server in a directory. It makes the data where there is none. `timeout` ends the server
/// after `life`.
pub(super) fn start(dir: &Path, life: Duration, options: &[&str]) -> Result<Server, String> {
    start_under(&[], dir, life, options)
}

/// Starts a server that a program watches: `watcher` is that program with its own arguments, behind
/// which the server's command line comes.
pub(super) fn start_under(
    watcher: &[String],
    dir: &Path,
    life: Duration,
    options: &[&str],
) -> Result<Server, String> {
    let server = start_any(watcher, dir, life, options)?;
    let engines = output(server.client().args(["--execute", "SHOW ENGINES"]))?;
    if engines.contains("Millpond") {
        return Ok(server);
    }
    let why = last_lines(&server.log());
    stop(dir)?;
    Err(format!("the server has not loaded the plugin: {why}"))
}

/// Starts a server that does not load the plugin.
pub(super) fn start_without_plugin(dir: &Path, life: Duration) -> Result<Server, String> {
    // This takes back what was to be loaded.
    start_any(&[], dir, life, &["--plugin-load="])
}

/// Starts the server of a release in `base`, without the plugin.
pub(super) fn start_release(
    base: &Path,
    dir: &Path,
    life: Duration,
    options: &[&str],
) -> Result<Server, String> {
    let server = claim(dir)?;
    if is_root() {
        check_reachable(&base.join("bin"))?;
    }
    let find = |names: &[&str]| {
        let found = names.iter().map(|name| base.join(name)).find(|path| path.exists());
        found.ok_or_else(|| format!("{} has no {}", base.display(), names[0]))
    };
    let basedir = format!("--basedir={}", base.display());
    let program = find(&["bin/mariadbd", "sbin/mariadbd", MYSQL])?;
    let mut all = arguments(&server.dir);
    all.push(basedir.clone());
    if is_mysql(base) {
        // The port of its other protocol, and a directory of the system.
        all.extend(["--mysqlx=OFF".to_owned(), "--secure-file-priv=".to_owned()]);
    }
    if !server.data().join("mysql").exists() {
        if is_mysql(base) {
            output(Command::new(&program).args(&all).arg("--initialize-insecure"))?;
        } else {
            let mut install = Command::new("bash");
            install.arg(find(&["scripts/mariadb-install-db", "bin/mariadb-install-db"])?);
            install.args(["--no-defaults", &basedir]);
            make_data(install, &server.dir)?;
        }
    }
    all.extend(options.iter().map(|option| (*option).to_owned()));
    launch(server, life, &[], &program, &all)
}

/// The server of MySQL, in a directory that [`start_release`] gets.
const MYSQL: &str = "sbin/mysqld";

/// Tells whether the release in a directory is one of MySQL. MariaDB has a link of that name.
pub(super) fn is_mysql(base: &Path) -> bool {
    base.join(MYSQL).exists() && !base.join("sbin/mariadbd").exists()
}

fn start_any(watcher: &[String], dir: &Path, life: Duration, options: &[&str]) -> Result<Server, String> {
    let server = claim(dir)?;
    let plugins = server.dir.join("plugin");
    make_dir(&plugins)?;
    std::fs::copy(plugin_path(), plugins.join("ha_millpond.so")).map_err(|e| {
        format!("cannot copy {}: {e}; `cargo xtask mariadb build` makes it", plugin_path().display())
    })?;
    if !server.data().join("mysql").exists() {
        make_new_data(&server.dir)?;
    }
    let mut all = arguments(&server.dir);
    all.push(format!("--plugin-dir={}", plugins.display()));
    all.push("--plugin-load-add=ha_millpond.so".to_owned());
    all.push("--plugin-maturity=beta".to_owned());
    all.extend(options.iter().map(|option| (*option).to_owned()));
    launch(server, life, watcher, Path::new("mariadbd"), &all)
}

/// Makes the directory of a server that does not run, for the server's user.
fn claim(dir: &Path) -> Result<Server, String> {
    make_dir(dir)?;
    let dir = dir.canonicalize().map_err(|e| format!("{}: {e}", dir.display()))?;
    let (server, temporary) = (server_in(&dir), temporary_in(&dir));
    make_dir(&temporary)?;
    if is_running(&server) {
        return Err(format!("a server runs in {} already", dir.display()));
    }
    if is_root() {
        check_reachable(&dir)?;
        output(Command::new("chown").arg(USER).args([&dir, &temporary]))?;
    }
    Ok(server)
}

/// Starts a program as a server that ends by itself, and waits until it answers.
fn launch(
    server: Server,
    life: Duration,
    watcher: &[String],
    program: &Path,
    arguments: &[String],
) -> Result<Server, String> {
    let log = File::create(server.log()).map_err(|e| format!("{}: {e}", server.log().display()))?;
    let errors = log.try_clone().map_err(|e| e.to_string())?;
    let mut command = Command::new("setsid");
    command.args(["timeout", "--kill-after=60", &life.as_secs().to_string()]);
    command.args(watcher).arg(program).args(arguments).stdin(Stdio::null()).stdout(log).stderr(errors);
    let mut process = command.spawn().map_err(|e| format!("cannot start the server: {e}"))?;
    let began = Instant::now();
    while !is_running(&server) {
        let ended = process.try_wait().map_err(|e| e.to_string())?;
        if ended.is_some() || began.elapsed() > PATIENCE {
            return Err(format!("the server does not start: {}", last_lines(&server.log())));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(server)
}

/// Stops the server of a directory, and waits until it has ended.
pub(super) fn stop(dir: &Path) -> Result<(), String> {
    let dir = dir.canonicalize().map_err(|e| format!("{}: {e}", dir.display()))?;
    let server = server_in(&dir);
    if !is_running(&server) {
        return Err(format!("no server runs in {}", dir.display()));
    }
    output(server.client().args(["--execute", "SHUTDOWN"]))?;
    let began = Instant::now();
    while dir.join("pid").exists() {
        if began.elapsed() > PATIENCE {
            return Err(format!("the server does not stop: {}", last_lines(&server.log())));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Runs statements, and returns what they print.
pub(super) fn sql(server: &Server, text: &str) -> Result<String, String> {
    let said = output(server.client().args(["--batch", "--skip-column-names", "--execute", text]))?;
    Ok(said.trim().to_owned())
}

/// Tells whether a server answers on the socket.
fn is_running(server: &Server) -> bool {
    server.socket.exists() && output(server.client().args(["--execute", "SELECT 1"])).is_ok()
}

fn arguments(dir: &Path) -> Vec<String> {
    let path = |name: &str| dir.join(name).display().to_string();
    let mut arguments = vec![
        "--no-defaults".to_owned(),
        format!("--datadir={}", path("data")),
        format!("--socket={}", path("socket")),
        format!("--pid-file={}", path("pid")),
        format!("--tmpdir={}", temporary_in(dir).display()),
        "--skip-networking".to_owned(),
        "--max-connections=2100".to_owned(),
        "--max-prepared-stmt-count=1048576".to_owned(),
    ];
    if is_root() {
        arguments.push(format!("--user={USER}"));
    }
    arguments
}

/// Makes the data of a server that was never started, in its directory.
pub(super) fn make_new_data(dir: &Path) -> Result<(), String> {
    let server = claim(dir)?;
    let mut install = Command::new("mariadb-install-db");
    install.arg("--no-defaults");
    make_data(install, &server.dir)
}

/// Makes the data of a server by its script.
fn make_data(mut install: Command, dir: &Path) -> Result<(), String> {
    install.args(["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]);
    install.arg(format!("--datadir={}", dir.join("data").display()));
    install.arg(format!("--tmpdir={}", temporary_in(dir).display()));
    if is_root() {
        install.arg(format!("--user={USER}"));
    }
    output(&mut install).map(drop)
}

/// Checks that the server's user can come to a directory.
fn check_reachable(dir: &Path) -> Result<(), String> {
    for parent in dir.ancestors().skip(1) {
        let mode = std::fs::metadata(parent).map_err(|e| format!("{}: {e}", parent.display()))?.permissions();
        if mode.mode() & 0o001 == 0 {
            return Err(format!(
                "root starts the server as the user {USER}, for whom {} is closed: take another directory",
                parent.display()
            ));
        }
    }
    Ok(())
}

fn last_lines(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
