//! A parallel loop on threads that end with it.

use super::Mutex;
use std::thread;

/// Calls `each` for all `items`, in any order, on up to `threads` threads, the calling one
/// included. After an error the thread that got it does no more items; the other threads go on.
/// Returns one of the errors.
///
/// For calls into the operating system that would otherwise wait one after the other. A simulated
/// world makes no such calls, so the threads do not belong to it.
pub fn for_each_in_parallel<T: Send, E: Send>(
    items: &mut [T],
    threads: usize,
    each: impl Fn(&mut T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let others = threads.min(items.len()).saturating_sub(1);
    let items = Mutex::new(items.iter_mut());
    let work = || {
        loop {
            let item = items.lock().next();
            match item {
                Some(item) => each(item)?,
                None => return Ok(()),
            }
        }
    };
    thread::scope(|scope| {
        // If the system gives no further thread, the existing ones do all the work.
        let start = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let started: Vec<_> = (0..others).map_while(start).collect();
        let own = work();
        started.into_iter().fold(own, |result, other| {
            result.and(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::for_each_in_parallel;

    #[test]
    fn each_item_is_done_once() {
        for (count, threads) in [(0, 4), (1, 4), (100, 0), (100, 1), (100, 4), (3, 100)] {
            let mut items = vec![0; count];
            for_each_in_parallel(&mut items, threads, |item| {
                *item += 1;
                Ok::<(), ()>(())
            })
            .unwrap();
            assert!(items.iter().all(|item| *item == 1), "{count} items, {threads} threads: {items:?}");
        }
    }

    #[test]
    fn an_error_is_returned_and_the_other_threads_go_on() {
        let mut items: Vec<u32> = (0..100).collect();
        let result =
            for_each_in_parallel(&mut items, 4, |item| if *item == 50 { Err(*item) } else { Ok(()) });
        assert_eq!(result, Err(50));
        assert_eq!(for_each_in_parallel(&mut items, 1, |item| Err::<(), u32>(*item)), Err(0));
    }
}
