//! What every adapter must do in the same way; else the comparison is meaningless.

use super::BUILT;
use crate::peer::{Key, Peer, PeerKind, Promise, Session, Settings, Write, key};
use std::path::{Path, PathBuf};

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn get(session: &mut dyn Session, keys: &[Key]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    session.get(keys, &mut |value| found.push(value.to_vec())).unwrap();
    found
}

fn scan(session: &mut dyn Session, from: u64, rows: usize) -> Vec<u64> {
    let mut found = Vec::new();
    let mut seen = |k: &[u8], value: &[u8]| {
        assert_eq!(value, value_of(u64::from_be_bytes(k.try_into().unwrap())));
        found.push(u64::from_be_bytes(k.try_into().unwrap()));
    };
    session.scan(key(from), rows, &mut seen).unwrap();
    found
}

fn value_of(n: u64) -> Vec<u8> {
    n.to_le_bytes().repeat(25)
}

fn open(kind: &PeerKind, dir: &Path, promise: Promise) -> Box<dyn Peer> {
    (kind.open)(dir, &Settings { cache_bytes: 32 << 20, promise }).unwrap()
}

fn conforms(kind: &PeerKind) {
    let scratch = Scratch(std::env::temp_dir().join(format!("compare-{}-{}", kind.name, std::process::id())));
    std::fs::create_dir(&scratch.0).unwrap();
    let peer = open(kind, &scratch.0, Promise::Durable);
    {
        let mut session = peer.session().unwrap();
        let session = &mut *session;
        assert_eq!(get(session, &[key(1)]), Vec::<Vec<u8>>::new());
        assert!(scan(session, 0, 10).is_empty());
        let values: Vec<_> = (0..1000).map(value_of).collect();
        let puts: Vec<_> = (0..1000u64).map(|n| Write::Put(key(n), &values[n as usize])).collect();
        session.write(&puts, Promise::Durable).unwrap();
        peer.settle().unwrap();
        assert_eq!(get(session, &[key(7)]), [value_of(7)]);
        assert_eq!(get(session, &[key(5), key(5000), key(255), key(256)]).len(), 3);
        // Numbers across a byte boundary, which show that the order uses the whole key.
        assert_eq!(scan(session, 250, 10), (250..260).collect::<Vec<_>>());
        assert_eq!(scan(session, 995, 10), (995..1000).collect::<Vec<_>>());
        assert!(scan(session, 995, 0).is_empty());

        // The four writes of a transaction: the last put is the result.
        let other = value_of(99);
        let writes = [
            Write::Put(key(1), &other),
            Write::Put(key(2000), &other),
            Write::Delete(key(3)),
            Write::Put(key(3), &other),
        ];
        session.write(&writes, Promise::Durable).unwrap();
        assert_eq!(get(session, &[key(1), key(2000), key(3)]), [other.clone(), other.clone(), other]);
        session.write(&[Write::Delete(key(2000)), Write::Delete(key(3000))], Promise::Durable).unwrap();
        assert_eq!(get(session, &[key(2000)]).len(), 0);
        session
            .write(&[Write::Put(key(1), &values[1]), Write::Put(key(3), &values[3])], Promise::Durable)
            .unwrap();

        assert_eq!(session.submit(key(4), &values[4]).is_ok(), kind.submits);
        assert_eq!(session.acknowledge().is_ok(), kind.submits);
    }
    // Other threads see it.
    std::thread::scope(|scope| {
        for n in 0..4u64 {
            let peer = &*peer;
            scope.spawn(move || {
                let mut session = peer.session().unwrap();
                assert_eq!(get(&mut *session, &[key(n)]), [value_of(n)]);
                let value = value_of(5000 + n);
                session.write(&[Write::Put(key(5000 + n), &value)], Promise::Durable).unwrap();
            });
        }
    });
    drop(peer);

    // Opened again, also with unsynced commits.
    let peer = open(kind, &scratch.0, Promise::Unsynced);
    let mut session = peer.session().unwrap();
    assert_eq!(scan(&mut *session, 998, 10), [998, 999, 5000, 5001, 5002, 5003]);
    session.write(&[Write::Put(key(6000), &value_of(6000))], Promise::Unsynced).unwrap();
    assert_eq!(get(&mut *session, &[key(6000)]), [value_of(6000)]);
    drop(session);
    drop(peer);
    let peer = open(kind, &scratch.0, Promise::Durable);
    assert_eq!(scan(&mut *peer.session().unwrap(), 0, 2000).len(), 1005);
}

#[test]
fn every_peer_does_the_same() {
    for kind in BUILT {
        println!("{}", kind.name);
        conforms(kind);
    }
}
