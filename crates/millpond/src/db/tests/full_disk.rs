//! A disk of every size, on which a database lives through all that needs space: it fills up, rolls back, takes checkpoints, closes,
//! opens on the same full disk, deletes and drops, and has room again.

use super::*;
use metrics::M;

/// What may come of a call on a full disk.
fn full<T>(result: crate::Result<T>, context: &dyn Fn() -> String) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Error::DiskFull { .. }) => None,
        Err(other) => panic!("{}: {other}", context()),
    }
}

fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// A database, what it should hold, and the disk.
struct World {
    disk: MemDisk,
    db: Db,
    table: Table,
    rows: Rows,
    rng: Prng,
    next: u64,
    met: u32,
}

impl World {
    fn context(&self) -> String {
        let segments = self.db.core.engine.store.log.segments().numbers();
        format!("{} of the disk in use, {} rows, segments {segments:?}", self.disk.used(), self.rows.len())
    }

    /// Some rows in one transaction; it is rolled back, in parts or as a whole, now and then.
    fn transaction(&mut self, most: u64) -> bool {
        let mut tx = self.db.begin().unwrap();
        let (mut rows, whole) = (self.rows.clone(), self.rng.one_in(4));
        for _ in 0..self.rng.between(1, most) {
            let (key, len) = (key(self.next), self.rng.between(10, 1500) as usize);
            let long = self.rng.one_in(30);
            let value = vec![self.next as u8; if long { 30 * len } else { len }];
            self.next += 1;
            if full(tx.put(&self.table, &key, &value), &|| self.context()).is_none() {
                self.met += 1;
                tx.rollback();
                return false;
            }
            rows.insert(key.to_vec(), value);
        }
        if whole {
            tx.rollback();
        } else {
            tx.commit().unwrap_or_else(|e| panic!("{}: commit: {e}", self.context()));
            self.rows = rows;
        }
        true
    }

    fn checkpoint(&self) {
        full(self.db.checkpoint(), &|| self.context());
    }

    /// Closes and opens on the same disk. Closing may find no space to harden what is open; then the next one recovers.
    fn reopen(&mut self) {
        full(self.db.close(), &|| self.context());
        self.db = try_open(&self.disk).unwrap_or_else(|e| panic!("{}: opening: {e}", self.context()));
        self.table = self.db.open_table("t").unwrap();
        self.check();
    }

    fn check(&self) {
        assert!(all(&self.db, "t") == self.rows, "{}: other rows", self.context());
        let report = self.db.check().unwrap();
        assert!(report.is_clean(), "{}: {report}", self.context());
    }

    /// Deletes rows, which must go whatever room there is; who is told that there is none for a moment tries again.
    fn delete(&mut self, share: u64) {
        let keys: Vec<_> = self.rows.keys().cloned().collect();
        let mut refused = 0;
        for keys in keys.chunks(8) {
            if !self.rng.one_in(share) {
                continue;
            }
            loop {
                let mut tx = self.db.begin().unwrap();
                let done = keys.iter().try_for_each(|key| tx.delete(&self.table, key).map(drop));
                if full(done, &|| self.context()).is_some() {
                    tx.commit().unwrap_or_else(|e| panic!("{}: commit: {e}", self.context()));
                    break;
                }
                refused += 1;
                assert!(refused < 10_000, "{}: nothing can be deleted", self.context());
                tx.rollback();
                std::thread::sleep(Duration::from_millis(1));
            }
            keys.iter().for_each(|key| drop(self.rows.remove(key)));
        }
    }
}

fn live(bytes: u64, seed: u64) -> Option<u32> {
    let disk = MemDisk::default();
    disk.limit(Some(bytes));
    let db = match try_open(&disk) {
        Ok(db) => db,
        Err(Error::DiskFull { .. }) => {
            // Too small for any database; with room there is one.
            disk.limit(None);
            try_open(&disk).unwrap();
            return None;
        }
        Err(other) => panic!("{bytes} bytes: {other}"),
    };
    let table = full(db.create_table("t"), &|| format!("{bytes} bytes"))?;
    let mut world = World { disk, db, table, rows: Rows::new(), rng: Prng::new(seed), next: 0, met: 0 };
    for round in 0..3 {
        let mut failed = 0;
        for _ in 0..400 {
            failed += u32::from(!world.transaction(12));
            if world.rng.one_in(20) {
                world.checkpoint();
            }
            if failed > 5 {
                break;
            }
        }
        world.checkpoint();
        // Another program takes what has been given back.
        let others = world.rng.one_in(2).then(|| world.disk.used());
        if let Some(used) = others {
            world.disk.limit(Some(used));
        }
        world.reopen();
        world.delete(if round == 1 { 1 } else { 2 });
        world.checkpoint();
        world.reopen();
        world.disk.limit(Some(bytes));
    }
    world.delete(1);
    settle(&world.db);
    // What the rows took is free again.
    let free = world.db.metrics().get("free_pages").unwrap();
    let pages = world.db.core.engine.store.metrics.get(M::FilePages) as f64;
    assert!(free > pages * 0.9 - 64.0, "{}: {free} of {pages} pages are free", world.context());
    world.db.close().unwrap_or_else(|e| panic!("{}: closing: {e}", world.context()));
    Some(world.met)
}

#[test]
fn a_database_lives_on_a_disk_of_any_size() {
    let (mut lived, mut met) = (0, 0);
    let (from, to, step) = (600u64 << 10, 5u64 << 20, 173 << 10);
    let rounds = std::env::var("MILLPOND_FULL_DISKS").map_or(1, |n| n.parse().expect("a number"));
    for seed in 0..rounds {
        for bytes in (from..to).step_by(step) {
            if let Some(refused) = live(bytes + seed * 4096, seed ^ bytes) {
                (lived, met) = (lived + 1, met + refused);
            }
        }
    }
    assert!(lived > 10 && met > 20, "{lived} lived, {met} calls met a full disk");
}
