//! What one sync costs on the disk of a directory: the first principle of a commit.

use output::failure::{Failure, Outcome};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// How often it is measured.
const TIMES: u64 = 200;
/// A block of the log.
const BLOCK: u64 = 4096;

/// Returns the median time of a 4 KiB write with its fdatasync in a file that is there, in seconds.
pub(super) fn measure(dir: &Path) -> Outcome<f64> {
    let path = dir.join("sync-cost");
    let taken = times(&path);
    let _ = fs::remove_file(&path);
    let mut taken =
        taken.map_err(|e| Failure::failed(format!("cannot measure a sync in {}: {e}", dir.display())))?;
    taken.sort_by(f64::total_cmp);
    Ok(taken[taken.len() / 2])
}

fn times(path: &Path) -> std::io::Result<Vec<f64>> {
    let file = OpenOptions::new().create_new(true).write(true).open(path)?;
    let block = [7u8; BLOCK as usize];
    for at in 0..TIMES {
        file.write_all_at(&block, at * BLOCK)?;
    }
    file.sync_all()?;
    (0..TIMES)
        .map(|at| {
            let begun = Instant::now();
            file.write_all_at(&block, at * BLOCK)?;
            file.sync_data()?;
            Ok(begun.elapsed().as_secs_f64())
        })
        .collect()
}
