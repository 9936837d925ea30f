//! The bare device: a loop that overwrites 4 KiB blocks of a zero-written file and makes each
//! durable by fdatasync before the next. This is the upper limit of an engine that flushes its log
//! once for each commit, one flush at a time.

use crate::measure::{Measurement, histogram};
use crate::peer::Result;
use crate::stop;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

const FILE_BYTES: u64 = 64 << 20;
const BLOCK: usize = 4096;

#[repr(align(4096))]
struct Block([u8; BLOCK]);

/// The file that is overwritten.
#[derive(Debug)]
pub struct Device(File);

impl Device {
    /// Makes a zero-written file. Opens it without the page cache if the file system allows this.
    pub fn create(path: &Path) -> Result<Device> {
        let zeros = File::create(path)?;
        for at in (0..FILE_BYTES).step_by(1 << 20) {
            zeros.write_all_at(&vec![0; 1 << 20], at)?;
        }
        zeros.sync_all()?;
        let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
        let opened = OpenOptions::new().write(true).custom_flags(direct).open(path);
        Ok(Device(opened.or_else(|_| OpenOptions::new().write(true).open(path))?))
    }

    /// Measures durable block writes, one at a time.
    pub fn run(&self, time: Duration) -> Result<Measurement> {
        let mut figures = Measurement { rate: 0.0, latency: histogram(), per_second: Vec::new() };
        let mut block = Box::new(Block([1; BLOCK]));
        let begin = Instant::now();
        let (mut done, mut before) = (0u64, begin);
        while begin.elapsed() < time {
            block.0[0] = done as u8;
            self.0.write_all_at(&block.0, done * BLOCK as u64 % FILE_BYTES)?;
            self.0.sync_data()?;
            done += 1;
            let now = Instant::now();
            figures.latency.saturating_record((now - before).as_nanos() as u64);
            before = now;
            let second = (now - begin).as_secs() as usize;
            figures.per_second.resize(figures.per_second.len().max(second + 1), 0);
            figures.per_second[second] += 1;
            stop::check()?;
        }
        let elapsed = begin.elapsed();
        figures.per_second.resize(elapsed.as_secs() as usize, 0);
        figures.rate = done as f64 / elapsed.as_secs_f64();
        Ok(figures)
    }
}
