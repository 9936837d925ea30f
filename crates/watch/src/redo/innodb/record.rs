//! The records of a mini-transaction, one after the other: pure functions over its bytes.

use super::mtr::{Length, record_length};
use super::varint;

/// A page: the number of its tablespace, and its own in it.
pub(super) type PageId = (u32, u32);

/// What a record does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    FreePage,
    InitPage,
    InitIndexPage,
    InitUndoPage,
    AppendUndo,
    Insert,
    Delete,
    Trim,
    Write,
    Fill,
    Move,
    Option,
    FileCreate,
    FileDelete,
    FileRename,
    FileModify,
    Checkpoint,
    Padding,
    /// The end of a mini-transaction, which is no record.
    End,
    /// A record of a kind or form that this reader does not know.
    Unknown,
}

impl Kind {
    /// Returns what people read.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::FreePage => "free page",
            Kind::InitPage => "init page",
            Kind::InitIndexPage => "init index page",
            Kind::InitUndoPage => "init undo page",
            Kind::AppendUndo => "append undo",
            Kind::Insert => "insert",
            Kind::Delete => "delete",
            Kind::Trim => "trim file",
            Kind::Write => "write",
            Kind::Fill => "fill",
            Kind::Move => "move",
            Kind::Option => "option",
            Kind::FileCreate => "create file",
            Kind::FileDelete => "delete file",
            Kind::FileRename => "rename file",
            Kind::FileModify => "name of a changed file",
            Kind::Checkpoint => "checkpoint",
            Kind::Padding => "padding",
            Kind::End => "end of a mini-transaction",
            Kind::Unknown => "unknown",
        }
    }
}

/// Where a record works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Page(PageId),
    /// The file of a tablespace.
    File(u32),
    Nowhere,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) kind: Kind,
    pub(super) place: Place,
    /// All of its bytes: those of its kind, length and page are counted too.
    pub(super) bytes: usize,
    /// For a change of a page: the offset in the page, else 0.
    pub(super) offset: usize,
    /// For a write: the bytes. For a fill: the pattern. For a file: its names.
    pub(super) body: &'a [u8],
    /// How many bytes of the page a write, a fill or a move changes.
    pub(super) changed: usize,
}

/// The records of a mini-transaction. The sum of their bytes is that of `rest`, whatever it holds.
pub(super) struct Records<'a> {
    rest: &'a [u8],
    /// The page of the record before.
    page: Option<PageId>,
    /// Where the record before ended in the page.
    offset: usize,
}

/// Where the part of a page begins that its creation leaves to other records: `FIL_PAGE_TYPE`.
const AFTER_INIT: usize = 24;

impl<'a> Records<'a> {
    pub(super) fn new(records: &'a [u8]) -> Records<'a> {
        Records { rest: records, page: None, offset: 0 }
    }

    /// Understands a record: its first byte, and what follows its length.
    fn read(&mut self, first: u8, body: &'a [u8]) -> Option<Record<'a>> {
        let same_page = first & 0x80 != 0;
        let (place, rest) = match self.page {
            Some(page) if same_page => (page, body),
            _ => {
                let (space, length) = varint::read_u32(body)?;
                let rest = body.get(length..)?;
                let (number, length) = varint::read_u32(rest).or((first == 0xf1).then_some((0, 0)))?;
                ((space, number), rest.get(length..)?)
            }
        };
        if same_page && self.page.is_none() {
            return Some(of_file(first, place.0, rest));
        }
        if !same_page {
            (self.page, self.offset) = (Some(place), 0);
        }
        let mut record = Record {
            kind: Kind::Unknown,
            place: Place::Page(place),
            bytes: 0,
            offset: 0,
            body: rest,
            changed: 0,
        };
        record.kind = match first & 0x70 {
            0x00 => Kind::FreePage,
            0x10 => Kind::InitPage,
            0x20 => extended(*rest.first()?),
            0x30 => Kind::Write,
            0x40 => Kind::Fill,
            0x50 => Kind::Move,
            0x70 => Kind::Option,
            _ => Kind::Unknown,
        };
        match record.kind {
            Kind::Write | Kind::Fill | Kind::Move => self.change(&mut record)?,
            Kind::Option | Kind::Unknown => {}
            _ => self.offset = AFTER_INIT,
        }
        Some(record)
    }

    /// Reads the offset and the length of a change.
    fn change(&mut self, record: &mut Record<'a>) -> Option<()> {
        let (forward, length) = varint::read_u32(record.body)?;
        record.body = record.body.get(length..)?;
        record.offset = self.offset.checked_add(forward as usize)?;
        record.changed = record.body.len();
        if record.kind != Kind::Write {
            let (changed, length) = varint::read_u32(record.body)?;
            record.body = record.body.get(length..)?;
            record.changed = changed as usize;
        }
        self.offset = record.offset.checked_add(record.changed)?;
        Some(())
    }
}

/// Returns the kind of an extended record.
fn extended(kind: u8) -> Kind {
    match kind {
        0 | 1 => Kind::InitIndexPage,
        2 => Kind::InitUndoPage,
        3 => Kind::AppendUndo,
        4..=7 => Kind::Insert,
        8 | 9 => Kind::Delete,
        10 => Kind::Trim,
        _ => Kind::Unknown,
    }
}

/// Returns a record about a file.
fn of_file(first: u8, space: u32, body: &[u8]) -> Record<'_> {
    let kind = match first & 0xf0 {
        0x80 => Kind::FileCreate,
        0x90 => Kind::FileDelete,
        0xa0 => Kind::FileRename,
        0xb0 => Kind::FileModify,
        0xf0 if space == 0 && body.len() == 8 && body.iter().any(|b| *b != 0) => Kind::Checkpoint,
        0xf0 if space == 0 && body.iter().all(|b| *b == 0) => Kind::Padding,
        _ => Kind::Unknown,
    };
    let place = match kind {
        Kind::Checkpoint | Kind::Padding | Kind::Unknown => Place::Nowhere,
        _ => Place::File(space),
    };
    Record { kind, place, bytes: 0, offset: 0, body, changed: 0 }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let first = *self.rest.first()?;
        let length = match record_length(self.rest) {
            Length::Known(length) => length.min(self.rest.len()),
            Length::Cut | Length::Reserved => self.rest.len(),
        };
        let (whole, rest) = self.rest.split_at(length);
        self.rest = rest;
        let of_length = if first & 15 == 0 { varint::read(&whole[1..]).map_or(0, |(_, n)| n) } else { 0 };
        let read = self.read(first, whole.get(1 + of_length..).unwrap_or_default());
        let unknown =
            Record { kind: Kind::Unknown, place: Place::Nowhere, bytes: 0, offset: 0, body: &[], changed: 0 };
        Some(Record { bytes: length, ..read.unwrap_or(unknown) })
    }
}
