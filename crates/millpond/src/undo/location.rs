//! Where a piece of undo is: in which undo file, and where in it.

use crate::error::{Error, Result};
use base::TxnId;
use std::path::PathBuf;
use std::sync::Arc;
use vfs::File;

/// An undo file. It is removed when only the journal still refers to it.
#[derive(Debug)]
pub(crate) struct UndoFile {
    pub(super) number: u32,
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn File>,
}

/// Where a piece of undo is in the undo files.
#[derive(Clone, Debug)]
pub(crate) struct FileLocation {
    pub(super) file: Arc<UndoFile>,
    /// Offset in the file, bytes.
    pub(super) at: u64,
    /// CRC32C of the bytes.
    pub(super) crc: u32,
}

impl FileLocation {
    /// Returns the number of the file.
    pub(crate) fn file(&self) -> u32 {
        self.file.number
    }

    /// Fills `bytes` from offset `from` after the location.
    pub(super) fn read(&self, from: u64, bytes: &mut [u8]) -> Result {
        self.file.file.read_at(bytes, self.at + from).map_err(|e| Error::io("read", &self.file.path, e))
    }

    /// A location for tests that never read it.
    #[cfg(test)]
    pub(super) fn nowhere() -> FileLocation {
        let vfs = vfs::mem::MemDisk::default().vfs(1);
        let mode = vfs::OpenMode { create: vfs::Create::IfMissing, direct: false, read_only: false };
        let path = PathBuf::from("/nowhere");
        let file = vfs.disk.open(&path, mode).expect("an empty disk");
        FileLocation { file: Arc::new(UndoFile { number: 1, path, file }), at: 0, crc: 0 }
    }
}

/// A piece of undo that is not in memory.
#[derive(Clone, Debug)]
pub(crate) struct UndoPiece {
    /// Its transaction, or none if it is a whole history batch.
    pub(super) owner: TxnId,
    /// Where it begins in its stream.
    pub(super) base: u64,
    /// Its length in bytes. For a member of a history batch: the length of the batch.
    pub(super) len: u32,
    pub(super) location: FileLocation,
    /// If set, the piece is the whole stream of this member of the history batch at `location`.
    pub(super) member: Option<MemberRank>,
}

/// A member's position in the directory of a history batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemberRank {
    /// The number of members before it.
    pub(super) before: u32,
    /// The number of members of the batch.
    pub(super) of: u32,
}
