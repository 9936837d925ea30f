//! The memory of the buffer pool, whatever the size of the file.

use super::{DIR, options};
use crate::db::Db;
use std::path::Path;
use vfs::Vfs;
use vfs::mem::MemDisk;

fn figure(db: &Db, name: &str) -> u64 {
    db.metrics().get(name).unwrap() as u64
}

/// Control blocks and the page table once came on top of the bytes that the caller had named, and the table followed from the file.
#[test]
fn frames_take_the_memory_that_was_given_with_all_that_is_kept_for_them() {
    for (page_bytes, given) in [(4096, 1 << 20), (4096, 9_999_999), (16384, 1 << 20), (16384, 8 << 20)] {
        let disk = MemDisk::default();
        let vfs = Vfs { clock: Vfs::os().clock, ..disk.vfs(1) };
        let mut options = options().page_bytes(page_bytes).buffer_pool_bytes(given);
        options.tuning.frames = 0;
        let db = Db::open_on(&vfs, Path::new(DIR), &options).unwrap();
        let (frames, beside) = (figure(&db, "buffer_frames"), figure(&db, "buffer_overhead_bytes"));
        let taken = frames * page_bytes as u64 + beside;
        assert!((64 * frames..90 * frames + 5000).contains(&beside), "{beside} bytes for {frames}");
        assert!(taken <= given && taken + 2 * page_bytes as u64 > given, "{taken} of {given}");
    }
}
