//! Free frames under InnoDB's law: how many are kept ready, and who makes them.
//!
//! MariaDB 10.5 and 10.6 wrote pages at the end of the LRU list only when a thread found no free
//! frame: `lru_flush_size` pages at a time, beyond any `io_capacity`. Later the background thread
//! does it again: when fewer than half of `lru_scan_depth` frames are free, and after each of its
//! rounds.

use super::Settings;

/// What is to be done for free frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Supply {
    /// Add so many frames to the free list.
    pub frames: u64,
    /// Write at most so many dirty pages for that.
    pub writes: u64,
}

/// The state on which the decision is based.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeView {
    /// Frames of the pool.
    pub frames: u64,
    /// Frames that are free.
    pub free: u64,
    /// Threads that wait for a frame.
    pub waiting: u64,
}

/// What the background thread does in this step, besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// Nothing.
    None,
    /// It writes so many dirty pages for other reasons.
    Wrote(u64),
    /// It writes for the checkpoint without a pause.
    Furious,
}

/// Returns how many free frames the list should have in a pool of `frames`. Fewer than half of them
/// wake the background thread. Half of a small pool would be memory that caches nothing, so it is
/// at most a quarter.
fn depth(settings: &Settings, frames: u64) -> u64 {
    settings.lru_scan_depth.min(frames / 4).max(1)
}

/// Returns how many free frames the background thread keeps ready: none in 10.6.
#[must_use]
pub fn wanted_free(settings: &Settings, frames: u64) -> u64 {
    if settings.lru_flush_size.is_some() { 0 } else { depth(settings, frames) }
}

/// Returns what is to be done for free frames.
#[must_use]
pub fn supply(settings: &Settings, v: &FreeView, round: Round) -> Supply {
    let most = settings.io_capacity_max;
    let depth = depth(settings, v.frames);
    if let Some(size) = settings.lru_flush_size {
        let on_demand = v.free == 0 || v.waiting > v.free;
        return if on_demand { batch(size, depth, v.free) } else { Supply::default() };
    }
    let is_short = v.free < depth.div_ceil(2) || v.waiting > v.free;
    let writes = match round {
        Round::None if !is_short => return Supply::default(),
        Round::Furious if !is_short => return Supply::default(),
        Round::None => most,
        Round::Furious => settings.io_capacity,
        // Without this floor, writing for the checkpoint took everything (MDEV-36226).
        Round::Wrote(pages) => most.saturating_sub(pages).max(depth.min(most)),
    };
    Supply { frames: (depth + v.waiting).saturating_sub(v.free), writes }
}

/// A batch of 10.6: it ends when it has freed `size` frames, or when `depth` are free.
fn batch(size: u64, depth: u64, free: u64) -> Supply {
    Supply { frames: size.min(depth.saturating_sub(free)).max(1), writes: size }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn as_in_10_6(lru_flush_size: u64, lru_scan_depth: u64) -> Settings {
        Settings { lru_flush_size: Some(lru_flush_size), lru_scan_depth, ..Settings::mariadb() }
    }

    /// The rule of 10.6 for the end of a batch. The free list counts, so threads that take frames
    /// meanwhile make the batch longer.
    fn is_over(settings: &Settings, freed: u64, free: u64) -> bool {
        settings.lru_flush_size.is_some_and(|size| freed >= size) || free >= settings.lru_scan_depth
    }

    /// The published example: of 1,024 frames 900 are freed, other threads took 200 meanwhile, so
    /// 700 are free, and the batch goes on.
    #[test]
    fn a_batch_as_in_10_6_orders_what_ends_it_if_nobody_takes_frames() {
        assert!(!is_over(&as_in_10_6(1024, 1025), 900, 700));
        for (size, depth) in [(32, 1536), (1024, 1025), (512, 5000), (99, 100)] {
            let settings = as_in_10_6(size, depth);
            for free in [0, 1, 50, 98] {
                let view = FreeView { frames: 1 << 20, free, waiting: free + 1 };
                let freed = supply(&settings, &view, Round::None).frames;
                assert!(is_over(&settings, freed, free + freed), "{size} {depth} {free}: {freed}");
                assert!(!is_over(&settings, freed - 1, free + freed - 1), "{size} {depth} {free}: {freed}");
            }
        }
    }

    /// 512 threads need a frame at once, and none is free. The first thread's batch leaves `size -
    /// 1` frames to the others; who finds none begins a batch of its own.
    #[test]
    fn threads_that_begin_batches_of_their_own() {
        let mut out = String::from("size  spare after the first  batches\n");
        for size in [32, 128, 512, 1024, 2048, 4096] {
            let settings = as_in_10_6(size, 5000);
            let (mut free, mut batches, mut spare) = (0, 0, 0);
            for thread in 0..512 {
                if free == 0 {
                    let view = FreeView { frames: 1 << 20, free, waiting: 512 - thread };
                    free += supply(&settings, &view, Round::None).frames;
                    batches += 1;
                }
                free -= 1;
                spare = if thread == 0 { free } else { spare };
            }
            out += &format!("{size:>4}  {spare:>21}  {batches:>7}\n");
        }
        expect![[r#"
            size  spare after the first  batches
              32                     31       16
             128                    127        4
             512                    511        1
            1024                   1023        1
            2048                   2047        1
            4096                   4095        1
        "#]]
        .assert_eq(&out);
    }

    /// Each line is `frames free waiting round`.
    fn check(settings: &Settings, script: &str, expected: &Expect) {
        let mut out = String::new();
        for line in script.lines().map(str::trim).filter(|l| !l.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let n = |i: usize| words[i].parse().unwrap();
            let round = match words[3] {
                "none" => Round::None,
                "furious" => Round::Furious,
                wrote => Round::Wrote(wrote.parse().unwrap()),
            };
            let view = FreeView { frames: n(0), free: n(1), waiting: n(2) };
            let Supply { frames, writes } = supply(settings, &view, round);
            out += &format!("{line}: {frames} frames with {writes} writes\n");
        }
        expected.assert_eq(&out);
    }

    #[test]
    fn frames_of_the_background_thread() {
        check(
            &Settings::mariadb(),
            "
            65536 1536 0 none
            65536 768 0 none
            65536 767 0 none
            65536 0 16 none
            65536 1000 0 0
            65536 1000 0 1500
            65536 1000 0 2000
            65536 1000 0 furious
            65536 100 0 furious
            128 0 3 none
            ",
            &expect![[r#"
                65536 1536 0 none: 0 frames with 0 writes
                65536 768 0 none: 0 frames with 0 writes
                65536 767 0 none: 769 frames with 2000 writes
                65536 0 16 none: 1552 frames with 2000 writes
                65536 1000 0 0: 536 frames with 2000 writes
                65536 1000 0 1500: 536 frames with 1536 writes
                65536 1000 0 2000: 536 frames with 1536 writes
                65536 1000 0 furious: 0 frames with 0 writes
                65536 100 0 furious: 1436 frames with 200 writes
                128 0 3 none: 35 frames with 2000 writes
            "#]],
        );
        check(
            &as_in_10_6(32, 1536),
            "
            65536 0 0 none
            65536 0 512 none
            65536 0 512 2000
            65536 0 512 furious
            ",
            &expect![[r#"
                65536 0 0 none: 32 frames with 32 writes
                65536 0 512 none: 32 frames with 32 writes
                65536 0 512 2000: 32 frames with 32 writes
                65536 0 512 furious: 32 frames with 32 writes
            "#]],
        );
    }
}
