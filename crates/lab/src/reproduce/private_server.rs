//! A MariaDB server of an experiment: its data in a directory of its own, reached by a socket only.
//! It is killed when the experiment ends, and ends by itself after some hours if this program was
//! killed.

use client::{Access, LoginFlags};
use output::failure::{Failure, Outcome};
use output::stop;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server lives at most.
const LIFE: &str = "4h";
/// How long a server may take until it answers: a recovery may be long.
const START: Duration = Duration::from_secs(3600);
/// How long a killed server may take to end.
const STOP: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(20);

/// The server's programs.
#[derive(Debug)]
pub(crate) struct Programs {
    server: PathBuf,
    install: PathBuf,
    plugin: Option<PathBuf>,
}

impl Programs {
    /// Finds the server, or takes the one that was named, and the program that makes its data.
    pub(crate) fn find(server: Option<&Path>, plugin: Option<&Path>) -> Outcome<Programs> {
        if let Some(plugin) = plugin.filter(|plugin| !plugin.is_file()) {
            return Err(Failure::misuse(format!("{} is no file", plugin.display())));
        }
        let server = match server {
            Some(server) if server.is_file() => server.to_owned(),
            Some(server) => return Err(Failure::misuse(format!("{} is no file", server.display()))),
            None => in_path("mariadbd").ok_or_else(|| {
                Failure::misuse("there is no mariadbd in PATH or /usr/sbin; --mariadbd names one")
            })?,
        };
        let name = "mariadb-install-db";
        let beside = server
            .parent()
            .map(|dir| [dir.join(name), dir.join("../bin").join(name), dir.join("../scripts").join(name)]);
        let install = beside.into_iter().flatten().find(|path| path.is_file()).or_else(|| in_path(name));
        let install = install.ok_or_else(|| {
            Failure::misuse(format!("there is no {name} beside {} or in PATH", server.display()))
        })?;
        Ok(Programs { server, install, plugin: plugin.map(Path::to_owned) })
    }

    /// Returns the plugin that brings Millpond into a server.
    pub(super) fn plugin(&self) -> Option<&Path> {
        self.plugin.as_deref()
    }

    /// Says whether the server knows an option.
    pub(super) fn know(&self, option: &str) -> Outcome<bool> {
        let asked = Command::new(&self.server)
            .args(["--no-defaults", "--verbose", "--help"])
            .stdin(Stdio::null())
            .output()
            .map_err(|e| Failure::failed(format!("cannot run {}: {e}", self.server.display())))?;
        let text = String::from_utf8_lossy(&asked.stdout);
        Ok(text
            .split_whitespace()
            .any(|word| word.trim_start_matches("--").split('=').next() == Some(option)))
    }
}

/// Finds a program in `PATH`, and where Debian has servers.
fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    dirs.map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// The file of the plugin, below the directory of its server.
const PLUGIN: &str = "ha_millpond.so";

/// What a server is started with.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    /// Options of the server and of InnoDB.
    pub(super) settings: Vec<String>,
    /// Directories that the settings name; they are made, and removed with the server.
    pub(super) dirs: Vec<PathBuf>,
    /// With the plugin, and these options of it.
    pub(super) plugin: Option<Vec<String>>,
}

/// A running server.
pub(super) struct PrivateServer {
    command: Vec<String>,
    dir: PathBuf,
    more: Vec<PathBuf>,
    child: Option<Child>,
}

impl PrivateServer {
    /// Makes the data of a new server in `dir`, and starts it.
    pub(super) fn start(programs: &Programs, dir: &Path, options: &Options) -> Outcome<PrivateServer> {
        for dir in options.dirs.iter().map(PathBuf::as_path).chain([dir]) {
            fs::create_dir_all(dir)
                .map_err(|e| Failure::failed(format!("cannot make {}: {e}", dir.display())))?;
        }
        let data = dir.join("data");
        let root = rustix::process::geteuid().is_root();
        let user = root.then(|| "--user=root".to_owned());
        let mut install = Command::new(&programs.install);
        install
            .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"])
            .arg(format!("--datadir={}", data.display()))
            .args(&user)
            // The server finds its log where it was made.
            .args(&options.settings);
        make_data(install, &programs.install)?;
        let mut command = vec![
            programs.server.display().to_string(),
            "--no-defaults".to_owned(),
            format!("--datadir={}", data.display()),
            format!("--socket={}", dir.join("s").display()),
            format!("--log-error={}", dir.join("error.log").display()),
            "--skip-networking".to_owned(),
            // The default is too few for 256 threads on 8 tables.
            "--max-prepared-stmt-count=1048576".to_owned(),
        ];
        command.extend(user);
        command.extend(options.settings.iter().cloned());
        if let (Some(settings), Some(plugin)) = (&options.plugin, &programs.plugin) {
            fs::copy(plugin, dir.join(PLUGIN))
                .map_err(|e| Failure::failed(format!("cannot copy {}: {e}", plugin.display())))?;
            command.push(format!("--plugin-dir={}", dir.display()));
            command.push(format!("--plugin-load-add={PLUGIN}"));
            command.push("--plugin-maturity=beta".to_owned());
            command.extend(settings.iter().cloned());
        }
        let more = options.dirs.clone();
        let mut server = PrivateServer { command, dir: dir.to_owned(), more, child: None };
        server.start_again()?;
        Ok(server)
    }

    /// Starts the server, and waits until it answers. Returns how long that took.
    pub(super) fn start_again(&mut self) -> Outcome<Duration> {
        let begun = Instant::now();
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10", LIFE]).args(&self.command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Ctrl-C is for this program, which ends the server itself: the group is that of `timeout`.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.spawn().map_err(|e| Failure::failed(format!("cannot start a server: {e}")))?;
        self.child = Some(child);
        let access = Access::to(&self.url(), &LoginFlags::default())?;
        loop {
            stop::check()?;
            if access.try_connect().is_ok() {
                return Ok(begun.elapsed());
            }
            let ended = self.child.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)));
            if ended || begun.elapsed() > START {
                return Err(Failure::failed(format!("the server does not start: {}", self.first_error())));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Returns its address.
    pub(super) fn url(&self) -> String {
        format!("mysql://root@localhost/?socket={}", self.dir.join("s").display())
    }

    /// Returns how to get into it.
    pub(super) fn access(&self) -> Outcome<Access> {
        Access::to(&self.url(), &LoginFlags::default())
    }

    /// Kills it, as a crash of the process does.
    pub(super) fn kill(&mut self) -> Outcome {
        if let Some(group) = self.child.as_ref().and_then(|child| Pid::from_raw(child.id() as i32)) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.wait(STOP)
    }

    /// Ends it, and removes its data.
    pub(super) fn end(mut self) -> Outcome {
        self.kill()?;
        self.more.iter().chain([&self.dir]).try_for_each(|dir| {
            fs::remove_dir_all(dir)
                .map_err(|e| Failure::failed(format!("cannot remove {}: {e}", dir.display())))
        })
    }

    /// Waits until it has ended.
    fn wait(&mut self, limit: Duration) -> Outcome {
        let begun = Instant::now();
        let Some(child) = &mut self.child else { return Ok(()) };
        while matches!(child.try_wait(), Ok(None)) {
            if begun.elapsed() > limit {
                return Err(Failure::failed(format!("a server does not end for {} s", limit.as_secs())));
            }
            std::thread::sleep(POLL);
        }
        self.child = None;
        Ok(())
    }

    /// Returns the first error of its log: the last one only says that it ends.
    fn first_error(&self) -> String {
        let log = fs::read_to_string(self.dir.join("error.log")).unwrap_or_default();
        let error = log.lines().find(|line| line.contains("[ERROR]")).or_else(|| log.lines().last());
        error.unwrap_or("its error log is empty").to_owned()
    }
}

/// Runs the program that makes the data of a new server.
fn make_data(mut install: Command, program: &Path) -> Outcome {
    let made = install
        .stdin(Stdio::null())
        .output()
        .map_err(|e| Failure::failed(format!("cannot run {}: {e}", program.display())))?;
    if made.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&made.stderr);
    let last = said.lines().last().unwrap_or("nothing said");
    Err(Failure::failed(format!("{} fails: {last}", program.display())))
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
