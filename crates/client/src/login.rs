//! Who logs in, and with which password: from the URL, an option file, the environment or a prompt.
//! A password never comes from the command line, where every user of the machine can read it.

use crate::option_file::{self, FileOption};
use crate::target::{Address, Tls};
use output::failure::{Failure, Outcome};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// The port of a server, if nothing names another one.
const PORT: u16 = 3306;
/// The socket of a server, if nothing names another one: that of Debian.
const SOCKET: &str = "/run/mysqld/mysqld.sock";
/// The groups of an option file that are read; what comes later in the file wins.
pub(crate) const GROUPS: [&str; 6] =
    ["client", "client-server", "client-mariadb", "mariadb-client", "mysql", "millpond"];
/// The options that are read, each with the length of its shortest beginning that no other option
/// of the clients has.
const NAMES: [(&str, usize); 6] =
    [("user", 2), ("password", 3), ("host", 2), ("port", 2), ("socket", 2), ("ssl-ca", 6)];

/// Flags of every command that connects to a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct LoginFlags {
    /// Read user and password from this file instead of ~/.my.cnf
    #[arg(long, value_name = "FILE")]
    defaults_file: Option<PathBuf>,
    /// Ask for the password
    #[arg(long)]
    password: bool,
}

impl LoginFlags {
    /// Tells whether the user is asked for the password.
    pub fn asks(&self) -> bool {
        self.password
    }

    /// Returns the flags as they stand on a command line, for a child process that connects too.
    pub fn args(&self) -> Vec<String> {
        let file = self.defaults_file.iter().map(|file| format!("--defaults-file={}", file.display()));
        file.chain(self.password.then(|| "--password".to_owned())).collect()
    }
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
    /// The option `password` stands there without a value: the user is asked.
    ask: bool,
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
        let file = file.unwrap_or_default();
        let mut login = decide(address, &file, &variable);
        if flags.password || file.ask {
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
    let cannot =
        |why: &str| Failure::misuse(format!("cannot read the option file {}: {why}", path.display()));
    File::open(path).map_err(|e| cannot(&e.to_string()))?;
    let found = option_file::read(path, &GROUPS).map_err(|why| cannot(&why))?.unwrap_or_default();
    for warning in &found.warnings {
        let _ = writeln!(io::stderr(), "millpond: {warning}");
    }
    understood(&found.options).map_err(|why| Failure::misuse(format!("{}: {why}", path.display())))
}

/// Returns which option of [`NAMES`] a name in an option file means, as the clients find it: `_` is
/// `-`, a unique beginning is enough, and `loose-` before it is allowed.
fn known(name: &[u8]) -> Result<Option<&'static str>, String> {
    let name = String::from_utf8_lossy(name).replace('_', "-");
    let name = name.strip_prefix("loose-").unwrap_or(&name);
    let Some((whole, unique)) = NAMES.iter().find(|(whole, _)| whole.starts_with(name)) else {
        return Ok(None);
    };
    if name.is_empty() {
        return Ok(None);
    }
    match name.len() >= *unique {
        true => Ok(Some(whole)),
        // The beginning of `ssl-ca` is an option of its own, or that of many.
        false if *whole == "ssl-ca" => Ok(None),
        false => Err(format!("{name:?} is the beginning of more than one option; {whole} may be meant")),
    }
}

/// Takes what is needed of the options of a file; of several with one name the last one counts.
fn understood(found: &[FileOption]) -> Result<FileOptions, String> {
    let mut options = FileOptions::default();
    for (name, value) in found {
        let Some(name) = known(name)? else { continue };
        let text = value.as_deref().map(|value| match std::str::from_utf8(value) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(format!("the value of {name} is not in UTF-8")),
        });
        match (name, text.transpose()?) {
            ("password", text) => (options.ask, options.password) = (text.is_none(), text),
            (name, None) => return Err(format!("{name} needs a value")),
            ("user", text) => options.user = text,
            ("host", text) => options.host = text,
            ("port", Some(text)) => {
                options.port = Some(text.parse().map_err(|_| format!("{text:?} is no port of a server"))?);
            }
            ("socket", Some(text)) => options.socket = Some(PathBuf::from(text)),
            (_, Some(text)) => options.authority = Some(PathBuf::from(text)),
        }
    }
    Ok(options)
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
    use super::*;
    use crate::scratch::Scratch;
    use crate::target::Target;
    use expect_test::expect;
    use std::fmt::Write as _;

    fn address(url: &str) -> Address {
        match Target::parse(url) {
            Ok(Target::Server(address)) => address,
            other => panic!("{other:?}"),
        }
    }

    const FILE: &str = "\
# of the administrator\n[mysqld]\nuser = mysql\nport = 3399\n[client]\nuser=ann\npassword = \"a # b\\\"\"\n\
ssl_ca=/etc/ca.pem\nsocket = /run/own.sock # here\nno-beep\n[mysqldump]\npassword=other\n";

    fn parse(text: &str) -> Result<FileOptions, Failure> {
        let scratch = Scratch::new("login");
        let path = scratch.0.join("my.cnf");
        std::fs::write(&path, text).unwrap();
        read(&path)
    }

    #[test]
    fn an_option_file_says_who_logs_in() {
        let options = parse(FILE).unwrap();
        assert_eq!(options.user.as_deref(), Some("ann"));
        assert_eq!(options.password.as_deref(), Some("a # b\""));
        assert_eq!(options.port, None, "that of the server's group");
        assert_eq!(options.socket, Some(PathBuf::from("/run/own.sock")));
    }

    /// A beginning of a name was ignored, and so was `loose-`: no password was given.
    #[test]
    fn names_are_found_as_the_clients_find_them() {
        let mut out = String::new();
        for name in [
            "password",
            "passw",
            "pas",
            "pa",
            "loose-password",
            "loose_pass",
            "us",
            "u",
            "ho",
            "po",
            "sock",
            "s",
            "ssl_ca",
            "ssl",
            "ssl-capath",
            "loose-",
            "Password",
            "user-name",
        ] {
            let _ = writeln!(out, "{name:14} {:?}", known(name.as_bytes()));
        }
        expect![[r#"
            password       Ok(Some("password"))
            passw          Ok(Some("password"))
            pas            Ok(Some("password"))
            pa             Err("\"pa\" is the beginning of more than one option; password may be meant")
            loose-password Ok(Some("password"))
            loose_pass     Ok(Some("password"))
            us             Ok(Some("user"))
            u              Err("\"u\" is the beginning of more than one option; user may be meant")
            ho             Ok(Some("host"))
            po             Ok(Some("port"))
            sock           Ok(Some("socket"))
            s              Err("\"s\" is the beginning of more than one option; socket may be meant")
            ssl_ca         Ok(Some("ssl-ca"))
            ssl            Ok(None)
            ssl-capath     Ok(None)
            loose-         Ok(None)
            Password       Ok(None)
            user-name      Ok(None)
        "#]]
        .assert_eq(&out);
    }

    #[test]
    fn a_wrong_option_file_is_one_sentence() {
        for (text, sentence) in [
            ("[client]\nport=many", "\"many\" is no port of a server"),
            ("user=ann", "line 1: an option stands before the first [group]"),
            ("\n[client\nuser=ann", "line 2: the [ of a group lacks its ]"),
            ("[client]\nuser", "user needs a value"),
            ("[client]\np=x", "\"p\" is the beginning of more than one option; password may be meant"),
        ] {
            let Err(Failure::Misuse(why)) = parse(text) else { panic!("{text}") };
            assert!(why.contains(sentence), "{why}");
        }
        assert!(parse("[client]\npassword\n").unwrap().ask, "the client asks then, too");
        assert_eq!(parse("[client]\npassword=\n").unwrap().password.as_deref(), Some(""));
    }

    /// A byte that is no UTF-8 made the whole file unreadable, also in a comment.
    #[test]
    fn comments_in_latin_1_are_no_fault_and_a_password_in_it_is_named() {
        let scratch = Scratch::new("login-latin");
        let path = scratch.0.join("my.cnf");
        std::fs::write(&path, b"# B\xfcro\n[client]\nuser=ann # f\xfcr alle\n").unwrap();
        assert_eq!(read(&path).unwrap().user.as_deref(), Some("ann"));
        std::fs::write(&path, b"[client]\npassword=\xfc\n").unwrap();
        let Err(failure) = read(&path) else { panic!("it is no text") };
        let why = failure.to_string();
        assert!(why.contains("the value of password is not in UTF-8"), "{why}");
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
