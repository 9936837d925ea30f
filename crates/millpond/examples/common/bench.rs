//! Helpers of measurements that compare with the bare device.

use millpond::{Db, Table};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

const FILE_BYTES: u64 = 64 << 20;
const BLOCK_BYTES: usize = 4096;
/// O_DIRECT of Linux, on most processors.
const O_DIRECT: i32 =
    if cfg!(any(target_arch = "aarch64", target_arch = "arm")) { 0o200_000 } else { 0o40_000 };

#[repr(align(4096))]
struct Block([u8; BLOCK_BYTES]);

/// A zero-written file whose blocks are overwritten one after the other, without the page cache if
/// possible.
pub(crate) struct Device {
    file: File,
    block: Box<Block>,
}

impl Device {
    /// Makes the file.
    pub(crate) fn new(path: &Path) -> io::Result<Device> {
        let zeros = File::create(path)?;
        for at in (0..FILE_BYTES).step_by(1 << 20) {
            zeros.write_all_at(&vec![0; 1 << 20], at)?;
        }
        zeros.sync_all()?;
        let direct = OpenOptions::new().write(true).custom_flags(O_DIRECT).open(path);
        let file = direct.or_else(|_| OpenOptions::new().write(true).open(path))?;
        Ok(Device { file, block: Box::new(Block([1; BLOCK_BYTES])) })
    }

    /// Overwrites the `n`-th block durably.
    pub(crate) fn write(&mut self, n: u64) -> io::Result<()> {
        self.block.0[0] = n as u8;
        self.file.write_all_at(&self.block.0, n * BLOCK_BYTES as u64 % FILE_BYTES)?;
        self.file.sync_data()
    }
}

impl Device {
    /// Writes so many bytes sequentially, makes them durable, and reads them. Returns MB/s of the
    /// write and of the read.
    #[allow(dead_code)] // Not every example measures this.
    pub(crate) fn sequential(path: &Path, bytes: u64) -> io::Result<(f64, f64)> {
        #[repr(align(4096))]
        struct Large([u8; 1 << 20]);
        let open = |direct: bool| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            if direct { options.custom_flags(O_DIRECT).open(path) } else { options.open(path) }
        };
        let file = open(true).or_else(|_| open(false))?;
        let mut large = Box::new(Large([1; 1 << 20]));
        let rate = |start: Instant| bytes as f64 / 1e6 / start.elapsed().as_secs_f64();
        let start = Instant::now();
        for at in (0..bytes).step_by(1 << 20) {
            file.write_all_at(&large.0, at)?;
        }
        file.sync_data()?;
        let written = rate(start);
        let start = Instant::now();
        for at in (0..bytes).step_by(1 << 20) {
            file.read_exact_at(&mut large.0, at)?;
        }
        Ok((written, rate(start)))
    }
}

/// Makes a table of `count` rows with keys of eight bytes, and takes a checkpoint.
pub(crate) fn rows(db: &Db, count: u64, value_bytes: usize) -> millpond::Result<Table> {
    let table = db.create_table("rows")?;
    for from in (0..count).step_by(1000) {
        let mut tx = db.begin()?;
        for key in from..from + 1000 {
            tx.put(&table, &key.to_be_bytes(), &vec![0; value_bytes])?;
        }
        tx.commit()?;
    }
    db.checkpoint()?;
    Ok(table)
}

/// Returns the median.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
