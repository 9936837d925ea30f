//! When memory that the engine has freed goes back to the operating system (`malloc_trim`).
//!
//! An allocator keeps freed memory for the next request. So after a peak the process stays as large
//! as at the peak. Giving the memory back has a price: the allocator is locked meanwhile, and
//! memory that is needed again costs page faults. So only memory goes back that was not needed for
//! a whole window of time, and only if there is much of it. A workload that takes and frees the
//! same memory again and again keeps it.

use crate::constants::{HEAP_TRIM_BUDGET_PART, HEAP_TRIM_BYTES_MIN, HEAP_TRIM_WINDOW_US};

/// What is known of the memory that the allocator keeps.
#[derive(Clone, Debug)]
pub struct HeapTrim {
    /// The most memory in use at the same time since the last trim, bytes. The allocator may have
    /// as much.
    kept: u64,
    /// The most memory in use in this window, bytes.
    needed: u64,
    /// When this window began. `None` before the first sample.
    from_us: Option<u64>,
}

impl HeapTrim {
    /// Begins after a phase in which up to `kept` bytes were in use at the same time.
    #[must_use]
    pub fn new(kept: u64) -> HeapTrim {
        HeapTrim { kept, needed: 0, from_us: None }
    }

    /// Takes a sample: at this time `in_use` bytes are in use, of a budget of `budget` bytes.
    /// Returns how much memory is worth a trim now; `None` if there is to be no trim.
    pub fn sample(&mut self, now_us: u64, in_use: u64, budget: u64) -> Option<u64> {
        self.kept = self.kept.max(in_use);
        self.needed = self.needed.max(in_use);
        let from_us = *self.from_us.get_or_insert(now_us);
        if now_us.saturating_sub(from_us) < HEAP_TRIM_WINDOW_US {
            return None;
        }
        let (needed, unused) = (self.needed, self.kept - self.needed);
        (self.from_us, self.needed) = (Some(now_us), in_use);
        if unused < HEAP_TRIM_BYTES_MIN.max(budget / HEAP_TRIM_BUDGET_PART) {
            return None;
        }
        self.kept = needed;
        Some(unused)
    }

    /// Returns the most memory in use at the same time since the last trim, bytes.
    #[must_use]
    pub fn kept(&self) -> u64 {
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    const MIB: u64 = 1 << 20;

    /// Each line of the script is `seconds: MiB in use`, and the level lasts until the next line.
    /// There are 20 samples a second. Prints each trim.
    fn check(kept: u64, budget: u64, script: &str, expected: &expect_test::Expect) {
        let mut heap = HeapTrim::new(kept * MIB);
        let lines: Vec<(u64, u64)> = script
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(at, level)| (at.trim().parse().unwrap(), level.trim().parse().unwrap()))
            .collect();
        let mut out = String::new();
        for pair in lines.windows(2) {
            let ((from, level), (to, _)) = (pair[0], pair[1]);
            for tick in 20 * from..20 * to {
                if let Some(unused) = heap.sample(tick * 50_000, level * MIB, budget * MIB) {
                    out += &format!(
                        "at {:.2} s {} MiB go back, {} MiB stay\n",
                        tick as f64 / 20.0,
                        unused / MIB,
                        heap.kept() / MIB
                    );
                }
            }
        }
        expected.assert_eq(&out);
    }

    #[test]
    fn memory_goes_back_once_it_was_not_needed_for_a_window() {
        check(
            0,
            64,
            "
            0: 1
            3: 200
            7: 2
            60: 2
            ",
            &expect![[r#"
                at 15.00 s 198 MiB go back, 2 MiB stay
            "#]],
        );
    }

    #[test]
    fn memory_that_is_needed_again_and_again_stays() {
        let script: String =
            (0..40).map(|n| format!("{}: {}\n", 2 * n, if n % 2 == 0 { 100 } else { 1 })).collect();
        check(0, 64, &script, &expect![""]);
    }

    #[test]
    fn a_peak_that_comes_back_is_trimmed_once_each_time() {
        check(
            0,
            64,
            "
            0: 100
            1: 0
            30: 100
            31: 0
            60: 0
            ",
            &expect![[r#"
                at 10.00 s 100 MiB go back, 0 MiB stay
                at 40.00 s 100 MiB go back, 0 MiB stay
            "#]],
        );
    }

    #[test]
    fn a_peak_that_ends_in_steps_goes_back_in_parts() {
        check(
            0,
            64,
            "
            0: 300
            4: 200
            12: 190
            22: 60
            40: 60
            ",
            &expect![[r#"
                at 10.00 s 100 MiB go back, 200 MiB stay
                at 30.00 s 140 MiB go back, 60 MiB stay
            "#]],
        );
    }

    #[test]
    fn little_memory_stays_and_little_is_a_part_of_the_budget() {
        let script = "
            0: 40
            1: 25
            20: 25
            ";
        check(0, 64, script, &expect![""]);
        let script = "
            0: 40
            1: 4
            20: 4
            ";
        let trims = expect![[r#"
            at 10.00 s 36 MiB go back, 4 MiB stay
        "#]];
        check(0, 64, script, &trims);
        check(0, 1024, script, &expect![""]);
    }

    #[test]
    fn memory_of_the_recovery_before_counts() {
        check(
            500,
            64,
            "
            0: 3
            20: 3
            ",
            &expect![[r#"
                at 5.00 s 497 MiB go back, 3 MiB stay
            "#]],
        );
    }

    #[test]
    fn a_clock_that_jumps_or_stands_does_no_harm() {
        let mut heap = HeapTrim::new(u64::MAX);
        assert_eq!(heap.sample(7, u64::MAX, u64::MAX), None);
        assert_eq!(heap.sample(0, 0, 0), None);
        assert_eq!(heap.sample(u64::MAX, 0, 0), None, "this window has needed all of it");
        assert_eq!(heap.sample(u64::MAX, 0, 0), None);
    }
}
