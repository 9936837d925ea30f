//! `millpond bench doublewrite-files`: what more than one file for the doublewrite would give.

use super::atomic_writes::{random_places, zeroed};
use super::scratch;
use crate::failure::{Failure, Outcome};
use crate::run_dir::RunDir;
use crate::units::{parse_page_size, parse_size};
use base::aligned::AlignedBuf;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const NOTES: &str = "\
Millpond has one file for the copies of pages, with an area for each of its two page writers. InnoDB
has as many files as innodb_doublewrite_files says. Here two threads write batches as the page writers
do: the copies in one piece, a sync, the pages in place, neighbours in pieces, a sync. With one file
they share it; with two each has one; with four each batch is written to two files, which are synced
at the same time. The numbers of files take turns. Direct I/O where the file system allows it.";

/// The numbers of files that are compared.
const FILES: [usize; 3] = [1, 2, 4];
const WRITERS: usize = 2;
/// Pages of a piece in place.
const PIECE_PAGES: usize = 4;

/// Batches with copies in one file, in two and in four
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct DoublewriteFiles {
    /// A directory on the file system that is measured [default: the current one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Turns of each number of files
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    turns: u32,
    /// Length of a turn, seconds
    #[arg(long, value_name = "S", default_value_t = 3.0)]
    seconds: f64,
    /// Pages of a batch
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(4..=4096))]
    pages: u32,
    /// Page size: 4KiB, 8KiB or 16KiB
    #[arg(long, value_name = "SIZE", default_value = "8KiB", value_parser = parse_page_size)]
    page: u32,
    /// Size of the file of pages
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_size)]
    file: u64,
}

/// What the two writers share.
struct Places {
    pages: File,
    /// For each number of files, the files.
    copies: Vec<Vec<File>>,
    images: AlignedBuf,
    page: usize,
}

fn failed(error: io::Error) -> Failure {
    Failure::failed(format!("the files that are measured: {error}"))
}

impl DoublewriteFiles {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        let batch = u64::from(self.pages) * u64::from(self.page);
        if self.file < batch {
            return Err(Failure::misuse("--file is smaller than one batch of --pages"));
        }
        if !(self.seconds > 0.0 && self.seconds <= 600.0) {
            return Err(Failure::misuse("--seconds is more than 0 and at most 600"));
        }
        let dir = match &self.dir {
            Some(dir) => RunDir::fresh_below(dir)?,
            None => scratch()?,
        };
        let places = self.make(dir.dir(), batch).map_err(failed)?;
        let mut rates: Vec<Vec<f64>> = vec![Vec::new(); FILES.len()];
        for turn in 0..self.turns {
            for (n, rates) in rates.iter_mut().enumerate() {
                let (batches, took) = self.turn(&places, n, u64::from(turn)).map_err(failed)?;
                rates.push(batches as f64 * f64::from(self.pages) / took.as_secs_f64());
            }
        }
        say!("{:<6} {:>12} {:>12} {:>12}", "files", "pages/s", "least", "most");
        for (files, rates) in FILES.iter().zip(rates) {
            let (least, most) = rates.iter().fold((f64::MAX, 0f64), |(l, m), r| (l.min(*r), m.max(*r)));
            say!("{files:<6} {:>12.0} {least:>12.0} {most:>12.0}", super::median(rates));
        }
        Ok(())
    }

    fn make(&self, dir: &Path, batch: u64) -> io::Result<Places> {
        let copies = FILES.iter().map(|files| {
            // Every number of files has room for as many batches.
            let bytes = batch * WRITERS as u64 / *files as u64;
            let file = |n| zeroed(&dir.join(format!("copies-{files}-{n}")), bytes);
            (0..*files).map(file).collect::<io::Result<Vec<_>>>()
        });
        Ok(Places {
            pages: zeroed(&dir.join("pages"), self.file)?,
            copies: copies.collect::<io::Result<_>>()?,
            images: AlignedBuf::zeroed(batch as usize),
            page: self.page as usize,
        })
    }

    /// Lets both writers write for a while. Returns how many batches they have written, and in what
    /// time.
    fn turn(&self, places: &Places, n: usize, seed: u64) -> io::Result<(u64, Duration)> {
        let begun = Instant::now();
        let end = begun + Duration::from_secs_f64(self.seconds);
        let pieces = self.file / (PIECE_PAGES * places.page) as u64;
        let write = |writer: usize| -> io::Result<u64> {
            let (mut batches, mut state) = (0, 1 + seed * WRITERS as u64 + writer as u64);
            while Instant::now() < end {
                places.protect(n, writer)?;
                let count = (self.pages as usize).div_ceil(PIECE_PAGES).min(pieces as usize);
                places.write(&random_places(&mut state, count, pieces))?;
                batches += 1;
            }
            Ok(batches)
        };
        let batches = in_parallel(WRITERS, write)?;
        Ok((batches.into_iter().sum(), begun.elapsed()))
    }
}

/// Does `act` for 0, 1, …, all at once.
fn in_parallel<T: Send>(count: usize, act: impl Fn(usize) -> io::Result<T> + Sync) -> io::Result<Vec<T>> {
    std::thread::scope(|scope| {
        let act = &act;
        let threads: Vec<_> = (0..count).map(|n| scope.spawn(move || act(n))).collect();
        let panicked = || io::Error::other("a thread of the benchmark panicked");
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(panicked()))).collect()
    })
}

impl Places {
    /// Writes the copies of a batch durably.
    fn protect(&self, n: usize, writer: usize) -> io::Result<()> {
        let files = &self.copies[n];
        match files.len() / WRITERS {
            0 => {
                files[0].write_all_at(&self.images, (writer * self.images.len()) as u64)?;
                files[0].sync_data()
            }
            1 => {
                files[writer].write_all_at(&self.images, 0)?;
                files[writer].sync_data()
            }
            each => {
                let part = (self.images.len() / each) & !(self.page - 1);
                let write = |k: usize| {
                    let file = &files[writer * each + k];
                    file.write_all_at(&self.images[k * part..][..part], 0)?;
                    file.sync_data()
                };
                in_parallel(each, write).map(drop)
            }
        }
    }

    /// Writes a batch in place, durably.
    fn write(&self, places: &[u64]) -> io::Result<()> {
        let piece = PIECE_PAGES * self.page;
        for place in places {
            self.pages.write_all_at(&self.images[..piece], place * piece as u64)?;
        }
        self.pages.sync_data()
    }
}
