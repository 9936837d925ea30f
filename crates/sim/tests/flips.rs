//! A part of the flips for every change; `sim flips` does every byte.

use sim::flips::{Ending, Outcome, SmallDatabase};

/// Every 997th byte of databases that were left in three ways.
///
/// Two bugs were found here. Only background work read a long value that nothing but undo linked
/// to: it ran into the damage again and again, and no caller got an error. And a restart repeats a
/// purge, which read pages that the first purge had freed: damage in such a free page stopped all
/// purging from then on.
#[test]
fn one_flipped_bit_is_named_or_changes_nothing() {
    for (name, end) in Ending::ALL {
        let small = SmallDatabase::new(end);
        let (mut named, mut harmless, mut wrong) = (0, 0, Vec::new());
        small.sweep(
            997,
            (0, 1),
            |range| match range.outcome {
                Outcome::Named => named += range.flips,
                Outcome::Harmless | Outcome::TailLost => harmless += range.flips,
            },
            |path, at, what| wrong.push(format!("{} at {at}: {what}", path.display())),
        );
        assert!(wrong.is_empty(), "{name}: {wrong:#?}");
        assert!(named > 0 && harmless > 0, "{name}: {named} named, {harmless} harmless");
        let other = |path: &std::path::Path| path.ends_with("LOCK") || path.ends_with("reserve");
        let undo = small.files.keys().any(|path| path.starts_with("/db/undo") && !other(path));
        assert_eq!(
            undo,
            end != Ending::JustOpened,
            "undo files are there for a transaction open across a checkpoint"
        );
    }
}
