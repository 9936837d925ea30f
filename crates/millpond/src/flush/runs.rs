//! Which pages a batch writes: each page that has to be written, with the dirty pages around it in
//! the file (Fl4). A device writes one piece of 1 MiB in the time of a few small ones, and a
//! neighbour that is written now need not be written on its own a moment later.

use base::PageNo;
use pace::law::Neighbours;
use std::collections::BTreeSet;

/// Where a batch ends, if it is not full before. It may exceed the limit by one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchLimit {
    /// Pages.
    pub(crate) pages: u64,
    /// In-place I/Os.
    pub(crate) ios: u64,
}

impl BatchLimit {
    /// No limit: the batch ends when it is full.
    pub(crate) const NONE: BatchLimit = BatchLimit { pages: u64::MAX, ios: u64::MAX };
}

/// The sizes of runs, in pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunShape {
    /// The longest run. Areas of the file have so many pages too.
    pub(super) longest: u32,
    /// Which pages are written with a page.
    pub(super) neighbours: Neighbours,
    /// The most pages of a batch.
    pub(super) batch: usize,
}

/// Returns the pages of a batch. Begins a run at each page of `wanted`, in the order given, until
/// the limit is reached or the batch is full. A run goes on as long as `is_dirty` says yes.
pub(super) fn runs(
    wanted: &[PageNo],
    limit: BatchLimit,
    shape: RunShape,
    is_dirty: impl Fn(PageNo) -> bool,
) -> BTreeSet<PageNo> {
    let mut runs = Runs { shape, is_dirty, all: BTreeSet::new() };
    let mut ios = 0;
    for &page in wanted {
        if runs.all.contains(&page) {
            continue;
        }
        if ios >= limit.ios || runs.all.len() as u64 >= limit.pages || runs.is_full() {
            break;
        }
        ios += 1;
        runs.all.insert(page);
        let in_area = page.0 % shape.longest;
        let above_in_area = shape.longest - 1 - in_area;
        match shape.neighbours {
            Neighbours::Adjacent => {
                let above = runs.grow(shape.longest - 1, |n| page.0.checked_add(n));
                runs.grow(shape.longest - 1 - above, |n| page.0.checked_sub(n));
            }
            Neighbours::Off => {}
            Neighbours::InArea => {
                runs.grow(above_in_area, |n| page.0.checked_add(n));
                runs.grow(in_area, |n| page.0.checked_sub(n));
            }
            Neighbours::WholeArea => {
                for n in (0..shape.longest).filter_map(|n| (page.0 - in_area).checked_add(n)) {
                    runs.add_dirty(PageNo(n));
                }
            }
        }
    }
    runs.all
}

struct Runs<D> {
    shape: RunShape,
    is_dirty: D,
    all: BTreeSet<PageNo>,
}

impl<D: Fn(PageNo) -> bool> Runs<D> {
    fn is_full(&self) -> bool {
        self.all.len() >= self.shape.batch
    }

    /// Adds the dirty pages on one side of a page, at most `most`. `at` returns the page that is so
    /// many pages away. Returns how far it got.
    fn grow(&mut self, most: u32, at: impl Fn(u32) -> Option<u32>) -> u32 {
        for n in 1..=most {
            if !at(n).is_some_and(|page| self.add_dirty(PageNo(page))) {
                return n - 1;
            }
        }
        most
    }

    /// Adds a page if it is dirty and the batch is not full. Returns whether it did.
    fn add_dirty(&mut self, page: PageNo) -> bool {
        !self.is_full() && !self.all.contains(&page) && (self.is_dirty)(page) && self.all.insert(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    /// `file` is a letter for each page: `d` dirty, `.` not. Prints the file with the pages of the
    /// batch for the wanted pages in capitals.
    fn check(limit: BatchLimit, script: &str, expected: &Expect) {
        check_shape(Neighbours::Adjacent, limit, script, expected);
    }

    fn check_shape(neighbours: Neighbours, limit: BatchLimit, script: &str, expected: &Expect) {
        let shape = RunShape { longest: 8, neighbours, batch: 10 };
        let mut out = String::new();
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (file, wanted) = line.split_once(':').unwrap();
            let wanted: Vec<PageNo> = wanted.split_whitespace().map(|n| PageNo(n.parse().unwrap())).collect();
            let is_dirty = |page: PageNo| file.as_bytes().get(page.0 as usize) == Some(&b'd');
            let mut shown: Vec<u8> = file.bytes().collect();
            for page in runs(&wanted, limit, shape, is_dirty) {
                shown[page.0 as usize] = b'D';
            }
            out += &format!("{line} -> {}\n", String::from_utf8(shown).unwrap());
        }
        expected.assert_eq(&out);
    }

    #[test]
    fn runs_grow_on_both_sides_up_to_a_clean_page_and_the_longest_run() {
        check(
            BatchLimit::NONE,
            "
            dddddddddddddddd: 0
            dddddddddddddddd: 5
            dddddddddddddddd: 15
            dddd.dd.dddddddd: 5
            dddd.dd.dddddddd: 5 3 8
            dddddddd........: 3 4
            dddddddddddddddd: 0 15
            ",
            &expect![[r#"
                dddddddddddddddd: 0 -> DDDDDDDDdddddddd
                dddddddddddddddd: 5 -> dddddDDDDDDDDddd
                dddddddddddddddd: 15 -> ddddddddDDDDDDDD
                dddd.dd.dddddddd: 5 -> dddd.DD.dddddddd
                dddd.dd.dddddddd: 5 3 8 -> DDDD.DD.DDDDdddd
                dddddddd........: 3 4 -> DDDDDDDD........
                dddddddddddddddd: 0 15 -> DDDDDDDDddddddDD
            "#]],
        );
    }

    #[test]
    fn neighbours_as_innodb_has_them() {
        let script = "
            dddddddddddddddd: 5
            dddd.dd.ddd.dddd: 5 9
            dddd.dd.dddddddd: 7
            ";
        for (neighbours, expected) in [
            (
                Neighbours::Off,
                expect![[r#"
                dddddddddddddddd: 5 -> dddddDdddddddddd
                dddd.dd.ddd.dddd: 5 9 -> dddd.Dd.dDd.dddd
                dddd.dd.dddddddd: 7 -> dddd.ddDdddddddd
            "#]],
            ),
            (
                Neighbours::InArea,
                expect![[r#"
                dddddddddddddddd: 5 -> DDDDDDDDdddddddd
                dddd.dd.ddd.dddd: 5 9 -> dddd.DD.DDD.dddd
                dddd.dd.dddddddd: 7 -> dddd.DDDdddddddd
            "#]],
            ),
            (
                Neighbours::WholeArea,
                expect![[r#"
                dddddddddddddddd: 5 -> DDDDDDDDdddddddd
                dddd.dd.ddd.dddd: 5 9 -> DDDD.DD.DDD.Dddd
                dddd.dd.dddddddd: 7 -> DDDD.DDDdddddddd
            "#]],
            ),
        ] {
            check_shape(neighbours, BatchLimit::NONE, script, &expected);
        }
    }

    #[test]
    fn a_batch_ends_at_its_limit_and_exceeds_it_by_one_run_at_most() {
        let script = "
            d.d.d.d.dd......: 0 2 4 6 8
            ddddd.ddddd.dddd: 3 8 12
            ";
        check(
            BatchLimit { pages: u64::MAX, ios: 2 },
            script,
            &expect![[r#"
            d.d.d.d.dd......: 0 2 4 6 8 -> D.D.d.d.dd......
            ddddd.ddddd.dddd: 3 8 12 -> DDDDD.DDDDD.dddd
        "#]],
        );
        check(
            BatchLimit { pages: 4, ios: u64::MAX },
            script,
            &expect![[r#"
            d.d.d.d.dd......: 0 2 4 6 8 -> D.D.D.D.dd......
            ddddd.ddddd.dddd: 3 8 12 -> DDDDD.ddddd.dddd
        "#]],
        );
    }
}
