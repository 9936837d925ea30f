//! `millpond redo`: which table and which index writes the redo log.
//!
//! [`innodb`] reads the log of a server of MariaDB, [`of_millpond`] that of a database of Millpond;
//! [`table`] shows what was counted. Nothing is written, and no server is changed.

mod innodb;
mod of_millpond;
mod table;

use client::{LoginFlags, Target};
use output::failure::{Failure, Outcome};
use std::time::Duration;

pub(crate) use table::By;

/// What is printed, and what is written to a file.
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) json: String,
}

/// Reads the log of a target. `length` is how long it is followed; zero is not at all.
pub(crate) fn run(target: &str, login: &LoginFlags, length: Option<Duration>, by: By) -> Outcome<Said> {
    let reading = match Target::parse(target).map_err(Failure::misuse)? {
        Target::Server(_) => innodb::of_server(target, login, length)?,
        Target::Directory(dir) if dir.join("root").is_file() => of_millpond::read(&dir, length)?,
        Target::Directory(dir) => innodb::of_directory(&dir, length)?,
    };
    let said = Said { text: reading.text(by), json: reading.json(by) };
    if reading.exact() {
        return Ok(said);
    }
    Err(Failure::failed(format!("the rows are not the whole log, which is a bug here: {}", said.text)))
}
