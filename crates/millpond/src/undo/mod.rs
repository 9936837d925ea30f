//! Undo: how every row stood before each change of an unfinished, or not yet purged, transaction.
//!
//! One append-only stream of records per transaction (Un3), in memory as far as that has room, else in files ([`fetch`]). A version in a page names its record by
//! (transaction, offset); the record holds the version before it, as a difference. A record is appended, and can be
//! read, before the page shows its address.
//!
//! Records are made from the fields of redo records alone ([`record`]), so replaying the log gives every stream the same
//! bytes at the same offsets, and the addresses in pages stay true over a crash.

mod chunks;
mod delta;
pub(crate) mod fetch;
pub(crate) mod history;
pub(crate) mod history_batch;
pub(crate) mod journal;
pub(crate) mod record;
mod shortcuts;
pub(crate) mod spares;
pub(crate) mod spill;
pub(crate) mod stream;
pub(crate) mod streams;
pub(crate) mod walk;

pub(crate) use fetch::{HeldPiece, PieceCache, UndoAccess, UndoPiece};
pub(crate) use history::History;
pub(crate) use history_batch::{
    BATCH_MEMBER_BYTES_MAX, BatchMember, HISTORY_BATCH_BYTES, HISTORY_BATCH_TXNS, HistoryBatch,
    HistoryBatchRange, ToPurge,
};
pub(crate) use record::{UndoEntry, UndoRecord, decode_rewind, encode_rewind};
pub(crate) use shortcuts::ShortcutEnd;
pub(crate) use stream::{ChunkCopy, Stream, UndoPosition};
pub(crate) use streams::{Streams, UndoSource};
pub(crate) use walk::{LeftToPurge, PurgeItem, REWINDS_MAX};
