//! Shortcuts past versions of a row that no snapshot tells apart.
//!
//! While a snapshot is held, every later version of a row is kept, though nearly all of them are
//! never needed. The thread that moves committed undo to history batches reads it in commit order.
//! It joins the changes of a row as long as no snapshot lies between them, so a reader that sees
//! none of these versions passes all of them in one step:
//!
//! ```text
//!  snapshot A                       snapshot B
//!      │ v1   v2   v3   v4   v5         │ v6   v7   v8  (in the page)
//!      │ ◀────────────────── v5         │ ◀──────── v8
//! ```
//! A shortcut is stored under its newest version. It is right for every snapshot that is held: a
//! reader whose snapshot is at or below its first commit takes it, and a reader whose snapshot is
//! above its last commit has stopped before. A snapshot that is drawn later lies above. Shortcuts
//! are a cache of bounded size, in memory only: where one is missing, the undo itself is read.

use super::delta::Delta;
use super::record::{UndoEntry, UndoRecord};
use crate::page::Damage;
use crate::page::node::Version;
use crate::planted::{Bug, planted};
use base::sync::Mutex;
use base::sync::atomic::{AtomicU64, Ordering};
use base::{Lsn, TxnId};

/// Slots of the table. A version may be in one of two slots.
const SLOTS: usize = if cfg!(loom) { 4 } else { 1 << 14 };
/// Approximate memory of all shortcuts, bytes.
const BYTES_MAX: usize = 8 << 20;
/// A shortcut past at least this many versions is kept while a snapshot could use it.
const WORTH: u32 = 32;
/// How many shortcuts of a row are tried, from the newest back, for two that can be joined.
const LOOK_BACK: usize = 32;

/// A step from a version to an older one.
#[derive(Clone, Debug)]
struct Shortcut {
    /// The version at which it begins.
    newest: Version,
    /// The least and the greatest commit of the versions that it passes.
    first: Lsn,
    last: Lsn,
    steps: u32,
    /// The version to which it leads, and the flags of that version. `None`: there was no row.
    to: Option<(Version, u8)>,
    /// Makes the value of that version.
    delta: Delta,
    /// A longer shortcut has replaced it. It stays for readers that come to its version.
    replaced: bool,
}

#[derive(Debug, Default)]
struct ShortcutTable {
    /// Empty before the first shortcut.
    slots: Vec<Option<Box<Shortcut>>>,
    bytes: usize,
}

/// The shortcuts of a database.
#[derive(Debug, Default)]
pub(super) struct Shortcuts {
    table: Mutex<ShortcutTable>,
    /// Their memory in bytes; 0 if there are none.
    memory: AtomicU64,
}

/// Where a shortcut has led a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShortcutEnd {
    /// To this version, which has these flags.
    To(Version, u8),
    /// To a time at which there was no row.
    Nothing,
}

fn slots_of(version: Version) -> [usize; 2] {
    let mixed = (version.txn.0 ^ version.undo_at.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let at = (mixed >> 40) as usize % SLOTS;
    [at, at ^ 1]
}

fn bytes_of(shortcut: &Shortcut) -> usize {
    size_of::<Shortcut>() + shortcut.delta.bytes()
}

impl ShortcutTable {
    fn get(&self, version: Version) -> Option<&Shortcut> {
        let slots = slots_of(version).map(|at| self.slots.get(at)?.as_deref());
        slots.into_iter().flatten().find(|shortcut| shortcut.newest == version)
    }

    fn get_mut(&mut self, version: Version) -> Option<&mut Shortcut> {
        let at = slots_of(version)
            .into_iter()
            .find(|at| matches!(self.slots.get(*at), Some(Some(there)) if there.newest == version))?;
        self.slots[at].as_deref_mut()
    }

    /// Stores a shortcut in place of a less useful one, if one of its slots has that. Shortcuts
    /// whose last commit is below `horizon` are of no use.
    fn put(&mut self, shortcut: Shortcut, horizon: Lsn) {
        let use_of = |there: &Option<Box<Shortcut>>| match there {
            None => 0,
            Some(there) if there.newest == shortcut.newest => 0,
            Some(there) if there.replaced || there.last < horizon => 1,
            Some(there) if there.steps < WORTH => 2,
            Some(there) => there.steps,
        };
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, || None);
        }
        let [one, other] = slots_of(shortcut.newest);
        // If both slots held the same version, one would be lost.
        let same =
            |there: &Option<Box<Shortcut>>| there.as_ref().is_some_and(|t| t.newest == shortcut.newest);
        let at = match (use_of(&self.slots[one]), use_of(&self.slots[other])) {
            _ if same(&self.slots[other]) => other,
            (a, b) if b < a => other,
            _ => one,
        };
        let worth = use_of(&self.slots[at]);
        if worth >= WORTH && worth >= shortcut.steps {
            return;
        }
        let freed = self.slots[at].as_deref().map_or(0, bytes_of);
        if self.bytes - freed + bytes_of(&shortcut) > BYTES_MAX {
            self.shrink(horizon);
            if self.bytes + bytes_of(&shortcut) > BYTES_MAX {
                return;
            }
        }
        self.bytes += bytes_of(&shortcut);
        self.bytes -= self.slots[at].as_deref().map_or(0, bytes_of);
        self.slots[at] = Some(Box::new(shortcut));
    }

    fn memory(&self) -> usize {
        self.bytes + self.slots.len() * size_of::<Option<Box<Shortcut>>>()
    }

    /// Removes shortcuts of little use.
    fn shrink(&mut self, horizon: Lsn) {
        for slot in &mut self.slots {
            if let Some(there) = slot
                && (there.replaced || there.steps < WORTH || there.last < horizon)
            {
                self.bytes -= bytes_of(there);
                *slot = None;
            }
        }
    }

    /// Joins neighbouring shortcuts of one row, from that of `newest` back, where no snapshot lies
    /// between them any more.
    fn join(&mut self, newest: Version, apart: &impl Fn(Lsn, Lsn) -> bool) {
        let mut at = newest;
        for _ in 0..LOOK_BACK {
            let Some(newer) = self.get(at) else { return };
            let Some((to, _)) = newer.to else { return };
            let Some(older) = self.get(to) else { return };
            if apart(older.first, newer.last) {
                at = to;
                continue;
            }
            let Some(delta) = older.delta.after(&newer.delta) else {
                at = to;
                continue;
            };
            let (first, steps, end) = (older.first, newer.steps.saturating_add(older.steps), older.to);
            let before = bytes_of(newer);
            let newer = self.get_mut(at).expect("it was just seen");
            (newer.first, newer.steps, newer.to, newer.delta) = (first, steps, end, delta);
            let now = bytes_of(newer);
            self.bytes = self.bytes + now - before;
            if let Some(older) = self.get_mut(to) {
                older.replaced = true;
            }
        }
    }

    /// Adds a change that committed at `lsn` and made `version`.
    fn add_change(
        &mut self,
        version: Version,
        entry: &UndoEntry<'_>,
        lsn: Lsn,
        horizon: Lsn,
        apart: &impl Fn(Lsn, Lsn) -> bool,
    ) {
        let (to, delta) = match *entry {
            UndoEntry::Insert { .. } => (None, Delta::default()),
            UndoEntry::Replace { before, old_flags, front, back, old_middle, .. } => {
                let delta = Delta::of(usize::from(front), usize::from(back), old_middle);
                (Some((before, old_flags)), delta)
            }
            UndoEntry::Chain { .. } | UndoEntry::Rewind { .. } => return,
        };
        let mut shortcut =
            Shortcut { newest: version, first: lsn, last: lsn, steps: 1, to, delta, replaced: false };
        if let Some((before, _)) = to
            && let Some(older) = self.get_mut(before)
        {
            let joined = (!apart(older.first, lsn)).then(|| older.delta.after(&shortcut.delta)).flatten();
            match joined {
                Some(delta) => {
                    (shortcut.first, shortcut.to, shortcut.delta) = (older.first, older.to, delta);
                    shortcut.steps += older.steps;
                    older.replaced = true;
                }
                None => self.join(before, apart),
            }
        }
        self.put(shortcut, horizon);
    }
}

impl Shortcuts {
    /// Adds the undo of transactions in commit order. `each` shows their records, with the commit
    /// LSN, without those that were taken back. `apart` says whether a snapshot lies above the
    /// first commit and at or below the second. All snapshots see commits below `horizon`.
    pub(super) fn add(
        &self,
        horizon: Lsn,
        apart: impl Fn(Lsn, Lsn) -> bool,
        each: impl FnOnce(&mut dyn FnMut(Lsn, u64, &UndoRecord<'_>)),
    ) {
        let mut table = self.table.lock();
        each(&mut |lsn, at, record| {
            let version = Version { txn: record.owner, undo_at: at };
            table.add_change(version, &record.entry, lsn, horizon, &apart);
        });
        self.memory.store(table.memory() as u64, Ordering::Release);
    }

    /// Changes `value` from that of `version`, which the snapshot does not see, to that of the
    /// version to which its shortcut leads, if there is a shortcut.
    pub(super) fn pass(
        &self,
        version: Version,
        snapshot: Lsn,
        value: &mut Vec<u8>,
    ) -> Result<Option<ShortcutEnd>, Damage> {
        if version.txn == TxnId::NONE || self.memory.load(Ordering::Acquire) == 0 {
            return Ok(None);
        }
        let table = self.table.lock();
        // The shortcut was built with no snapshot in between. The reader checks that again for its
        // own.
        let sees_none = |shortcut: &&Shortcut| snapshot <= shortcut.first || planted(Bug::PassedAcross);
        let Some(shortcut) = table.get(version).filter(sees_none) else {
            return Ok(None);
        };
        match shortcut.to {
            None => Ok(Some(ShortcutEnd::Nothing)),
            Some((to, flags)) => {
                shortcut.delta.apply(value)?;
                Ok(Some(ShortcutEnd::To(to, flags)))
            }
        }
    }

    /// Removes all: no history batch is left.
    pub(super) fn clear(&self) {
        if self.memory() > 0 {
            let mut table = self.table.lock();
            *table = ShortcutTable::default();
            self.memory.store(0, Ordering::Release);
        }
    }

    /// Returns the memory in bytes.
    pub(super) fn memory(&self) -> u64 {
        self.memory.load(Ordering::Acquire)
    }
}
