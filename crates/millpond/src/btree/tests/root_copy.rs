//! Tests of root copies against the roots themselves.

use base::prng::Prng;

use super::fixture::TestStore;
use super::{ID, get, put, remove};
use crate::btree::Tree;
use crate::btree::root_copy::{RootCopy, next_child};
use crate::btree::seek::Seek;
use crate::page::node::{Inner, Node};

/// Sets of keys that share nothing, a prefix, or a long prefix, or where one key is the start of
/// the next.
fn key_of_kind(kind: u64, n: u64) -> Vec<u8> {
    match kind {
        0 => n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec(),
        1 => [&b"the same sixteen"[..], &n.to_be_bytes()].concat(),
        2 => [&7u32.to_be_bytes()[..], &[0; 9], &n.to_be_bytes()].concat(),
        _ => vec![b'a'; (n % 300) as usize],
    }
}

#[test]
fn a_root_copy_gives_the_same_child_as_the_root() {
    let mut prng = Prng::new(5);
    for kind in 0..4 {
        let fixture = TestStore::new(4096, 600);
        let tree = Tree::create(&fixture.store, ID).unwrap();
        for n in 0..3000 {
            put(&fixture.store, tree, &key_of_kind(kind, n), &[7; 100], 0);
        }
        let root = fixture.store.pool.fetch(tree.root).unwrap().read();
        let inner = Inner::new(&root);
        assert!(inner.level() > 0 && inner.len() > 1);
        let copy = RootCopy::of(&inner);
        let neighbours = |key: &[u8]| [key.to_vec(), [key, &[0][..]].concat(), key[..key.len() / 2].to_vec()];
        let asked = (0..500).flat_map(|_| neighbours(&key_of_kind(kind, prng.below(3100))));
        let fences = (1..inner.len()).flat_map(|i| neighbours(&inner.key(i).to_vec()));
        for key in asked.chain(fences).chain([vec![], vec![0xff; 20]]) {
            for seek in [Seek::At(&key), Seek::Before(&key), Seek::Last] {
                assert_eq!(copy.child(seek), seek.child(&inner), "{seek:?}");
            }
        }
    }
}

#[test]
fn a_root_is_copied_if_it_stays_unchanged_and_a_stale_copy_is_ignored() {
    let fixture = TestStore::new(4096, 600);
    let tree = Tree::create(&fixture.store, ID).unwrap();
    let store = &fixture.store;
    let key = |n: u64| key_of_kind(0, n);
    let copied = || {
        let now = store.pool.stamp(tree.root).unwrap();
        next_child(tree.root, now, Seek::At(&key(1)), 0).is_some()
    };
    let mut rows = 0..;
    // Each time a split is posted in the root, its copy becomes invalid.
    for _ in 0..20 {
        let stamp = store.pool.stamp(tree.root);
        // In another thread, because a thread that changes a root also counts the visit.
        let grow = || {
            let level = || Node::new(&store.pool.fetch(tree.root).unwrap().read()).level();
            while store.pool.stamp(tree.root) == stamp || level() == 0 {
                put(store, tree, &key(rows.next().unwrap()), &[7; 100], 0);
            }
        };
        std::thread::scope(|scope| scope.spawn(grow).join().unwrap());
        assert!(!copied());
        let ways = (0..8).map(|n| get(store, tree, &key(n)).map(|_| copied())).collect::<Vec<_>>();
        assert_eq!(ways[3..], [Some(true); 5], "{ways:?}");
    }
    let rows = rows.start;
    (0..rows).for_each(|n| assert!(get(store, tree, &key(n)).is_some()));
    (0..rows).for_each(|n| assert!(remove(store, tree, &key(n))));
    (0..rows).for_each(|n| assert!(get(store, tree, &key(n)).is_none()));
}

#[test]
fn a_large_root_is_copied_after_more_descents() {
    let fixture = TestStore::new(4096, 600);
    let tree = Tree::create(&fixture.store, ID).unwrap();
    let store = &fixture.store;
    let key = |n: u64| key_of_kind(0, n);
    (0..2500).for_each(|n| put(store, tree, &key(n), &[7; 100], 0));
    let root = store.pool.fetch(tree.root).unwrap().read();
    let (level, children) = (Inner::new(&root).level(), Inner::new(&root).len());
    drop(root);
    assert!(level == 1 && children > 80, "a root with {children} children at level {level}");
    // In another thread, because the thread that has grown the tree has counted visits.
    let gets_until_copied = || {
        let copied = || {
            let now = store.pool.stamp(tree.root).unwrap();
            next_child(tree.root, now, Seek::At(&key(1)), 0).is_some()
        };
        (1..100).find(|_| get(store, tree, &key(1)).is_some() && copied())
    };
    let gets = std::thread::scope(|scope| scope.spawn(gets_until_copied).join().unwrap());
    assert_eq!(gets, Some(u64::from(children) / 16));
}
