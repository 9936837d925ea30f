//! `millpond bench atomic-writes`: what the file system offers against torn pages, and what it
//! costs beside a doublewrite.

use super::{random, scratch};
use crate::failure::{Failure, Outcome};
use crate::run_dir::RunDir;
use crate::units::{parse_page_size, parse_size, show_size};
use base::aligned::AlignedBuf;
use rustix::fs::{AtFlags, OFlags, StatxFlags};
use rustix::io::ReadWriteFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

const NOTES: &str = "\
A page that a power cut tears has to be repaired, or must not be torn at all. Three ways to write
batches of pages at random places of a file, each synced: with copies that are written and synced
before, as Millpond does it; each page by a write that the file system and the device do as a whole
or not at all (RWF_ATOMIC), where the system says that it has them; and plain, which protects
nothing. The ways take turns. Direct I/O where the file system allows it.";

/// `STATX_WRITE_ATOMIC` of Linux 6.11.
const STATX_WRITE_ATOMIC: u32 = 0x1_0000;
/// `RWF_ATOMIC` of Linux 6.11.
const RWF_ATOMIC: u32 = 0x40;

/// Pages written with copies, by atomic writes, and plain
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct AtomicWrites {
    /// A directory on the file system that is measured [default: the current one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Batches of each way
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batches: u32,
    /// Pages of a batch
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pages: u32,
    /// Page size: 4KiB, 8KiB or 16KiB
    #[arg(long, value_name = "SIZE", default_value = "8KiB", value_parser = parse_page_size)]
    page: u32,
    /// Size of the file
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_size)]
    file: u64,
    /// Writes under way at once
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: u32,
}

/// The sizes of writes that the system does as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AtomicUnits {
    min: u32,
    max: u32,
    /// The greatest that the device does by itself; 0 if the file system does all of it.
    by_device: u32,
}

/// How the pages of a batch are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Copies,
    Atomic,
    Plain,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Copies => "with copies",
            Way::Atomic => "atomic",
            Way::Plain => "plain",
        }
    }
}

/// Returns the ways that can be measured.
fn ways(units: AtomicUnits, page: u32) -> Vec<Way> {
    let is_offered = units.min > 0 && (units.min..=units.max).contains(&page);
    [Way::Copies, Way::Atomic, Way::Plain]
        .into_iter()
        .filter(|way| is_offered || *way != Way::Atomic)
        .collect()
}

/// Returns what the system says, in words.
fn in_words(units: AtomicUnits, page: u32) -> String {
    let AtomicUnits { min, max, by_device } = units;
    if max == 0 {
        return "atomic writes: not offered here".to_owned();
    }
    let device = match by_device {
        0 => "the device does none of them by itself".to_owned(),
        most => format!("the device does up to {} by itself", show_size(f64::from(most))),
    };
    let fits = if (min..=max).contains(&page) { "" } else { ", which is no size of these pages" };
    format!("atomic writes: {} to {}{fits}; {device}", show_size(f64::from(min)), show_size(f64::from(max)))
}

fn failed(error: impl Into<io::Error>) -> Failure {
    Failure::failed(format!("the file that is measured: {}", error.into()))
}

/// The two files, and the content of the pages.
struct Files {
    pages: File,
    copies: File,
    images: AlignedBuf,
    page: usize,
}

impl AtomicWrites {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        let page = u64::from(self.page);
        if self.file < u64::from(self.pages) * page {
            return Err(Failure::misuse("--file is smaller than one batch of --pages"));
        }
        let dir = match &self.dir {
            Some(dir) => RunDir::fresh_below(dir)?,
            None => scratch()?,
        };
        let path = dir.dir().join("pages");
        let images = AlignedBuf::zeroed(self.pages as usize * self.page as usize);
        let files = Files {
            pages: zeroed(&path, self.file).map_err(failed)?,
            copies: zeroed(&dir.dir().join("copies"), images.len() as u64).map_err(failed)?,
            images,
            page: self.page as usize,
        };
        let units = atomic_units(&path).map_err(failed)?;
        say!("{}", in_words(units, self.page));
        let ways = ways(units, self.page);
        let mut took: Vec<Vec<f64>> = vec![Vec::new(); ways.len()];
        let mut state = 1;
        for _ in 0..self.batches {
            for (way, took) in ways.iter().zip(&mut took) {
                let places = random_places(&mut state, self.pages as usize, self.file / page);
                let start = Instant::now();
                self.batch(&files, *way, &places).map_err(failed)?;
                took.push(start.elapsed().as_secs_f64() * 1000.0);
            }
        }
        say!("{:<12} {:>14} {:>12}", "", "ms a batch", "pages/s");
        for (way, took) in ways.iter().zip(took) {
            let ms = super::median(took);
            say!("{:<12} {ms:>14.2} {:>12.0}", way.name(), f64::from(self.pages) * 1000.0 / ms);
        }
        Ok(())
    }

    /// Writes a batch durably.
    fn batch(&self, files: &Files, way: Way, places: &[u64]) -> io::Result<()> {
        if way == Way::Copies {
            files.copies.write_all_at(&files.images, 0)?;
            files.copies.sync_data()?;
        }
        let next = AtomicUsize::new(0);
        let write = || -> io::Result<()> {
            while let Some(place) = places.get(next.fetch_add(1, Ordering::Relaxed)) {
                files.write(way, *place)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads).map(|_| scope.spawn(write)).collect();
            threads.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the benchmark panicked")))
            })
        })?;
        files.pages.sync_data()
    }
}

impl Files {
    /// Writes a page at its place.
    fn write(&self, way: Way, place: u64) -> io::Result<()> {
        let (image, offset) = (&self.images[..self.page], place * self.page as u64);
        if way != Way::Atomic {
            return self.pages.write_all_at(image, offset);
        }
        let flags = ReadWriteFlags::from_bits_retain(RWF_ATOMIC);
        let written = rustix::io::pwritev2(&self.pages, &[IoSlice::new(image)], offset, flags)?;
        if written == image.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}

/// Makes a file of zeros, and opens it without the page cache if the file system allows that.
pub(super) fn zeroed(path: &Path, bytes: u64) -> io::Result<File> {
    let zeros = File::create(path)?;
    let piece = vec![0; 1 << 20];
    for at in (0..bytes).step_by(piece.len()) {
        zeros.write_all_at(&piece[..piece.len().min((bytes - at) as usize)], at)?;
    }
    zeros.sync_all()?;
    let mut options = OpenOptions::new();
    options.write(true);
    let direct = options.clone().custom_flags(OFlags::DIRECT.bits() as i32).open(path);
    direct.or_else(|_| options.open(path))
}

/// Asks the system which atomic writes it has for a file.
fn atomic_units(path: &Path) -> rustix::io::Result<AtomicUnits> {
    let asked = StatxFlags::from_bits_retain(STATX_WRITE_ATOMIC);
    let found = rustix::fs::statx(rustix::fs::CWD, path, AtFlags::empty(), asked)?;
    if found.stx_mask & STATX_WRITE_ATOMIC == 0 {
        return Ok(AtomicUnits::default());
    }
    Ok(AtomicUnits {
        min: found.stx_atomic_write_unit_min,
        max: found.stx_atomic_write_unit_max,
        by_device: found.stx_atomic_write_unit_max_opt,
    })
}

/// Returns `count` different places below `most`, ascending, as a batch has them.
pub(super) fn random_places(state: &mut u64, count: usize, most: u64) -> Vec<u64> {
    let mut places = std::collections::BTreeSet::new();
    while places.len() < count {
        places.insert(random::next(state) % most);
    }
    places.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomic_writes_are_measured_where_a_page_is_one() {
        let units = |min, max| AtomicUnits { min, max, by_device: 0 };
        for (offered, page, is_measured) in [
            (units(0, 0), 8192, false),
            (units(4096, 4096), 8192, false),
            (units(4096, 4096), 4096, true),
            (units(4096, 1 << 20), 16384, true),
            (units(16384, 1 << 20), 8192, false),
        ] {
            assert_eq!(ways(offered, page).contains(&Way::Atomic), is_measured, "{offered:?}, {page}");
        }
        assert_eq!(in_words(units(0, 0), 8192), "atomic writes: not offered here");
        assert_eq!(
            in_words(AtomicUnits { by_device: 4096, ..units(4096, 4096) }, 8192),
            "atomic writes: 4 KiB to 4 KiB, which is no size of these pages; the device does up to 4 KiB by itself"
        );
    }
}
