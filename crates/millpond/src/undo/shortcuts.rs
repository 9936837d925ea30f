//! Shortcuts past versions of a row that no snapshot tells apart.
//!
//! While a snapshot is held, every later version of a row is kept, and all but a few of them are of use to nobody. Who moves committed
//! undo to segments goes over it in commit order; there it puts the changes of a row together, as long as no snapshot lies between
//! them, so that a reader who sees none of these versions goes past all of them in one step:
//!
//! ```text
//!  snapshot A                       snapshot B
//!      │ v1   v2   v3   v4   v5         │ v6   v7   v8  (in the page)
//!      │ ◀────────────────── v5         │ ◀──────── v8
//! ```
//! A shortcut is filed under its newest version. It holds for every snapshot that is live: one lies at or below its first commit, and goes past
//! it, or above its last, and has stopped before. One that is drawn later lies above. They are a cache of bounded size, in memory alone:
//! where one is missing the undo itself is read.

use super::delta::Delta;
use super::record::{UndoEntry, UndoRecord};
use crate::page::Damage;
use crate::page::node::Version;
use crate::planted::{Bug, planted};
use base::sync::Mutex;
use base::sync::atomic::{AtomicU64, Ordering};
use base::{Lsn, TxnId};

/// Places; each version has two where it may stand.
const PLACES: usize = if cfg!(loom) { 4 } else { 1 << 14 };
/// The memory of all, about, bytes.
const BYTES_MAX: usize = 8 << 20;
/// A shortcut past so many versions stays while there is a snapshot that could use it.
const WORTH: u32 = 32;
/// So many shortcuts of a row one looks back over for two that may become one.
const LOOK_BACK: usize = 32;

/// Past how many versions, and to which.
#[derive(Clone, Debug)]
struct Shortcut {
    /// Where it begins.
    newest: Version,
    /// The least and the greatest commit of the versions that it goes past.
    first: Lsn,
    last: Lsn,
    steps: u32,
    /// Where it leads, and the flags of that version; none: there was no row.
    to: Option<(Version, u8)>,
    /// To that one's value.
    delta: Delta,
    /// A longer one has taken its place; it stays for who is on its way here.
    replaced: bool,
}

#[derive(Debug, Default)]
struct Table {
    /// Empty before the first shortcut.
    places: Vec<Option<Box<Shortcut>>>,
    bytes: usize,
}

/// The shortcuts of a database.
#[derive(Debug, Default)]
pub(super) struct Shortcuts {
    table: Mutex<Table>,
    /// What they take, bytes; 0 if there are none.
    memory: AtomicU64,
}

/// Where a shortcut has led a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShortcutEnd {
    /// To this version, and these are its flags.
    To(Version, u8),
    /// To where there was no row.
    Nothing,
}

fn places_of(version: Version) -> [usize; 2] {
    let mixed = (version.txn.0 ^ version.undo_at.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let at = (mixed >> 40) as usize % PLACES;
    [at, at ^ 1]
}

fn bytes_of(shortcut: &Shortcut) -> usize {
    size_of::<Shortcut>() + shortcut.delta.bytes()
}

impl Table {
    fn get(&self, version: Version) -> Option<&Shortcut> {
        let places = places_of(version).map(|at| self.places.get(at)?.as_deref());
        places.into_iter().flatten().find(|shortcut| shortcut.newest == version)
    }

    fn get_mut(&mut self, version: Version) -> Option<&mut Shortcut> {
        let at = places_of(version)
            .into_iter()
            .find(|at| matches!(self.places.get(*at), Some(Some(there)) if there.newest == version))?;
        self.places[at].as_deref_mut()
    }

    /// Puts a shortcut where one is of less use, if there is such a place. Those whose last commit lies below `horizon` are of none.
    fn put(&mut self, shortcut: Shortcut, horizon: Lsn) {
        let use_of = |there: &Option<Box<Shortcut>>| match there {
            None => 0,
            Some(there) if there.newest == shortcut.newest => 0,
            Some(there) if there.replaced || there.last < horizon => 1,
            Some(there) if there.steps < WORTH => 2,
            Some(there) => there.steps,
        };
        if self.places.is_empty() {
            self.places.resize_with(PLACES, || None);
        }
        let [one, other] = places_of(shortcut.newest);
        // Of two places with the same version one would be forgotten.
        let same =
            |there: &Option<Box<Shortcut>>| there.as_ref().is_some_and(|t| t.newest == shortcut.newest);
        let at = match (use_of(&self.places[one]), use_of(&self.places[other])) {
            _ if same(&self.places[other]) => other,
            (a, b) if b < a => other,
            _ => one,
        };
        let worth = use_of(&self.places[at]);
        if worth >= WORTH && worth >= shortcut.steps {
            return;
        }
        let freed = self.places[at].as_deref().map_or(0, bytes_of);
        if self.bytes - freed + bytes_of(&shortcut) > BYTES_MAX {
            self.shrink(horizon);
            if self.bytes + bytes_of(&shortcut) > BYTES_MAX {
                return;
            }
        }
        self.bytes += bytes_of(&shortcut);
        self.bytes -= self.places[at].as_deref().map_or(0, bytes_of);
        self.places[at] = Some(Box::new(shortcut));
    }

    fn memory(&self) -> usize {
        self.bytes + self.places.len() * size_of::<Option<Box<Shortcut>>>()
    }

    /// Forgets what is of little use.
    fn shrink(&mut self, horizon: Lsn) {
        for place in &mut self.places {
            if let Some(there) = place
                && (there.replaced || there.steps < WORTH || there.last < horizon)
            {
                self.bytes -= bytes_of(there);
                *place = None;
            }
        }
    }

    /// Makes one shortcut of neighbours of one row, from that of `newest` back, where no snapshot lies between them any more.
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

    /// Takes in a change that `txn` made and that committed at `lsn`.
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
    /// Takes in the undo of transactions, each with its commit, in the order of these: `each` shows the records of one after the other that
    /// were not taken back. `apart` tells whether a snapshot lies above the one commit and at or below the other; commits below `horizon`
    /// are seen by all.
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

    /// Takes `value` from that of `version`, which the snapshot does not see, past all versions that the shortcut goes past, if there is one.
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
        // Whoever made the shortcut looked for snapshots; the reader looks for itself all the same.
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

    /// Forgets all: nobody has anything in segments any more.
    pub(super) fn clear(&self) {
        if self.memory() > 0 {
            let mut table = self.table.lock();
            *table = Table::default();
            self.memory.store(0, Ordering::Release);
        }
    }

    /// Memory, bytes.
    pub(super) fn memory(&self) -> u64 {
        self.memory.load(Ordering::Acquire)
    }
}
