//! `millpond disk DIR`: measures what the disk under a directory does.

use crate::disk::{DiskRun, LEAST_BYTES, table};
use output::existing::check_writable;
use output::failure::Outcome;
use output::units::{parse_size, parse_time, show_size};
use output::{print, stop, write_json};
use std::path::PathBuf;
use std::time::Duration;

const NOTES: &str = "\
Reads and writes bypass the page cache where the file system can do that. Each request in flight is
that of a thread. The small durable writes go through the page cache, as those of logs mostly do.
The figures are those of an idle disk: stop what else uses it. A disk in a cloud may be fast for
some minutes only; --seconds 20 takes half an hour and shows it. A file that the disk's own memory
can hold (--size) shows that memory.";

/// Measure what the disk under a directory does: reads, writes, syncs, and what follows
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Disk {
    /// A directory on the disk in question; what is made there is removed
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Measure for a few seconds only, with a small file
    #[arg(long)]
    quick: bool,
    /// How long each measurement takes [default: 0.5; with --quick 0.1]
    #[arg(long, value_name = "S", value_parser = parse_time)]
    seconds: Option<Duration>,
    /// Size of the file that is read and written [default: 1GiB; with --quick 128MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_file_size)]
    size: Option<u64>,
    /// Write the result as one JSON object
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Disk {
    pub(crate) fn run(self) -> Outcome {
        if let Some(file) = &self.json {
            check_writable(file)?;
        }
        let (time, file_bytes) = if self.quick {
            (Duration::from_millis(100), 128 << 20)
        } else {
            (Duration::from_millis(500), 1 << 30)
        };
        stop::exit_when_asked();
        let run = DiskRun {
            dir: self.dir,
            time: self.seconds.unwrap_or(time),
            file_bytes: self.size.unwrap_or(file_bytes),
        };
        let result = run.run()?;
        if let Some(file) = &self.json {
            write_json(file, &result.json())?;
        }
        print(&table(&result));
        Ok(())
    }
}

fn parse_file_size(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if bytes < LEAST_BYTES {
        return Err(format!("the file must have {} at least", show_size(LEAST_BYTES as f64)));
    }
    // Whole blocks of every size.
    Ok(bytes >> 20 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_whole_blocks() {
        assert_eq!(parse_file_size("16MiB"), Ok(16 << 20));
        assert_eq!(parse_file_size("17000000"), Ok(16 << 20));
        assert!(parse_file_size("15MiB").unwrap_err().contains("16 MiB"));
        assert!(parse_file_size("much").is_err());
    }
}
