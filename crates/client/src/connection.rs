//! A connection to a server, over the crate `mysql`: statements in, rows of text out, and errors
//! that say what to do.

use crate::login::{Login, Place};
use crate::session;
use crate::target::Tls;
use crate::trouble::Trouble;
use mysql::consts::CapabilityFlags;
use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, SslOpts, Value};
use std::borrow::Cow;
use std::error::Error as _;
use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an answer may take. A server that hangs counts as gone.
const ANSWER: Duration = Duration::from_secs(10);
/// The longest packet, bytes; saying it saves a question to the server.
const PACKET: usize = 16 << 20;

/// A row: a text for each column, or NULL.
pub type Row = Vec<Option<String>>;

/// A connection.
pub struct Connection {
    conn: Conn,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects. The session has its own settings where the server's would spoil figures.
    pub(crate) fn open(login: &Login) -> Result<Connection, Trouble> {
        let mut connection = Connection { conn: connect(login, Some(ANSWER))? };
        session::set(|statement| connection.rows(statement).map(drop))?;
        Ok(connection)
    }

    /// Runs a statement, and returns its rows.
    pub fn rows(&mut self, statement: &str) -> Result<Vec<Row>, Trouble> {
        rows(&mut self.conn, statement)
    }
}

/// Runs a statement, and returns its rows.
pub(crate) fn rows(conn: &mut Conn, statement: &str) -> Result<Vec<Row>, Trouble> {
    let rows: Vec<mysql::Row> = conn.query(statement).map_err(|error| explain(&error))?;
    Ok(texts(rows))
}

/// Returns the texts of rows.
pub(crate) fn texts(rows: Vec<mysql::Row>) -> Vec<Row> {
    rows.into_iter().map(|row| row.unwrap().into_iter().map(text).collect()).collect()
}

/// Connects. `answer` is how long an answer may take; `None` is for ever.
pub(crate) fn connect(login: &Login, answer: Option<Duration>) -> Result<Conn, Trouble> {
    Conn::new(options(login, answer)).map_err(|error| judge(&error, login))
}

fn options(login: &Login, answer: Option<Duration>) -> OptsBuilder {
    let options = OptsBuilder::new()
        .user(Some(&login.user))
        .pass(login.password.as_deref())
        // Else the client asks the server for its socket, and connects again.
        .prefer_socket(false)
        .max_allowed_packet(Some(PACKET))
        .stmt_cache_size(0)
        .tcp_connect_timeout(Some(CONNECT))
        .read_timeout(answer)
        .write_timeout(answer)
        // A changed row counts, also if it had the same value before.
        .additional_capabilities(CapabilityFlags::CLIENT_FOUND_ROWS);
    let options = match &login.place {
        Place::Socket(path) => options.socket(Some(path.to_string_lossy())),
        Place::Tcp(host, port) => options.ip_or_hostname(Some(host)).tcp_port(*port),
    };
    match &login.tls {
        Tls::Off => options,
        Tls::Verified { authority } => {
            options.ssl_opts(SslOpts::default().with_root_cert_path(authority.clone().map(Cow::Owned)))
        }
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(bytes) => String::from_utf8_lossy(bytes.as_bytes()).into_owned(),
        }),
        other => Some(other.as_sql(true)),
    }
}

/// What the client finds fault with, as an error of reading or writing.
const CERTIFICATE: &str = "invalid peer certificate";
/// Access denied: a wrong password.
const WRONG_PASSWORD: [u16; 2] = [1045, 1698];
/// Too many connections; the server is about to end; it is not ready yet.
const PASSING: [u16; 5] = [1040, 1053, 1203, 3168, 1927];

/// Says why a connection failed.
fn judge(error: &mysql::Error, login: &Login) -> Trouble {
    let place = match &login.place {
        Place::Tcp(host, port) => format!("{host}:{port}"),
        Place::Socket(path) => format!("the socket {}", path.display()),
    };
    let doubt = |error: &dyn fmt::Display| Trouble::Refused {
        code: 0,
        why: format!("the certificate of {place} is not accepted: {error}"),
    };
    match error {
        error if error.to_string().contains(CERTIFICATE) => match error {
            mysql::Error::IoError(fault) => doubt(fault),
            mysql::Error::CodecError(fault) => doubt(fault),
            fault => doubt(fault),
        },
        mysql::Error::TlsError(error) => doubt(error),
        mysql::Error::MySqlError(error) if WRONG_PASSWORD.contains(&error.code) => {
            let which = match &login.password {
                Some(_) => "the password is wrong, or the user does not exist",
                None => {
                    "no password was given; put it into ~/.my.cnf, a --defaults-file or MYSQL_PWD, or \
                     give --password to be asked"
                }
            };
            let why = format!("{place} does not let the user {} in: {which}", login.user);
            Trouble::Refused { code: error.code, why }
        }
        other => match explain(other) {
            Trouble::Gone(why) => Trouble::Gone(format!("no server answers on {place}: {why}")),
            Trouble::Refused { code, why } => {
                Trouble::Refused { code, why: format!("{place} refuses the connection: {why}") }
            }
        },
    }
}

/// Says why a statement failed.
pub(crate) fn explain(error: &mysql::Error) -> Trouble {
    match error {
        mysql::Error::MySqlError(error) if PASSING.contains(&error.code) => {
            Trouble::Gone(error.message.clone())
        }
        mysql::Error::MySqlError(error) => Trouble::Refused { code: error.code, why: error.message.clone() },
        mysql::Error::IoError(error) => broken(error),
        // While a server greets, or in the middle of a conversation.
        mysql::Error::CodecError(error) => match error.source().and_then(|cause| cause.downcast_ref()) {
            Some(cause) => broken(cause),
            None => Trouble::Gone(format!("the connection broke: {error}")),
        },
        mysql::Error::TlsError(error) => Trouble::Refused { code: 0, why: error.to_string() },
        mysql::Error::DriverError(error) => match error {
            mysql::DriverError::ConnectTimeout
            | mysql::DriverError::Timeout
            | mysql::DriverError::CouldNotConnect(_)
            | mysql::DriverError::SetupError
            | mysql::DriverError::UnexpectedPacket
            | mysql::DriverError::PacketOutOfSync => Trouble::Gone(error.to_string()),
            other => Trouble::Refused { code: 0, why: other.to_string() },
        },
        other => Trouble::Refused { code: 0, why: other.to_string() },
    }
}

fn broken(error: &std::io::Error) -> Trouble {
    Trouble::Gone(match error.kind() {
        ErrorKind::WouldBlock => format!("no answer within {} s", ANSWER.as_secs()),
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
            format!("the connection broke: {error}")
        }
        _ => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(password: Option<&str>) -> Login {
        Login {
            user: "ann".into(),
            password: password.map(str::to_owned),
            place: Place::Tcp("db".into(), 3306),
            tls: Tls::Off,
        }
    }

    fn server_error(code: u16, message: &str) -> mysql::Error {
        mysql::Error::MySqlError(mysql::MySqlError { state: "HY000".into(), message: message.into(), code })
    }

    #[test]
    fn errors_say_what_to_do() {
        let denied = server_error(1045, "Access denied for user 'ann'@'localhost'");
        let Trouble::Refused { why, .. } = judge(&denied, &login(None)) else { panic!() };
        assert!(why.contains("db:3306 does not let the user ann in") && why.contains("~/.my.cnf"), "{why}");
        let Trouble::Refused { why, .. } = judge(&denied, &login(Some("secret"))) else { panic!() };
        assert!(why.contains("the password is wrong") && !why.contains("secret"), "{why}");
    }

    /// A collection ended when its server was killed: the client has two errors for a broken
    /// connection, and one of them counted as a refusal.
    #[test]
    fn a_connection_that_breaks_may_come_back() {
        let broken = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let codec = mysql::Error::CodecError(broken().into());
        for error in [codec, mysql::Error::IoError(broken())] {
            assert!(matches!(explain(&error), Trouble::Gone(_)), "{error:?}");
        }
    }

    /// A server with a wrong certificate counted as one that is not there and may come back.
    #[test]
    fn a_certificate_that_is_not_accepted_is_a_refusal() {
        let fault = std::io::Error::new(ErrorKind::InvalidData, "invalid peer certificate: UnknownIssuer");
        let Trouble::Refused { why, .. } = judge(&mysql::Error::IoError(fault), &login(None)) else {
            panic!()
        };
        assert_eq!(
            why,
            "the certificate of db:3306 is not accepted: invalid peer certificate: UnknownIssuer"
        );
    }

    /// A server that hung while it greeted was said to be "temporarily unavailable (os error 11)".
    #[test]
    fn a_server_that_hangs_is_said_not_to_answer() {
        let late = || std::io::Error::from(ErrorKind::WouldBlock);
        for error in [mysql::Error::CodecError(late().into()), mysql::Error::IoError(late())] {
            let Trouble::Gone(why) = judge(&error, &login(None)) else { panic!("{error:?}") };
            assert_eq!(why, "no server answers on db:3306: no answer within 10 s");
        }
    }

    #[test]
    fn what_may_pass_is_told_from_what_will_not() {
        assert!(matches!(explain(&server_error(1040, "Too many connections")), Trouble::Gone(_)));
        assert!(matches!(explain(&server_error(1227, "PROCESS")), Trouble::Refused { code: 1227, .. }));
        // A collection ended on each of these: a killed query, a time limit, too many statements in
        // an hour, no room for a temporary table, a privilege that was taken away.
        for code in [1317, 1969, 3024, 1226, 1114, 1041, 1205, 1227, 1047] {
            assert!(!explain(&server_error(code, "x")).is_final(), "{code}");
        }
        for code in [1045, 1130, 1862, 4151] {
            assert!(explain(&server_error(code, "x")).is_final(), "{code}");
        }
        let gone = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let Trouble::Gone(why) = judge(&mysql::Error::IoError(gone), &login(None)) else { panic!() };
        assert!(why.contains("no server answers on db:3306"), "{why}");
    }
}
