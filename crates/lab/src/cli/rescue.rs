//! `millpond rescue DIR --to DIR2`: copies what can be read of a database that does not recover.

use output::existing::{check_writable, existing_database};
use output::failure::{Failure, Outcome};
use output::print;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// How many problems are shown; the file of `--problems` gets all.
const SHOWN: u64 = 20;

/// Copy every row that can be read of a database that does not recover into a new one
#[derive(Debug, clap::Args)]
pub(crate) struct Rescue {
    /// The database's directory; nothing in it is changed
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The directory of the new database, empty or not there yet
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Write every page, row and table that cannot be read to this file, with its reason
    #[arg(long, value_name = "FILE")]
    problems: Option<PathBuf>,
}

impl Rescue {
    pub(crate) fn run(self) -> Outcome {
        existing_database(&self.dir)?;
        let mut file = match &self.problems {
            Some(path) => {
                check_writable(path)?;
                let made = File::create(path);
                let made = made.map_err(|e| Failure::misuse(format!("cannot write {}: {e}", path.display())));
                Some(BufWriter::new(made?))
            }
            None => None,
        };
        let (mut shown, mut written) = (0, Ok(()));
        let report = millpond::rescue(&self.dir, &self.to, &mut |problem| {
            shown += 1;
            if shown <= SHOWN {
                print(&format!("{problem}\n"));
            }
            if written.is_ok()
                && let Some(file) = &mut file
            {
                written = writeln!(file, "{problem}");
            }
        })?;
        let written = written.and_then(|()| file.as_mut().map_or(Ok(()), Write::flush));
        let (problems, to) = (report.problems, self.to.display());
        if problems > SHOWN {
            let more = problems - SHOWN;
            let place = match &self.problems {
                Some(path) => format!("{} has all", path.display()),
                None => "--problems FILE writes all to a file".to_owned(),
            };
            print(&format!("… and {more} more problems; {place}\n"));
        }
        print(&format!(
            "{to}: {} rows in {} tables, from {} pages; {problems} problems\n",
            report.rows, report.tables, report.pages
        ));
        written.map_err(|e| Failure::failed(format!("the file of --problems is not whole: {e}")))?;
        match problems {
            0 => Ok(()),
            _ => Err(Failure::failed(format!(
                "{to} has what could be read of {}, which is not all, or not for certain",
                self.dir.display()
            ))),
        }
    }
}
