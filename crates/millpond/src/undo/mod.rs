//! Undo: the version of every row before each change of a transaction that is unfinished or not yet
//! purged. Rollback and snapshot reads (MVCC) use it. Other systems call it undo log or rollback
//! segments.
//!
//! Each transaction has one append-only stream of undo records (Un3). The stream is in memory as
//! far as memory is allowed, and in files beyond that ([`fetch`]). A version in a page names its
//! record by (transaction, offset). The record holds the version before it, as a difference. A
//! record is appended, and can be read, before the page shows its address.
//!
//! Undo records are made from the fields of redo records only ([`record`]). So replaying the log
//! gives every stream the same bytes at the same offsets, and the addresses in pages stay valid
//! over a crash.

mod batch;
mod chunks;
mod delta;
pub(crate) mod fetch;
pub(crate) mod history_batch;
pub(crate) mod history_batches;
mod history_directory;
pub(crate) mod journal;
mod location;
pub(crate) mod record;
mod shortcuts;
pub(crate) mod spares;
pub(crate) mod spill;
pub(crate) mod stream;
pub(crate) mod streams;
pub(crate) mod walk;

pub(crate) use fetch::{HeldPiece, PieceCache, UndoAccess};
pub(crate) use history_batch::{
    BATCH_MEMBER_BYTES_MAX, BatchMember, HISTORY_BATCH_BYTES, HISTORY_BATCH_TXNS, HistoryBatch,
    HistoryBatchRange,
};
pub(crate) use history_batches::HistoryBatches;
pub(crate) use history_directory::ToPurge;
pub(crate) use location::UndoPiece;
pub(crate) use record::{UndoEntry, UndoRecord, decode_rewind, encode_rewind};
pub(crate) use shortcuts::ShortcutEnd;
pub(crate) use stream::{ChunkCopy, Stream, UndoPosition};
pub(crate) use streams::{Streams, UndoSource};
pub(crate) use walk::{PurgeItem, REWINDS_MAX};
