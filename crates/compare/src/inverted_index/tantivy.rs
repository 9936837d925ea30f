//! The lists in an index of tantivy, in memory: a document for each id of the universe, with one
//! word or both, and its date as a fast field. The index has one segment, so tantivy's number of a
//! document is the document's id.

use super::experiment::{Answer, Contestant, Data, Failure, Query};
use crate::peers::version;
use ::tantivy::collector::{Collector, Count, SegmentCollector, TopDocs};
use ::tantivy::merge_policy::NoMergePolicy;
use ::tantivy::query::{BooleanQuery, Query as AnyQuery, TermQuery};
use ::tantivy::schema::{FAST, Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use ::tantivy::{
    DocId, Index, Order, Score, Searcher, SegmentOrdinal, SegmentReader, TantivyDocument, TantivyError, Term,
};
use std::sync::Mutex;

/// Documents of the result that the article wants.
const NEWEST: usize = 100;
/// All documents must fit: else there is a second segment.
const MEMORY_BYTES: usize = 3 << 30;
const WORDS: [&str; 2] = ["a", "b"];

pub struct Tantivy {
    searcher: Searcher,
    words: Field,
}

impl From<TantivyError> for Failure {
    fn from(error: TantivyError) -> Failure {
        Failure::Failed(format!("tantivy: {error}"))
    }
}

impl Tantivy {
    /// Returns an index of the documents; `None` if there are too many of them.
    pub fn of(data: &Data) -> Result<Option<Tantivy>, Failure> {
        if data.dates.is_empty() {
            return Ok(None);
        }
        let mut schema = Schema::builder();
        let indexing = TextFieldIndexing::default()
            .set_tokenizer("raw")
            .set_index_option(IndexRecordOption::Basic)
            .set_fieldnorms(false);
        let words = schema.add_text_field("words", TextOptions::default().set_indexing_options(indexing));
        let date = schema.add_u64_field("date", FAST);
        let index = Index::create_in_ram(schema.build());
        let mut writer = index.writer_with_num_threads::<TantivyDocument>(1, MEMORY_BYTES)?;
        writer.set_merge_policy(Box::new(NoMergePolicy));
        let mut lists = data.lists.each_ref().map(|ids| ids.iter().copied().peekable());
        for (id, modified) in (0..).zip(&data.dates) {
            let mut document = TantivyDocument::new();
            document.add_u64(date, u64::from(*modified));
            for (list, word) in lists.iter_mut().zip(WORDS) {
                if list.next_if_eq(&id).is_some() {
                    document.add_text(words, word);
                }
            }
            writer.add_document(document)?;
        }
        writer.commit()?;
        let searcher = index.reader()?.searcher();
        match searcher.segment_readers().len() {
            1 => Ok(Some(Tantivy { searcher, words })),
            n => Err(Failure::Failed(format!("tantivy: the index has {n} segments instead of one"))),
        }
    }

    fn query(&self, query: Query) -> BooleanQuery {
        let terms = WORDS.map(|word| {
            let term = Term::from_field_text(self.words, word);
            Box::new(TermQuery::new(term, IndexRecordOption::Basic)) as Box<dyn AnyQuery>
        });
        match query {
            Query::AndCount | Query::AndIds | Query::AndNewest => BooleanQuery::intersection(terms.into()),
            Query::OrCount | Query::OrIds => BooleanQuery::union(terms.into()),
        }
    }
}

impl Contestant for Tantivy {
    fn name(&self) -> String {
        format!("tantivy {}", version("tantivy"))
    }

    fn list_bytes(&self) -> Option<u64> {
        let usage = self.searcher.segment_readers().first()?.space_usage().ok()?;
        Some(usage.postings().total().get_bytes())
    }

    fn answer(&mut self, query: Query, answer: &mut Answer) -> Result<(), Failure> {
        let wanted = self.query(query);
        match query {
            Query::AndCount | Query::OrCount => answer.len = self.searcher.search(&wanted, &Count)?,
            Query::AndIds | Query::OrIds => {
                let collector = Ids(Mutex::new(std::mem::take(&mut answer.room)));
                let ids = self.searcher.search(&wanted, &collector)?;
                (answer.len, answer.room) = (ids.len(), ids);
            }
            Query::AndNewest => {
                let newest = TopDocs::with_limit(NEWEST).order_by_fast_field::<u64>("date", Order::Desc);
                answer.len = 0;
                for (_, address) in self.searcher.search(&wanted, &newest)? {
                    answer.push(u64::from(address.doc_id));
                }
            }
        }
        Ok(())
    }
}

/// Collects the ids of documents, in the memory that it is given.
struct Ids(Mutex<Vec<u64>>);

struct SegmentIds(Vec<u64>);

impl Collector for Ids {
    type Fruit = Vec<u64>;
    type Child = SegmentIds;

    fn for_segment(&self, _: SegmentOrdinal, _: &SegmentReader) -> ::tantivy::Result<SegmentIds> {
        let mut ids = self.0.lock().map(|mut ids| std::mem::take(&mut *ids)).unwrap_or_default();
        ids.clear();
        Ok(SegmentIds(ids))
    }

    fn requires_scoring(&self) -> bool {
        false
    }

    fn merge_fruits(&self, segments: Vec<Vec<u64>>) -> ::tantivy::Result<Vec<u64>> {
        // There is one segment.
        Ok(segments.into_iter().next().unwrap_or_default())
    }
}

impl SegmentCollector for SegmentIds {
    type Fruit = Vec<u64>;

    fn collect(&mut self, doc: DocId, _: Score) {
        self.0.push(u64::from(doc));
    }

    fn collect_block(&mut self, docs: &[DocId]) {
        self.0.extend(docs.iter().map(|doc| u64::from(*doc)));
    }

    fn harvest(self) -> Vec<u64> {
        self.0
    }
}
