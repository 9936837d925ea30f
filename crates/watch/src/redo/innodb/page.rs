//! Whose a page is: what its header says, as the log or the file has it. Pure.

use super::record::{Kind, Record};

/// How many bytes of a page hold the header, from its start.
pub(super) const HEADER_BYTES: usize = 74;
/// Where the kind of a page is (`FIL_PAGE_TYPE`), 2 bytes.
const TYPE: usize = 24;
/// Where the version of the key of an encrypted page is, 4 bytes.
const KEY: usize = 26;
/// Where the number of the index is (`PAGE_INDEX_ID`), 8 bytes.
const INDEX: usize = 66;

/// Kinds of pages, by their numbers in the file.
const TYPE_INDEX: u16 = 17_855;
const TYPE_RTREE: u16 = 17_854;
const TYPE_UNDO: u16 = 2;

/// Whose a page is, in its tablespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Owner {
    /// A page of the index with this number.
    Index(u64),
    Undo,
    /// An undo record of the table with this number.
    UndoOf(u64),
    /// A long value, which is not in the page of its row.
    Blob,
    /// Which pages and segments of the file are used.
    Allocation,
    /// Which pages have entries in the change buffer, and its free pages.
    ChangeBuffer,
    /// Heads of rollback segments, of the dictionary, of the transaction system.
    System,
    /// A page that is allocated, and nothing more yet.
    Allocated,
    /// The page's header is compressed, or encrypted, in the file.
    Hidden,
    /// The header is not known: the file is gone or cannot be read, or does not have the page yet.
    Unknown,
    /// Names of files, and their creation, renaming and removal.
    File,
}

/// The bytes of a header that say whose the page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    kind: [u8; 2],
    index: [u8; 8],
    hidden: bool,
}

impl Header {
    /// The header of a page that was just created.
    pub(super) const NEW: Header = Header { kind: [0; 2], index: [0; 8], hidden: false };

    /// Reads the header of a page in a file. `None` if the file does not have the page yet.
    pub(super) fn read(page: &[u8]) -> Option<Header> {
        let bytes = page.get(..HEADER_BYTES)?;
        if bytes.iter().all(|b| *b == 0) {
            return None;
        }
        let kind = [bytes[TYPE], bytes[TYPE + 1]];
        let index = bytes[INDEX..INDEX + 8].try_into().ok()?;
        let number = u16::from_be_bytes(kind);
        // The top bit: newer files mark a compressed page by it, older ones by two numbers with it.
        let compressed = number & 0x8000 != 0;
        // A page of a spatial index has another number in the place of the key's version.
        let encrypted = number == TYPE_INDEX && bytes[KEY..KEY + 4] != [0; 4];
        Some(Header { kind, index, hidden: compressed || encrypted })
    }

    /// Returns whose the page is.
    pub(super) fn owner(self) -> Owner {
        if self.hidden {
            return Owner::Hidden;
        }
        match u16::from_be_bytes(self.kind) {
            // 18 is the root of a table with a column that was added without a copy.
            TYPE_INDEX | TYPE_RTREE | 18 => Owner::Index(u64::from_be_bytes(self.index)),
            TYPE_UNDO => Owner::Undo,
            10..=12 => Owner::Blob,
            3 | 8 | 9 => Owner::Allocation,
            4 | 5 => Owner::ChangeBuffer,
            6 | 7 => Owner::System,
            0 => Owner::Allocated,
            _ => Owner::Unknown,
        }
    }

    /// Applies a record to a header.
    pub(super) fn apply(header: &mut Option<Header>, record: &Record<'_>) {
        if record.kind == Kind::InitPage {
            *header = Some(Header::NEW);
        }
        let Some(header) = header else { return };
        match record.kind {
            Kind::InitIndexPage => header.set_type(TYPE_INDEX),
            Kind::InitUndoPage => header.set_type(TYPE_UNDO),
            Kind::Write | Kind::Fill if !record.body.is_empty() => header.write(record),
            _ => {}
        }
    }

    fn set_type(&mut self, kind: u16) {
        self.kind = kind.to_be_bytes();
    }

    /// Writes what a record changes of the bytes that are kept. The pattern of a fill is repeated.
    fn write(&mut self, record: &Record<'_>) {
        for (start, kept) in [(TYPE, &mut self.kind[..]), (INDEX, &mut self.index[..])] {
            for (i, byte) in kept.iter_mut().enumerate() {
                if let Some(at) = (start + i).checked_sub(record.offset).filter(|at| *at < record.changed) {
                    *byte = record.body[at % record.body.len()];
                }
            }
        }
    }
}
