//! How to get into a server, for several connections: the password is asked for once.

use crate::connection::{Connection, connect};
use crate::login::{Login, LoginFlags};
use crate::target::{Address, Target};
use crate::trouble::Trouble;
use crate::worker::Worker;
use output::failure::{Failure, Outcome};
use std::time::Duration;

/// How to get into a server.
#[derive(Clone, Debug)]
pub struct Access {
    name: String,
    login: Login,
}

impl Access {
    /// Finds out how to get into a target, which must be a server.
    pub fn to(target: &str, flags: &LoginFlags) -> Outcome<Access> {
        match Target::parse(target).map_err(Failure::misuse)? {
            Target::Server(address) => Access::find(&address, flags),
            Target::Directory(dir) => Err(Failure::misuse(format!("{} is no server", dir.display()))),
        }
    }

    /// Finds out how to get into a server. This asks for the password, if it has to be asked for.
    pub fn find(address: &Address, flags: &LoginFlags) -> Outcome<Access> {
        Ok(Access { name: address.to_string(), login: Login::find(address, flags)? })
    }

    /// Returns the server's URL, without a password.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Connects, for short questions: a server that does not answer for 10 s counts as gone.
    pub fn connect(&self) -> Outcome<Connection> {
        self.try_connect().map_err(|trouble| Failure::failed(trouble.to_string()))
    }

    /// Connects as [`Access::connect`] does, and says whether it may help to try again.
    pub fn try_connect(&self) -> Result<Connection, Trouble> {
        Connection::open(&self.login)
    }

    /// Connects, to work as an application does: the session has the server's own settings, but it
    /// commits each statement, and its answers are whole. An answer may take `answer`; without it,
    /// any time.
    pub fn work(&self, answer: Option<Duration>) -> Result<Worker, Trouble> {
        let mut worker = Worker::new(connect(&self.login, answer)?);
        worker.run("SET SESSION autocommit = 1, sql_select_limit = 18446744073709551615")?;
        Ok(worker)
    }
}
