//! The lists as roaring bitmaps in memory: chunks of 65,536 ids, each a sorted array, a bitmap or
//! runs. It has no dates.

use super::experiment::{Answer, Contestant, Data, Failure, Query};
use crate::peers::version;
use ::roaring::RoaringTreemap;

pub struct Roaring {
    lists: [RoaringTreemap; 2],
}

impl Roaring {
    pub fn of(data: &Data) -> Result<Roaring, Failure> {
        let list = |ids: &[u64]| -> Result<RoaringTreemap, Failure> {
            let mut list = RoaringTreemap::from_sorted_iter(ids.iter().copied())
                .map_err(|_| Failure::Failed("roaring: the ids are not sorted".into()))?;
            list.optimize();
            Ok(list)
        };
        Ok(Roaring { lists: [list(&data.lists[0])?, list(&data.lists[1])?] })
    }
}

impl Contestant for Roaring {
    fn name(&self) -> String {
        format!("roaring {}", version("roaring"))
    }

    fn list_bytes(&self) -> Option<u64> {
        Some(self.lists.iter().map(|list| list.serialized_size() as u64).sum())
    }

    fn answers(&self, query: Query) -> bool {
        query != Query::AndNewest
    }

    fn answer(&mut self, query: Query, answer: &mut Answer) -> Result<(), Failure> {
        let [a, b] = &self.lists;
        match query {
            Query::AndCount => answer.len = a.intersection_len(b) as usize,
            Query::OrCount => answer.len = a.union_len(b) as usize,
            Query::AndIds => write(&(a & b), answer),
            Query::OrIds => write(&(a | b), answer),
            Query::AndNewest => return Err(Failure::Failed("roaring has no dates".into())),
        }
        Ok(())
    }
}

/// Writes the ids, many at once: that is its fastest way.
fn write(ids: &RoaringTreemap, answer: &mut Answer) {
    let len = ids.len() as usize;
    if answer.room.len() < len {
        answer.room.resize(len, 0);
    }
    let mut low = [0; 4096];
    answer.len = 0;
    for (high, bitmap) in ids.bitmaps() {
        let base = u64::from(high) << 32;
        let mut ids = bitmap.iter();
        loop {
            let found = ids.next_many(&mut low);
            if found.is_empty() {
                break;
            }
            let room = &mut answer.room[answer.len..answer.len + found.len()];
            room.iter_mut().zip(found.iter()).for_each(|(room, low)| *room = base + u64::from(*low));
            answer.len += found.len();
        }
    }
}
