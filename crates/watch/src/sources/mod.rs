//! Looking at a server or at a database, also at one that another process has open: one set of
//! figures for all.
//!
//! A [`Source`] gives samples: `server` asks a server over a connection of the crate `client`;
//! `metrics_on` makes a server count more for a time, `host` reads what this machine knows of one
//! that runs on it; `directory` reads the flight recorder, with
//! `liveness`. `clock` is the time of samples. `figures` is the schema; `of_server` and
//! `of_millpond` map to it, with `limits` and `status_text`; these are pure.

mod clock;
mod directory;
mod figures;
mod host;
mod limits;
mod liveness;
mod metrics_on;
mod of_millpond;
mod of_server;
mod server;
mod source;
mod status_text;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use clock::Steady;
pub(crate) use clock::{Now, now, now_us};
pub(crate) use directory::read as recording;
pub(crate) use figures::FIGURES;
pub use figures::is_of_host;
pub(crate) use host::process_here;
pub(crate) use metrics_on::MetricsOn;
pub(crate) use of_millpond::{schema_values as schema_of_millpond, values as all_of_millpond};
pub(crate) use of_server::switched_off;
pub use source::{About, RowChanges, Sample, Source};

use client::{Access, LoginFlags, Target};
use output::failure::{Failure, Outcome};
use std::collections::BTreeMap;
use std::fmt::Write;

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
        Target::Server(address) => of_access(&Access::find(&address, flags)?),
        Target::Directory(dir) => Ok(Box::new(directory::Directory::open(&dir)?)),
    }
}

/// Opens a server.
pub fn of_access(access: &Access) -> Outcome<Box<dyn Source>> {
    let source = server::Server::open(access.clone());
    Ok(Box::new(source.map_err(|trouble| Failure::failed(trouble.to_string()))?))
}
