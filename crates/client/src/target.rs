//! What a command looks at: a server or a database directory.
//!
//! A server is `mysql://user@host:port/`, or `mysql://user@localhost/?socket=/path`. What the URL
//! leaves out comes from the option file, see `login`. Everything else is a directory.

use std::fmt;
use std::path::PathBuf;

/// What a command looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A server that speaks the protocol of MySQL.
    Server(Address),
    /// The directory of a database, which may be open in another process.
    Directory(PathBuf),
}

/// Where a server is, as far as the URL says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// The user.
    pub user: Option<String>,
    /// The host.
    pub host: Option<String>,
    /// The port.
    pub port: Option<u16>,
    /// The path of the socket. It goes before host and port.
    pub socket: Option<PathBuf>,
    /// How the connection is protected.
    pub tls: Tls,
}

/// How a connection is protected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// Not at all.
    #[default]
    Off,
    /// By TLS: the certificate must be valid and name the host. `authority` is a file with the
    /// certificates of those who may sign, beside the well-known ones.
    Verified {
        /// The file, in PEM.
        authority: Option<PathBuf>,
    },
}

const SCHEMES: [&str; 2] = ["mysql", "mariadb"];

impl Target {
    /// Reads a target. An error is one sentence, and never repeats a password.
    pub fn parse(text: &str) -> Result<Target, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            if text.is_empty() {
                return Err("a target is a directory or mysql://user@host:port/, not nothing".into());
            }
            return Ok(Target::Directory(PathBuf::from(text)));
        };
        if !SCHEMES.contains(&scheme) {
            return Err(format!("{scheme}:// is no target: a server is mysql://user@host:port/"));
        }
        let (place, query) = rest.split_once('?').map_or((rest, ""), |(place, query)| (place, query));
        let (place, path) = place.split_once('/').unwrap_or((place, ""));
        if !path.is_empty() {
            return Err(format!("mysql://…/{path} names a database, but a target is a whole server"));
        }
        let mut address = Address::default();
        let host = match place.rsplit_once('@') {
            Some((user, host)) => {
                if user.contains(':') {
                    return Err(NO_PASSWORD.into());
                }
                address.user = Some(decoded(user)?).filter(|user| !user.is_empty());
                host
            }
            None => place,
        };
        read_host(host, &mut address)?;
        query
            .split('&')
            .filter(|part| !part.is_empty())
            .try_for_each(|part| read_part(part, &mut address))?;
        if address.socket.is_some() && address.tls != Tls::Off {
            return Err("a socket has no TLS: it does not leave the machine".into());
        }
        Ok(Target::Server(address))
    }
}

const NO_PASSWORD: &str = "a password in a URL can be seen by everyone on this machine; put it into ~/.my.cnf, \
     a --defaults-file or MYSQL_PWD, or give --password to be asked";

fn read_host(text: &str, address: &mut Address) -> Result<(), String> {
    let (host, port) = match text.strip_prefix('[') {
        // An IPv6 address is in brackets, because it has colons.
        Some(rest) => {
            let (host, port) =
                rest.split_once(']').ok_or_else(|| format!("{text} has a bracket that does not end"))?;
            (host, port.strip_prefix(':'))
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    address.host = Some(decoded(host)?).filter(|host| !host.is_empty());
    if let Some(port) = port {
        address.port = Some(port.parse().map_err(|_| format!("{port:?} is no port of a server"))?);
    }
    Ok(())
}

fn read_part(part: &str, address: &mut Address) -> Result<(), String> {
    let (name, value) = part.split_once('=').unwrap_or((part, ""));
    let value = decoded(value)?;
    match (name, value.as_str()) {
        ("socket", path) if !path.is_empty() => address.socket = Some(PathBuf::from(path)),
        ("tls", "off") => address.tls = Tls::Off,
        ("tls", "verify") => {
            if address.tls == Tls::Off {
                address.tls = Tls::Verified { authority: None };
            }
        }
        ("ca", file) if !file.is_empty() => {
            address.tls = Tls::Verified { authority: Some(PathBuf::from(file)) };
        }
        ("password" | "pass" | "pwd", _) => return Err(NO_PASSWORD.into()),
        _ => {
            return Err(format!(
                "{name:?} with this value is no part of a target: there are socket=PATH, tls=verify, tls=off and ca=FILE"
            ));
        }
    }
    Ok(())
}

/// Replaces `%2F` and the like.
fn decoded(text: &str) -> Result<String, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits: Option<(u8, u8)> = bytes.next().zip(bytes.next());
        let value = digits.and_then(|(high, low)| {
            let digit = |c: u8| char::from(c).to_digit(16);
            Some(digit(high)? * 16 + digit(low)?)
        });
        match value {
            Some(value) => out.push(value as u8),
            None => return Err(format!("{text:?} has a % that two hexadecimal digits must follow")),
        }
    }
    String::from_utf8(out).map_err(|_| format!("{text:?} is no UTF-8"))
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Server(address) => address.fmt(f),
            Target::Directory(dir) => dir.display().fmt(f),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("mysql://")?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        let host = self.host.as_deref().unwrap_or("localhost");
        if host.contains(':') {
            write!(f, "[{host}]")?;
        } else {
            f.write_str(host)?;
        }
        match (&self.socket, self.port) {
            (Some(path), _) => write!(f, "/?socket={}", path.display()),
            (None, Some(port)) => write!(f, ":{port}/"),
            (None, None) => f.write_str("/"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn targets_and_what_is_none() {
        let mut out = String::new();
        for text in [
            "db",
            "/var/lib/db",
            "mysql://root@127.0.0.1:3306/",
            "mysql://root@db.example",
            "mysql://",
            "mariadb://ann%40home@[::1]:33/",
            "mysql://root@localhost/?socket=/run/my%20sql.sock",
            "mysql://root@localhost?socket=/run/mysql.sock",
            "mysql://ann@db/?tls=verify",
            "mysql://ann@db/?tls=verify&ca=/etc/ca.pem",
            "",
            "postgres://x",
            "mysql://root:secret@db/",
            "mysql://root@db/?password=secret",
            "mysql://root@db:port/",
            "mysql://root@db/sakila",
            "mysql://root@db/?tls=no",
            "mysql://root@db/?socket=/s&tls=verify",
            "mysql://[::1/",
            "mysql://%4/",
        ] {
            let line = match Target::parse(text) {
                Ok(Target::Server(address)) => format!("{address}   {:?}", address.tls),
                Ok(target) => format!("directory {target}"),
                Err(why) => {
                    assert!(!why.contains("secret"), "{why}");
                    format!("ERROR {why}")
                }
            };
            out.push_str(&format!("{text:52} {line}\n"));
        }
        expect![[r#"
            db                                                   directory db
            /var/lib/db                                          directory /var/lib/db
            mysql://root@127.0.0.1:3306/                         mysql://root@127.0.0.1:3306/   Off
            mysql://root@db.example                              mysql://root@db.example/   Off
            mysql://                                             mysql://localhost/   Off
            mariadb://ann%40home@[::1]:33/                       mysql://ann@home@[::1]:33/   Off
            mysql://root@localhost/?socket=/run/my%20sql.sock    mysql://root@localhost/?socket=/run/my sql.sock   Off
            mysql://root@localhost?socket=/run/mysql.sock        mysql://root@localhost/?socket=/run/mysql.sock   Off
            mysql://ann@db/?tls=verify                           mysql://ann@db/   Verified { authority: None }
            mysql://ann@db/?tls=verify&ca=/etc/ca.pem            mysql://ann@db/   Verified { authority: Some("/etc/ca.pem") }
                                                                 ERROR a target is a directory or mysql://user@host:port/, not nothing
            postgres://x                                         ERROR postgres:// is no target: a server is mysql://user@host:port/
            mysql://root:secret@db/                              ERROR a password in a URL can be seen by everyone on this machine; put it into ~/.my.cnf, a --defaults-file or MYSQL_PWD, or give --password to be asked
            mysql://root@db/?password=secret                     ERROR a password in a URL can be seen by everyone on this machine; put it into ~/.my.cnf, a --defaults-file or MYSQL_PWD, or give --password to be asked
            mysql://root@db:port/                                ERROR "port" is no port of a server
            mysql://root@db/sakila                               ERROR mysql://…/sakila names a database, but a target is a whole server
            mysql://root@db/?tls=no                              ERROR "tls" with this value is no part of a target: there are socket=PATH, tls=verify, tls=off and ca=FILE
            mysql://root@db/?socket=/s&tls=verify                ERROR a socket has no TLS: it does not leave the machine
            mysql://[::1/                                        ERROR [::1 has a bracket that does not end
            mysql://%4/                                          ERROR "%4" has a % that two hexadecimal digits must follow
        "#]].assert_eq(&out);
    }
}
