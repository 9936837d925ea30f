//! A buffer pool much smaller than the data, with many threads.

use super::*;
use crate::engine::tests::rows;
use std::collections::BTreeMap;

/// Returns a large row: few fit in a page.
fn wide_row(n: u64, round: u64) -> ([u8; 8], Vec<u8>) {
    let mut value = vec![0; 780];
    Prng::new(n * 1_000_003 + round).fill(&mut value);
    (n.to_be_bytes(), value)
}

/// 64 frames, a hundred times as many pages, and eight threads that each own an eighth of the rows.
#[test]
fn a_tiny_pool_serves_many_threads() {
    const THREADS: u64 = 8;
    const ROWS: u64 = 6400 * 5;
    let vfs = Vfs { disk: Arc::new(MemDisk::default()), clock: Vfs::os().clock };
    let mut options = options(16 * MIB, 64);
    options.tuning.doublewrite_pages = 16;
    let engine = Engine::open(&vfs, Path::new(DIR), &options).unwrap();
    let tree = Tree::create(&engine.store, TREE).unwrap();
    for n in 0..ROWS {
        let _admitted = engine.admission().admit(OP_BYTES).unwrap();
        let (key, value) = wide_row(n, 0);
        put(&engine, tree, n, &key, &value).unwrap();
    }
    let mut newest: BTreeMap<u64, u64> = BTreeMap::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|id| {
                let engine = &engine;
                scope.spawn(move || {
                    let (mut rng, mut newest) = (Prng::new(id), BTreeMap::new());
                    for round in 1..=200 {
                        let n = rng.below(ROWS / THREADS) * THREADS + id;
                        let _admitted = engine.admission().admit(OP_BYTES).unwrap();
                        let (key, value) = wide_row(n, round);
                        put(engine, tree, ROWS + round, &key, &value).unwrap();
                        newest.insert(n, round);
                    }
                    newest
                })
            })
            .collect();
        threads.into_iter().for_each(|t| newest.extend(t.join().unwrap()));
    });
    assert!(engine.store.space.used_pages().unwrap()[&TREE].len() > 6400);
    let found = rows(&engine, tree).unwrap();
    assert_eq!(found.len() as u64, ROWS);
    for n in 0..ROWS {
        let (key, value) = wide_row(n, newest.get(&n).copied().unwrap_or(0));
        assert!(found[&key[..]] == value, "row {n}");
    }
    engine.close().unwrap();
}
