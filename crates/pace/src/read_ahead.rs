//! How far a scan reads ahead: how many leaves it reads together when it comes to one that is not
//! in memory.
//!
//! A scan that finds its leaves in memory never asks. The first leaves that it has to read are read
//! alone, because most scans end soon. Then it reads a few leaves at once, and each time twice as
//! many.
//!
//! What is read ahead must not cost others anything. So nothing is read ahead while frames are
//! short, and the limit is a part of the pool. A long scan reuses the frames of scans, and may do
//! so then too. If the scan comes to a leaf that it had read and that is gone again, it reads half
//! as many from there on.

use crate::constants::{
    READ_AHEAD_ALONE_LEAVES, READ_AHEAD_FIRST_LEAVES, READ_AHEAD_LEAVES_MAX, READ_AHEAD_POOL_PART,
};

/// What the buffer pool has for reading ahead, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// All frames. 0: nothing is to be read ahead.
    pub frames: u64,
    /// Free ones.
    pub free: u64,
    /// As many are kept free.
    pub reserve: u64,
    /// Frames of scans that this scan may reuse.
    pub reusable: u64,
}

impl Room {
    /// Returns how many leaves may be read together.
    fn limit(&self) -> u32 {
        let most = u64::from(READ_AHEAD_LEAVES_MAX).min(self.frames / READ_AHEAD_POOL_PART);
        // The cleaner is behind. Clean pages that could be evicted are rare then too.
        let short = self.free <= self.reserve / 2;
        (if short { most.min(self.reusable) } else { most }) as u32
    }
}

/// What a scan knows of its leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadAhead {
    backward: bool,
    /// Leaves that were not in memory when the scan came to them.
    missed: u32,
    /// How many were to be read together last; 0 at first, and after frames were short.
    window: u32,
    /// Leaves of the last batch that the scan has not come to yet.
    left: u32,
    /// The leaf where it is.
    leaf: Option<u32>,
}

impl ReadAhead {
    /// The next leaf is not in memory. Returns how many leaves are to be read together: this one,
    /// and those after it in the scan's direction.
    pub fn missed(&mut self, backward: bool, room: &Room) -> u32 {
        if self.backward != backward {
            *self = ReadAhead { backward, ..ReadAhead::default() };
        }
        let gone = std::mem::take(&mut self.left) > 0;
        self.missed = self.missed.saturating_add(1);
        if self.missed <= READ_AHEAD_ALONE_LEAVES {
            return 1;
        }
        let window = match self.window {
            0 => READ_AHEAD_FIRST_LEAVES,
            window if gone => (window / 2).max(1),
            window => window.saturating_mul(2),
        };
        self.window = window.min(room.limit());
        self.window.max(1)
    }

    /// So many leaves were read together: the one that was missed, and others.
    pub fn read(&mut self, leaves: u32) {
        self.left = if leaves > 1 { leaves } else { 0 };
    }

    /// The scan is at this leaf. Any number will do that tells a leaf from its neighbours.
    #[inline]
    pub fn at(&mut self, leaf: u32) {
        if self.left > 0 && self.leaf != Some(leaf) {
            self.left -= 1;
        }
        self.leaf = Some(leaf);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use std::collections::BTreeSet;
    use std::fmt::Write;

    /// Runs one scan. The lines of the script:
    ///
    /// - `cold N`, `warm N`: it passes so many leaves, which are in the file or in memory;
    /// - `back N`: as `cold`, in the other direction;
    /// - `pool N`, `free N`, `reserve N`, `reusable N`: frames from here on;
    /// - `evict`: all that was read ahead leaves memory.
    ///
    /// Prints after each line how many leaves were read together, and at last how many were read
    /// ahead and not used.
    fn check(script: &str, expected: &Expect) {
        let mut room = Room { frames: 10_000, free: 1_000, reserve: 16, reusable: 0 };
        let (mut scan, mut memory, mut out) = (ReadAhead::default(), BTreeSet::new(), String::new());
        let mut next = 0;
        for line in script.trim().lines().map(str::trim) {
            let (word, number) = line.split_once(' ').unwrap_or((line, "0"));
            let number: u64 = number.parse().unwrap();
            write!(out, "{line}:").unwrap();
            match word {
                "pool" => room.frames = number,
                "free" => room.free = number,
                "reserve" => room.reserve = number,
                "reusable" => room.reusable = number,
                "evict" => memory.clear(),
                _ => {
                    for leaf in next..next + number as u32 {
                        if !memory.remove(&leaf) && word != "warm" {
                            let leaves = scan.missed(word == "back", &room);
                            write!(out, " {leaves}").unwrap();
                            memory.extend(leaf + 1..leaf + leaves);
                            scan.read(leaves);
                        }
                        scan.at(leaf);
                        // A cursor comes to a leaf several times.
                        scan.at(leaf);
                    }
                    next += number as u32;
                }
            }
            out.push('\n');
        }
        writeln!(out, "unused: {}", memory.len()).unwrap();
        expected.assert_eq(&out);
    }

    #[test]
    fn the_first_leaves_are_read_alone_and_then_twice_as_many_each_time() {
        check(
            "cold 400",
            &expect![[r#"
                cold 400: 1 1 4 8 16 32 64 64 64 64 64 64
                unused: 46
            "#]],
        );
    }

    #[test]
    fn a_short_scan_reads_nothing_ahead_and_a_scan_in_memory_reads_nothing() {
        check(
            "cold 2",
            &expect![[r#"
                cold 2: 1 1
                unused: 0
            "#]],
        );
        check(
            "warm 1000",
            &expect![[r#"
                warm 1000:
                unused: 0
            "#]],
        );
    }

    #[test]
    fn leaves_in_memory_between_others_change_nothing() {
        check(
            "cold 1
             warm 500
             cold 2
             warm 10
             cold 20",
            &expect![[r#"
                cold 1: 1
                warm 500:
                cold 2: 1 4
                warm 10:
                cold 20: 8 16
                unused: 4
            "#]],
        );
    }

    #[test]
    fn a_scan_that_turns_begins_anew() {
        check(
            "cold 20
             evict
             back 20",
            &expect![[r#"
                cold 20: 1 1 4 8 16
                evict:
                back 20: 1 1 4 8 16
                unused: 10
            "#]],
        );
    }

    #[test]
    fn nothing_is_read_ahead_while_frames_are_short() {
        check(
            "cold 10
             evict
             free 8
             cold 5
             free 9
             cold 40",
            &expect![[r#"
                cold 10: 1 1 4 8
                evict:
                free 8:
                cold 5: 1 1 1 1 1
                free 9:
                cold 40: 4 8 16 32
                unused: 20
            "#]],
        );
    }

    #[test]
    fn a_long_scan_reuses_its_own_frames_even_then() {
        check(
            "free 0
             reusable 64
             cold 200
             reusable 10
             cold 90",
            &expect![[r#"
                free 0:
                reusable 64:
                cold 200: 1 1 4 8 16 32 64 64 64
                reusable 10:
                cold 90: 10 10 10 10
                unused: 4
            "#]],
        );
    }

    #[test]
    fn a_small_pool_is_not_filled_by_one_scan() {
        for (frames, limit) in [(16, 0), (31, 0), (64, 2), (512, 16), (2047, 63), (2048, 64), (1 << 32, 64)] {
            let room = Room { frames, free: frames, reserve: 4.min(frames / 8), reusable: 0 };
            assert_eq!(room.limit(), limit, "{frames} frames");
        }
        check(
            "pool 64
             cold 12",
            &expect![[r#"
                pool 64:
                cold 12: 1 1 2 2 2 2 2
                unused: 0
            "#]],
        );
    }

    #[test]
    fn what_is_gone_before_it_is_used_makes_the_next_read_shorter() {
        check(
            "cold 70
             evict
             cold 1
             evict
             cold 1
             evict
             cold 1
             evict
             cold 1
             evict
             cold 1
             cold 100",
            &expect![[r#"
                cold 70: 1 1 4 8 16 32 64
                evict:
                cold 1: 32
                evict:
                cold 1: 16
                evict:
                cold 1: 8
                evict:
                cold 1: 4
                evict:
                cold 1: 2
                cold 100: 4 8 16 32 64
                unused: 25
            "#]],
        );
    }
}
