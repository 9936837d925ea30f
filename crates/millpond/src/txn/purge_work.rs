//! What purge has to do for one record of undo.

use crate::error::Result;
use crate::page::Damage;
use crate::page::node::{DELETED, OVERFLOW};
use crate::page::overflow::ChainRef;
use crate::undo::{PurgeItem, UndoEntry};
use base::TreeId;

/// The work for one record, copied out of the undo so that nothing is held while it is done.
pub(super) struct PurgeWork {
    pub(super) tree: TreeId,
    /// The key of a row that may be a delete mark.
    pub(super) mark: Option<Vec<u8>>,
    /// A long value that was replaced.
    pub(super) chain: Option<ChainRef>,
}

/// Returns the work for a record that purge was sent to.
pub(super) fn work_of(entry: &UndoEntry<'_>, purge: PurgeItem) -> Result<PurgeWork, Damage> {
    let UndoEntry::Replace { tree, key, old_flags, new_flags, old_middle, .. } = *entry else {
        return Err(Damage("purge was sent to an undo record of another kind"));
    };
    let chain = if old_flags & OVERFLOW != 0 && !purge.rewound {
        let damage = |_| Damage("an undo record holds a long value without an address");
        Some(ChainRef::decode(old_middle).map_err(damage)?)
    } else {
        None
    };
    // A change that was rolled back may have restored a mark.
    let mark = new_flags & DELETED != 0 || purge.rewound;
    Ok(PurgeWork { tree, mark: mark.then(|| key.to_vec()), chain })
}
