//! Who logs in, and with which password: from the URL, an option file, the environment or a prompt.
//! A password never comes from the command line, where every user of the machine can read it.

use super::target::{Address, Tls};
use crate::failure::{Failure, Outcome};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// The port of a server, if nothing names another one.
const PORT: u16 = 3306;
/// The socket of a server, if nothing names another one: that of Debian.
const SOCKET: &str = "/run/mysqld/mysqld.sock";
/// The groups of an option file that are read; what comes later in the file wins.
const GROUPS: [&str; 5] = ["client", "client-server", "client-mariadb", "mysql", "millpond"];

/// Flags of every command that connects to a server.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct LoginFlags {
    /// Read user and password from this file instead of ~/.my.cnf
    #[arg(long, value_name = "FILE")]
    defaults_file: Option<PathBuf>,
    /// Ask for the password
    #[arg(long)]
    password: bool,
}

/// Everything that is needed to connect.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Login {
    /// The user.
    pub(crate) user: String,
    /// The password.
    pub(crate) password: Option<String>,
    /// Where the server is.
    pub(crate) place: Place,
    /// How the connection is protected.
    pub(crate) tls: Tls,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On a host and a port.
    Tcp(String, u16),
    /// On a socket of this machine.
    Socket(PathBuf),
}

impl std::fmt::Debug for Login {
    /// Leaves the password out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("user", &self.user).field("place", &self.place).finish_non_exhaustive()
    }
}

/// What an option file says.
#[derive(Clone, Default, PartialEq, Eq)]
struct FileOptions {
    user: Option<String>,
    password: Option<String>,
    host: Option<String>,
    port: Option<u16>,
    socket: Option<PathBuf>,
    authority: Option<PathBuf>,
}

impl Login {
    /// Finds out how to log in.
    pub(crate) fn find(address: &Address, flags: &LoginFlags) -> Outcome<Login> {
        let file = match &flags.defaults_file {
            Some(path) => Some(read(path)?),
            None => match std::env::var_os("HOME").map(|home| Path::new(&home).join(".my.cnf")) {
                Some(path) if path.exists() => Some(read(&path)?),
                _ => None,
            },
        };
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let mut login = decide(address, &file.unwrap_or_default(), &variable);
        if flags.password {
            login.password = Some(ask(&format!("password of {}: ", login.user))?);
        }
        Ok(login)
    }
}

/// Joins the URL, the option file and the environment, in this order.
fn decide(address: &Address, file: &FileOptions, variable: &dyn Fn(&str) -> Option<String>) -> Login {
    let user = address.user.clone().or_else(|| file.user.clone()).or_else(|| variable("USER"));
    // A host in the URL is meant as it is, so nothing of another server is mixed in.
    let own = address.host.is_none();
    let socket = address.socket.clone().or_else(|| file.socket.clone().filter(|_| own));
    let host = address.host.clone().or_else(|| file.host.clone());
    let port = address.port.or(file.port.filter(|_| own));
    let place = match (socket, host) {
        (Some(path), _) => Place::Socket(path),
        // As the clients of MySQL and MariaDB do it: without a port, localhost means the socket.
        (None, None) if port.is_none() => Place::Socket(PathBuf::from(SOCKET)),
        (None, Some(host)) if host == "localhost" && port.is_none() => {
            Place::Socket(file.socket.clone().unwrap_or_else(|| PathBuf::from(SOCKET)))
        }
        (None, host) => Place::Tcp(host.unwrap_or_else(|| "127.0.0.1".to_owned()), port.unwrap_or(PORT)),
    };
    let tls = match (&address.tls, &file.authority) {
        (Tls::Verified { authority: None }, Some(file)) => Tls::Verified { authority: Some(file.clone()) },
        (tls, _) => tls.clone(),
    };
    Login {
        user: user.unwrap_or_else(|| "root".to_owned()),
        password: file.password.clone().or_else(|| variable("MYSQL_PWD")),
        place,
        tls,
    }
}

fn read(path: &Path) -> Outcome<FileOptions> {
    let text = fs::read_to_string(path)
        .map_err(|e| Failure::misuse(format!("cannot read the option file {}: {e}", path.display())))?;
    parse(&text).map_err(|why| Failure::misuse(format!("{}: {why}", path.display())))
}

/// Reads an option file: groups in brackets, `name = value` below.
fn parse(text: &str) -> Result<FileOptions, String> {
    let mut options = FileOptions::default();
    let mut wanted = false;
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';', '!']) {
            continue;
        }
        if let Some(group) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            wanted = GROUPS.contains(&group.0.trim());
            continue;
        }
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        if !wanted {
            continue;
        }
        let value = unquoted(value.trim());
        match name.trim().replace('_', "-").as_str() {
            "user" => options.user = Some(value),
            "password" => options.password = Some(value),
            "host" => options.host = Some(value),
            "port" => {
                options.port = Some(value.parse().map_err(|_| format!("{value:?} is no port of a server"))?);
            }
            "socket" => options.socket = Some(PathBuf::from(value)),
            "ssl-ca" => options.authority = Some(PathBuf::from(value)),
            // Options of other programs.
            _ => {}
        }
    }
    Ok(options)
}

/// Takes quotes off; outside of them `#` begins a comment.
fn unquoted(value: &str) -> String {
    for quote in ['"', '\''] {
        if let Some((inner, _)) = value.strip_prefix(quote).and_then(|rest| rest.rsplit_once(quote)) {
            return inner.replace("\\\\", "\\").replace("\\\"", "\"");
        }
    }
    value.split_once(" #").map_or(value, |(value, _)| value).trim_end().to_owned()
}

/// Asks on the terminal, without showing what is typed. Keys come one by one, and Ctrl-C is a key
/// here: a signal would end the program and leave a terminal that shows nothing.
fn ask(question: &str) -> Outcome<String> {
    let cannot = |e: io::Error| Failure::misuse(format!("cannot ask for the password on the terminal: {e}"));
    let mut terminal = File::options().read(true).write(true).open("/dev/tty").map_err(cannot)?;
    let before = tcgetattr(&terminal).map_err(|e| cannot(e.into()))?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
    tcsetattr(&terminal, OptionalActions::Flush, &silent).map_err(|e| cannot(e.into()))?;
    // Only now, so that nobody types before it.
    let asked = terminal.write_all(question.as_bytes());
    let typed = asked.and_then(|()| typed(BufReader::new(&terminal).bytes()));
    let _ = tcsetattr(&terminal, OptionalActions::Flush, &before);
    let _ = terminal.write_all(b"\n");
    typed.map_err(cannot)?.ok_or_else(|| Failure::failed("interrupted before a password was given"))
}

/// Returns the line that some keys make; `None` if the user gives up by Ctrl-C, or by Ctrl-D at the
/// beginning.
fn typed(keys: impl Iterator<Item = io::Result<u8>>) -> io::Result<Option<String>> {
    const CTRL_C: u8 = 3;
    const CTRL_D: u8 = 4;
    const BACKSPACE: u8 = 8;
    const CTRL_U: u8 = 21;
    const DELETE: u8 = 127;
    let mut line = Vec::new();
    for key in keys {
        match key? {
            b'\n' | b'\r' => return Ok(Some(String::from_utf8_lossy(&line).into_owned())),
            CTRL_C => return Ok(None),
            CTRL_D if line.is_empty() => return Ok(None),
            CTRL_D => {}
            CTRL_U => line.clear(),
            BACKSPACE | DELETE => {
                // A whole character, of one byte or more.
                while line.pop().is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000) {}
            }
            byte => line.push(byte),
        }
    }
    // The terminal has gone.
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::super::target::Target;
    use super::*;

    fn address(url: &str) -> Address {
        match Target::parse(url) {
            Ok(Target::Server(address)) => address,
            other => panic!("{other:?}"),
        }
    }

    const FILE: &str = "\
# of the administrator\n[mysqld]\nuser = mysql\nport = 3399\n[client]\nuser=ann\npassword = \"a # b\\\"\"\n\
ssl_ca=/etc/ca.pem\nsocket = /run/own.sock # here\nno-beep\n[mysqldump]\npassword=other\n";

    #[test]
    fn an_option_file_says_who_logs_in() {
        let options = parse(FILE).unwrap();
        assert_eq!(options.user.as_deref(), Some("ann"));
        assert_eq!(options.password.as_deref(), Some("a # b\""));
        assert_eq!(options.port, None, "that of the server's group");
        assert_eq!(options.socket, Some(PathBuf::from("/run/own.sock")));
        assert!(parse("[client]\nport=many").is_err());
    }

    #[test]
    fn the_url_goes_before_the_file_and_the_file_before_the_environment() {
        let file = parse(FILE).unwrap();
        let variable = |name: &str| Some(format!("${name}"));
        let login = decide(&address("mysql://bob@db:33/?tls=verify"), &file, &variable);
        assert_eq!((login.user.as_str(), login.place), ("bob", Place::Tcp("db".into(), 33)));
        assert_eq!(login.password.as_deref(), Some("a # b\""));
        assert_eq!(login.tls, Tls::Verified { authority: Some(PathBuf::from("/etc/ca.pem")) });
        let login = decide(&address("mysql://"), &file, &variable);
        assert_eq!((login.user.as_str(), login.place), ("ann", Place::Socket("/run/own.sock".into())));
        let login = decide(&address("mysql://"), &FileOptions::default(), &variable);
        assert_eq!((login.user.as_str(), login.password.as_deref()), ("$USER", Some("$MYSQL_PWD")));
        assert_eq!(login.place, Place::Socket(SOCKET.into()));
        let login = decide(&address("mysql://db"), &file, &variable);
        assert_eq!(login.place, Place::Tcp("db".into(), PORT));
        let login = decide(&address("mysql://root@localhost:33"), &file, &variable);
        assert_eq!(login.place, Place::Tcp("localhost".into(), 33));
    }

    /// Ctrl-C at the question left a terminal that showed nothing of what was typed later.
    #[test]
    fn keys_make_a_password_or_give_up() {
        for (keys, line) in [
            ("secret\nx", Some("secret")),
            ("\r", Some("")),
            ("sed\u{7f}cret\n", Some("secret")),
            ("\u{8}a\u{e9}\u{8}b\n", Some("ab")),
            ("wrong\u{15}right\n", Some("right")),
            ("ab\u{4}c\n", Some("abc")),
            ("ab\u{3}", None),
            ("\u{4}", None),
            ("ab", None),
        ] {
            assert_eq!(typed(keys.bytes().map(Ok)).unwrap().as_deref(), line, "{keys:?}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let file = FileOptions { password: Some("secret".into()), ..FileOptions::default() };
        let login = decide(&address("mysql://db"), &file, &|_| None);
        assert!(!format!("{login:?}").contains("secret"));
    }
}
