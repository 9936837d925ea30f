//! A `pages` file for tests. Every page exists and is intact unless the test damages it. Tests can
//! count reads, block them, and make them fail.

use crate::page::header;
use crate::page_file::set_checksum;
use base::PageNo;
use base::sync::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::io;

pub(super) const PAGE: usize = 4096;

#[derive(Debug, Default)]
struct FileState {
    written: BTreeMap<PageNo, Vec<u8>>,
    reads: u64,
    held: bool,
    failing: bool,
}

/// The file.
#[derive(Debug, Default)]
pub(super) struct TestFile {
    state: Mutex<FileState>,
    changed: Condvar,
}

fn fresh(page: PageNo) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    header::init_file(&mut bytes, b"a page of the test");
    header::set_page_no(&mut bytes, page);
    set_checksum(&mut bytes, page);
    bytes
}

impl TestFile {
    pub(super) fn reads(&self) -> u64 {
        self.state.lock().reads
    }

    /// While `held`, reads begin and do not end.
    pub(super) fn hold_reads(&self, held: bool) {
        self.state.lock().held = held;
        self.changed.notify_all();
    }

    pub(super) fn fail_reads(&self, failing: bool) {
        self.state.lock().failing = failing;
    }

    /// Flips a bit of the page.
    pub(super) fn damage(&self, page: PageNo) {
        self.state.lock().written.entry(page).or_insert_with(|| fresh(page))[2000] ^= 1;
    }

    pub(super) fn put(&self, page: PageNo, bytes: Vec<u8>) {
        self.state.lock().written.insert(page, bytes);
    }
}

impl vfs::File for TestFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let page = PageNo((offset / PAGE as u64) as u32);
        let mut state = self.state.lock();
        state.reads += 1;
        while state.held {
            self.changed.wait(&mut state);
        }
        if state.failing {
            // A part of the page was read.
            bytes[..512].fill(7);
            return Err(io::Error::other("a read that was made to fail"));
        }
        match state.written.get(&page) {
            Some(written) => bytes.copy_from_slice(written),
            None => bytes.copy_from_slice(&fresh(page)),
        }
        Ok(())
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        panic!("the pool never writes a file")
    }

    fn sync(&self) -> io::Result<()> {
        panic!("the pool never syncs a file")
    }

    fn len(&self) -> io::Result<u64> {
        Ok(1 << 30)
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        panic!("the pool never changes a file's length")
    }

    fn punch(&self, _: u64, _: u64) -> io::Result<()> {
        panic!("the pool never punches a file")
    }

    fn is_direct(&self) -> bool {
        true
    }
}
