//! Pages that lack redo and that a thread completes itself, while replay works on them too.

use super::*;
use crate::buffer::Arrival;
use crate::error::Result;
use crate::page::Damage;
use base::sync::Mutex;
use std::sync::{OnceLock, Weak};

/// The page that lacks redo.
const LACKING: PageNo = PageNo(5);

/// What replay does to the page while a thread reads the redo of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    AppliesSome,
    CompletesIt,
}

/// A hook with a log whose segments are recycled while a thread reads them the first time.
#[derive(Debug)]
struct RecycledLog {
    pool: OnceLock<Weak<Pool>>,
    /// `None`: nothing is recycled any more.
    meanwhile: Mutex<Option<Meanwhile>>,
}

impl RecycledLog {
    /// Applies the redo at LSN 20, as replay does.
    fn replay(&self, completes: bool) {
        let pool = self.pool.get().and_then(Weak::upgrade).unwrap();
        let mut page = pool.fetch_with(LACKING, FetchHint::Replay).unwrap().write();
        header::set_lsn(&mut page, Lsn(20));
        pool.mark_dirty(&page, Lsn(20), Lsn(20));
        if completes {
            page.completed();
        }
    }
}

impl ReadHook for Arc<RecycledLog> {
    fn after_read(&self, page: PageNo, _: &mut [u8], _: Result<(), Damage>) -> Result<Arrival> {
        Ok(if page == LACKING { Arrival::Incomplete } else { Arrival::AsRead })
    }

    fn catch_up(&self, _: PageNo, copy: &mut [u8]) -> Result<Option<Lsn>> {
        let meanwhile = self.meanwhile.lock().take();
        match meanwhile {
            None => {
                header::set_lsn(copy, Lsn(30));
                return Ok(Some(Lsn(30)));
            }
            Some(Meanwhile::Nothing) => {}
            Some(Meanwhile::AppliesSome) => self.replay(false),
            Some(Meanwhile::CompletesIt) => self.replay(true),
        }
        Err(Error::corrupt(Path::new("/db/redo"), "redo at LSN 20 is not a whole group"))
    }
}

/// A thread read the redo of a page without its latch. Meanwhile replay completed the page, it was
/// written, a checkpoint passed the redo, and the segment was recycled: the thread took an intact
/// database for a corrupt one. An error counts only if the page is still as it was.
#[test]
fn redo_that_nobody_needs_any_more_may_vanish_while_a_thread_reads_it() {
    for (meanwhile, lsn) in [
        (Meanwhile::CompletesIt, Some(20)),
        // What it still lacks is read again.
        (Meanwhile::AppliesSome, Some(30)),
        // The page lacks what the log has lost.
        (Meanwhile::Nothing, None),
    ] {
        let hook = Arc::new(RecycledLog { pool: OnceLock::new(), meanwhile: Mutex::new(Some(meanwhile)) });
        let w = world_with(8, Box::new(Arc::clone(&hook)));
        hook.pool.set(Arc::downgrade(&w.pool)).unwrap();
        match (w.pool.fetch(LACKING), lsn) {
            (Ok(page), Some(lsn)) => assert_eq!(header::lsn(&page.read()), Lsn(lsn), "{meanwhile:?}"),
            (Err(Error::Corrupt { .. }), None) => {}
            (other, _) => panic!("{meanwhile:?}: {other:?}"),
        }
        assert_eq!(header::lsn(&w.fetch(LACKING.0).read()), Lsn(lsn.unwrap_or(30)), "{meanwhile:?}");
    }
}
