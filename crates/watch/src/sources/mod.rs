//! Looking at a server or at a database, also at one that another process has open: one set of
//! figures for all.
//!
//! `target` is what is looked at, `login` how to get in, with an `option_file`. A [`Source`] gives
//! samples, or has `trouble`: `server` asks a server over a `connection`, whose `session` has
//! settings of its own; `metrics_on` makes a server count more for a time; `directory` reads the
//! flight recorder, with `liveness`. `clock` is the time of samples. `figures` is the schema;
//! `of_server` and `of_millpond` map to it, with `limits`, `status_text` and `version`; these are
//! pure.

mod clock;
mod connection;
mod directory;
mod figures;
mod limits;
mod liveness;
mod login;
mod metrics_on;
mod of_millpond;
mod of_server;
mod option_file;
mod server;
mod session;
mod source;
mod status_text;
mod target;
#[cfg(test)]
mod tests;
mod trouble;
mod version;

#[cfg(test)]
pub(crate) use clock::Steady;
pub(crate) use clock::{Now, now, now_us};
pub(crate) use connection::Connection;
pub(crate) use directory::read as recording;
pub(crate) use figures::FIGURES;
pub(crate) use login::LoginFlags;
pub(crate) use metrics_on::MetricsOn;
pub(crate) use of_millpond::schema_values as schema_of_millpond;
pub(crate) use source::{About, Sample, Source};
pub(crate) use trouble::Trouble;

use output::failure::{Failure, Outcome};
use std::collections::BTreeMap;
use std::fmt::Write;
use target::Target;

/// Returns whether a figure belongs to the schema; what forces pages to be written does, under all
/// names.
pub(crate) fn is_of_schema(name: &str) -> bool {
    name.starts_with("pages_written_by_force.") || FIGURES.iter().any(|figure| figure.name == name)
}

/// Returns a table of the schema: each figure with its value, where it comes from or why it is not
/// there, and its meaning.
pub(crate) fn table(about: &About, sample: &Sample) -> String {
    let mut out = String::new();
    for figure in FIGURES {
        let source = about.origins.iter().find(|(name, _)| *name == figure.name).map(|(_, source)| source);
        let value = sample.get(figure.name).map_or("-".to_owned(), |value| format!("{value:.6}"));
        let value = value.trim_end_matches('0').trim_end_matches('.');
        let value = if value.is_empty() { "0" } else { value };
        let source = match source {
            Some(Ok(source)) => format!("from {source}"),
            Some(Err(why)) => format!("not there: {why}"),
            None => String::new(),
        };
        let _ = writeln!(out, "{:34} {value:>18} {:6} {} [{source}]", figure.name, figure.unit, figure.help);
    }
    out
}

/// Returns the figures of the schema that Millpond does not have, with the reason.
pub(crate) fn absent_in_millpond() -> BTreeMap<String, String> {
    of_millpond::absent().into_iter().map(|(name, why)| (name.to_owned(), why.to_owned())).collect()
}

/// Opens a target. It must be there.
pub(crate) fn open(target: &str, flags: &LoginFlags) -> Outcome<Box<dyn Source>> {
    match Target::parse(target).map_err(Failure::misuse)? {
        Target::Server(address) => Access::find(&address, flags)?.source(),
        Target::Directory(dir) => Ok(Box::new(directory::Directory::open(&dir)?)),
    }
}

/// How to get into a server, for several connections: the password is asked for once.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    name: String,
    login: login::Login,
}

impl Access {
    /// Finds out how to get into a target, which must be a server.
    pub(crate) fn to(target: &str, flags: &LoginFlags) -> Outcome<Access> {
        match Target::parse(target).map_err(Failure::misuse)? {
            Target::Server(address) => Access::find(&address, flags),
            Target::Directory(dir) => Err(Failure::misuse(format!("{} is no server", dir.display()))),
        }
    }

    fn find(address: &target::Address, flags: &LoginFlags) -> Outcome<Access> {
        Ok(Access { name: address.to_string(), login: login::Login::find(address, flags)? })
    }

    /// Connects, for statements of one's own.
    pub(crate) fn connect(&self) -> Outcome<Connection> {
        Connection::open(&self.login).map_err(|trouble| Failure::failed(trouble.to_string()))
    }

    /// Connects, for samples.
    pub(crate) fn source(&self) -> Outcome<Box<dyn Source>> {
        let source = server::Server::open(self.name.clone(), self.login.clone());
        Ok(Box::new(source.map_err(|trouble| Failure::failed(trouble.to_string()))?))
    }
}
