//! What is asked, what an answer is, and what everyone who answers can do.

use super::failure::Failure;

/// How many of the newest documents are wanted.
pub(crate) const NEWEST: usize = 100;

/// A question about two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Query {
    AndCount,
    AndIds,
    OrCount,
    OrIds,
    AndNewest,
}

/// What the article publishes, in ms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    /// By its own arithmetic: bytes read in order, 10 GB a second.
    pub(crate) computed_ms: f64,
    /// Measured by Lucene's nightly benchmark.
    pub(crate) lucene_ms: Option<f64>,
}

impl Query {
    pub(crate) const ALL: [Query; 5] =
        [Query::AndCount, Query::AndIds, Query::OrCount, Query::OrIds, Query::AndNewest];

    /// Returns what stands in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Query::AndCount => "AND, counted",
            Query::AndIds => "AND, ids written",
            Query::OrCount => "OR, counted",
            Query::OrIds => "OR, ids written",
            Query::AndNewest => "AND, newest 100",
        }
    }

    /// Returns the published times. The article does not say whether ids are written.
    pub(crate) fn published(self) -> Published {
        match self {
            Query::AndCount | Query::AndIds => Published { computed_ms: 2.4, lucene_ms: Some(45.0) },
            Query::OrCount | Query::OrIds => Published { computed_ms: 2.4, lucene_ms: Some(100.0) },
            Query::AndNewest => Published { computed_ms: 120.0, lucene_ms: None },
        }
    }

    /// Whether the answer is only a number.
    pub(crate) fn counts(self) -> bool {
        matches!(self, Query::AndCount | Query::OrCount)
    }
}

/// The answer to a query. Each answer uses the memory of the one before.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// How many ids there are.
    pub(crate) len: usize,
    /// The ids, if they are asked for, and then anything.
    pub(crate) room: Vec<u64>,
}

impl Answer {
    /// Adds an id.
    pub(crate) fn push(&mut self, id: u64) {
        if self.len == self.room.len() {
            self.room.resize((2 * self.len).max(1024), 0);
        }
        self.room[self.len] = id;
        self.len += 1;
    }

    /// Whether two answers to a query are the same.
    pub(crate) fn is(&self, query: Query, other: &Answer) -> bool {
        let ids = |answer: &Answer| query.counts() || answer.room[..answer.len] == other.room[..other.len];
        self.len == other.len && ids(self)
    }
}

/// Two lists of rising ids, and the dates of all documents: what every contestant stores.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) lists: [Vec<u64>; 2],
    /// The document's id is the place of its date. Empty if the universe is too large.
    pub(crate) dates: Vec<u32>,
}

/// Someone who has stored the lists and answers queries.
pub(crate) trait Contestant {
    /// Returns the heading of its column.
    fn name(&self) -> String;

    /// Returns the bytes of the two lists as they are stored, if that is known.
    fn list_bytes(&self) -> Option<u64>;

    /// Whether it can answer a query.
    fn answers(&self, _query: Query) -> bool {
        true
    }

    /// Puts the answer into `answer`.
    fn answer(&mut self, query: Query, answer: &mut Answer) -> Result<(), Failure>;
}
