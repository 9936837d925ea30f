//! Compares pages that count as clean with their file. A page that left the dirty set too early, or
//! whose write was lost, is found before the checkpoint gives up the redo that could mend it.

use base::PageNo;
use base::aligned::AlignedBuf;

use super::frame::{AHEAD, DIRTY, INCOMPLETE, WRITING};
use super::pool::Pool;
use super::probe::PageProbe;
use crate::error::{Error, Result};
use crate::page::header;
use crate::page_file::check_image;

/// In a pool of so many frames at most all pages are compared.
const ALL_FRAMES: usize = 256;
/// Of a larger pool so many.
const SAMPLE: usize = 2;

/// Compares the LSNs of some clean pages with those in the file: of all pages in a very small
/// pool, else of a few from a random place on. [`Error::Corrupt`] names a page whose file is
/// older. A page that cannot be read, or whose image in the file is damaged otherwise, is no error
/// here: the thread that reads it gets the error. REQUIRES: the caller holds no latch.
pub(crate) fn audit(pool: &Pool) -> Result {
    let frames = pool.frame_count();
    let (from, count) = if frames <= ALL_FRAMES {
        (0, frames)
    } else {
        ((pool.clock.random_u64() % frames as u64) as usize, SAMPLE)
    };
    let mut image = AlignedBuf::zeroed(pool.page_bytes());
    (from..from + count).try_for_each(|n| audit_frame(pool, (n % frames) as u32, &mut image))
}

fn audit_frame(pool: &Pool, index: u32, image: &mut AlignedBuf) -> Result {
    let frame = pool.frames().get(index);
    let page = frame.page_no();
    // A look is no use of a page that was read ahead.
    if page == PageNo::NONE || frame.state() & AHEAD != 0 {
        return Ok(());
    }
    let PageProbe::Resident(pin) = PageProbe::of(pool, page) else { return Ok(()) };
    let Some(before) = clean_lsn(pool, pin.frame()) else { return Ok(()) };
    if pool.file().read(page, image).is_err() {
        return Ok(());
    }
    let blank = header::is_blank(image);
    if !blank && check_image(image, page).is_err() {
        return Ok(());
    }
    let (has, after) = (header::lsn(image), clean_lsn(pool, pin.frame()));
    if has >= before || after != Some(before) {
        return Ok(());
    }
    let what = format!(
        "{page:?}: the file has LSN {has}, and the page was written with LSN {before}: a write was lost"
    );
    Err(Error::corrupt(pool.path(), what))
}

/// Returns the LSN of a page that does not differ from its file, and that no thread is
/// changing.
fn clean_lsn(pool: &Pool, frame: u32) -> Option<base::Lsn> {
    let latched = pool.frames().try_share(frame)?;
    let clean = pool.frames().get(frame).state() & (DIRTY | WRITING | INCOMPLETE) == 0;
    clean.then(|| header::lsn(&latched))
}
