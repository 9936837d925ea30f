//! The article's own way: sorted arrays of 64-bit ids, and two loops over them.

use super::failure::Failure;
use super::query::{Answer, Contestant, Data, NEWEST, Query};
use std::cmp::{Ordering, Reverse};

/// Answers by two loops. What they find is what the others must find too.
pub(crate) struct Arrays<'d>(pub(crate) &'d Data);

impl Contestant for Arrays<'_> {
    fn name(&self) -> String {
        "two loops over raw ids".into()
    }

    fn list_bytes(&self) -> Option<u64> {
        Some(self.0.lists.iter().map(|ids| size_of_val(&ids[..]) as u64).sum())
    }

    fn answers(&self, query: Query) -> bool {
        query != Query::AndNewest || !self.0.dates.is_empty()
    }

    fn answer(&mut self, query: Query, answer: &mut Answer) -> Result<(), Failure> {
        let Data { lists: [a, b], dates } = self.0;
        answer.len = 0;
        match query {
            Query::AndCount => and(a, b, |_| answer.len += 1),
            Query::OrCount => or(a, b, |_| answer.len += 1),
            Query::AndIds => and(a, b, |id| answer.push(id)),
            Query::OrIds => or(a, b, |id| answer.push(id)),
            Query::AndNewest => and_newest(a, b, dates, NEWEST).into_iter().for_each(|id| answer.push(id)),
        }
        Ok(())
    }
}

/// Calls `found` with each id that is in both lists.
fn and(a: &[u64], b: &[u64], mut found: impl FnMut(u64)) {
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            Ordering::Less => i += 1,
            Ordering::Greater => j += 1,
            Ordering::Equal => {
                found(a[i]);
                (i, j) = (i + 1, j + 1);
            }
        }
    }
}

/// Calls `found` with each id that is in one of the lists, or in both.
fn or(a: &[u64], b: &[u64], mut found: impl FnMut(u64)) {
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            Ordering::Less => {
                found(a[i]);
                i += 1;
            }
            Ordering::Greater => {
                found(b[j]);
                j += 1;
            }
            Ordering::Equal => {
                found(a[i]);
                (i, j) = (i + 1, j + 1);
            }
        }
    }
    a[i..].iter().chain(&b[j..]).for_each(|id| found(*id));
}

/// Returns the newest ids that are in both lists, the newest first; of equally new ones the lowest
/// id first. `dates` has the date of every id.
fn and_newest(a: &[u64], b: &[u64], dates: &[u32], most: usize) -> Vec<u64> {
    let mut dated = Vec::new();
    and(a, b, |id| dated.push((Reverse(dates[id as usize]), id)));
    dated.sort_unstable();
    dated.into_iter().take(most).map(|(_, id)| id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_loops_find_what_a_reader_expects() {
        let (a, b) = ([1, 3, 5, 7], [0, 3, 4, 7, 9, 10]);
        let (mut both, mut any) = (Vec::new(), Vec::new());
        and(&a, &b, |id| both.push(id));
        or(&a, &b, |id| any.push(id));
        assert_eq!((&both[..], &any[..]), (&[3, 7][..], &[0, 1, 3, 4, 5, 7, 9, 10][..]));
        let dates = [9, 9, 9, 5, 9, 9, 9, 5, 9, 9, 9];
        assert_eq!(and_newest(&a, &b, &dates, 1), [3]);
        assert_eq!(and_newest(&a, &b, &[0, 0, 0, 5, 0, 0, 0, 6], 9), [7, 3]);
    }
}
