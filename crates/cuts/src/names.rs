//! The changes of directories that are not durable yet, in their order.
//!
//! The changes of one directory reach the disk in order, so a power cut leaves a prefix of them.
//! Between directories there is no order, but for changes that touch two.

use base::prng::Prng;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

/// A name in a directory, which is known by its inode number.
pub(crate) type Place = (u64, OsString);

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A new file or directory got its name.
    Add { at: Place, number: u64 },
    /// A file, or an empty directory, lost its name.
    Remove { at: Place, number: u64, is_dir: bool },
    /// A file or directory got another name, in place of what had it before.
    Move { from: Place, to: Place, number: u64, replaced_dir: Option<u64> },
}

impl Change {
    /// Returns the directories whose order it is part of: a directory that ends is one of them,
    /// because it must be empty first.
    fn directories(&self) -> impl Iterator<Item = u64> {
        let all = match self {
            Change::Add { at, .. } | Change::Remove { at, is_dir: false, .. } => [Some(at.0), None, None],
            Change::Remove { at, number, is_dir: true } => [Some(at.0), Some(*number), None],
            Change::Move { from, to, replaced_dir, .. } => [Some(from.0), Some(to.0), *replaced_dir],
        };
        all.into_iter().flatten()
    }

    /// Whether it touches a directory.
    pub(crate) fn is_of(&self, directory: u64) -> bool {
        self.directories().any(|other| other == directory)
    }

    /// Returns the file or directory whose name it is about.
    pub(crate) fn number(&self) -> u64 {
        match self {
            Change::Add { number, .. } | Change::Remove { number, .. } | Change::Move { number, .. } => {
                *number
            }
        }
    }
}

/// The changes that wait.
#[derive(Debug, Default)]
pub(crate) struct Names(Vec<Change>);

impl Names {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn push(&mut self, change: Change) {
        self.0.push(change);
    }

    /// Returns the directory where the last of them puts a file or directory.
    pub(crate) fn directory_of(&self, number: u64) -> Option<u64> {
        self.0.iter().rev().find(|change| change.number() == number).and_then(|change| match change {
            Change::Add { at, .. } => Some(at.0),
            Change::Move { to, .. } => Some(to.0),
            Change::Remove { .. } => None,
        })
    }

    /// Takes out the changes that are wanted and all that must be there before them, in order.
    pub(crate) fn take(&mut self, wanted: impl Fn(&Change) -> bool) -> Vec<Change> {
        let mut directories = BTreeSet::new();
        let mut taken = vec![false; self.0.len()];
        for (change, taken) in self.0.iter().zip(&mut taken).rev() {
            if wanted(change) || change.directories().any(|directory| directories.contains(&directory)) {
                directories.extend(change.directories());
                *taken = true;
            }
        }
        let mut at = taken.iter();
        let (out, kept) = self.0.drain(..).partition(|_| at.next() == Some(&true));
        self.0 = kept;
        out
    }

    /// Returns what a power cut leaves of them: of each directory a prefix.
    pub(crate) fn survivors(&self, rng: &mut Prng) -> Vec<Change> {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for directory in self.0.iter().flat_map(Change::directories) {
            *counts.entry(directory).or_default() += 1;
        }
        let mut left: BTreeMap<u64, u64> =
            counts.into_iter().map(|(directory, count)| (directory, rng.between(0, count))).collect();
        let mut survivors = Vec::new();
        for change in &self.0 {
            let reached = change.directories().all(|directory| left.get(&directory) > Some(&0));
            for directory in change.directories() {
                let left = left.entry(directory).or_default();
                *left = if reached { left.saturating_sub(1) } else { 0 };
            }
            survivors.extend(reached.then(|| change.clone()));
        }
        survivors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(directory: u64, name: &str) -> Place {
        (directory, name.into())
    }

    fn add(directory: u64, name: &str, number: u64) -> Change {
        Change::Add { at: place(directory, name), number }
    }

    fn rename(from: Place, to: Place, number: u64) -> Change {
        Change::Move { from, to, number, replaced_dir: None }
    }

    /// Changes of three directories, one of which touches two.
    fn changes() -> [Change; 6] {
        [
            add(1, "a", 10),
            add(2, "b", 11),
            add(3, "c", 12),
            rename(place(1, "a"), place(2, "d"), 10),
            add(2, "e", 13),
            Change::Remove { at: place(2, "b"), number: 11, is_dir: false },
        ]
    }

    #[test]
    fn a_sync_of_a_directory_takes_its_changes_and_what_comes_before_them() {
        let all = changes();
        let mut names = Names(all.to_vec());
        // The move touches 2 as well, so what 2 had before comes with it.
        assert_eq!(names.take(|change| change.is_of(1)), [&all[0], &all[1], &all[3]].map(Clone::clone));
        assert_eq!(names.0, [&all[2], &all[4], &all[5]].map(Clone::clone));
        assert_eq!(names.take(|change| change.number() == 13), [all[4].clone()]);
        assert_eq!(names.len(), 2);
    }

    #[test]
    fn a_cut_leaves_a_prefix_of_each_directory() {
        let all = changes();
        let names = Names(all.to_vec());
        let mut rng = Prng::new(5);
        let mut lengths = BTreeSet::new();
        for _ in 0..2_000 {
            let survivors = names.survivors(&mut rng);
            for directory in [1, 2, 3] {
                let wanted: Vec<&Change> = all.iter().filter(|change| change.is_of(directory)).collect();
                let left: Vec<&Change> = survivors.iter().filter(|change| change.is_of(directory)).collect();
                assert_eq!(left, wanted[..left.len()], "not a prefix of {directory}");
            }
            lengths.insert(survivors.len());
        }
        assert_eq!(lengths, (0..=6).collect());
    }

    #[test]
    fn a_directory_ends_only_when_it_is_empty() {
        let all = [
            Change::Remove { at: place(9, "inner"), number: 20, is_dir: false },
            Change::Remove { at: place(1, "dir"), number: 9, is_dir: true },
        ];
        let mut rng = Prng::new(6);
        for _ in 0..200 {
            let survivors = Names(all.to_vec()).survivors(&mut rng);
            assert_ne!(survivors, [all[1].clone()]);
        }
        assert_eq!(Names(all.to_vec()).take(|change| change.is_of(1)), all);
    }
}
