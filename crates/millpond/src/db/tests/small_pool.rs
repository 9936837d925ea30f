//! The memory of the buffer pool, for a pages file of any size.

use super::{DIR, Rows, figure, fresh, options, rows, try_open};
use crate::db::Db;
use crate::page::header;
use crate::page::map::{self, extents_per_map, page_of_group};
use crate::page::op::PageOp;
use crate::page_file::set_checksum;
use crate::{Durability, TxnOptions};
use base::PageNo;
use base::prng::Prng;
use std::path::Path;
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;
use vfs::mem::MemDisk;
use vfs::{Create, OpenMode, Vfs};

const PAGE: usize = 4096;
const GROUPS: u32 = 100;
/// Threads that write at once.
const WRITERS: u64 = 4;

/// Frames, control blocks and the page table together take the bytes that the caller gave. (Once
/// only the frames were counted, and the page table grew with the file.)
#[test]
fn frames_and_their_control_blocks_fit_the_given_memory() {
    for (page_bytes, given) in [(4096, 1 << 20), (4096, 9_999_999), (16384, 1 << 20), (16384, 8 << 20)] {
        let disk = MemDisk::default();
        let vfs = Vfs { clock: Vfs::os().clock, ..disk.vfs(1) };
        let mut options = options().page_bytes(page_bytes).buffer_pool_bytes(given);
        options.tuning.frames = 0;
        let db = Db::open_on(&vfs, Path::new(DIR), &options).unwrap();
        let (frames, beside) = (figure(&db, "buffer_frames"), figure(&db, "buffer_overhead_bytes"));
        let taken = frames * page_bytes as u64 + beside;
        assert!((64 * frames..90 * frames + 5000).contains(&beside), "{beside} bytes for {frames}");
        assert!(taken <= given && taken + 2 * page_bytes as u64 > given, "{taken} of {given}");
    }
}

/// Makes the file 1.6 GB long. One table owns nearly all of it, so each extent that another table
/// gets is described by another map page.
fn lengthen(disk: &MemDisk, ballast: base::TreeId) {
    let path = Path::new(DIR).join("pages");
    let mode = OpenMode { create: Create::Never, direct: false, read_only: false };
    let file = disk.vfs(1).disk.open(&path, mode).unwrap();
    let read = |page: PageNo| {
        let mut bytes = vec![0; PAGE];
        file.read_at(&mut bytes, u64::from(page.0) * PAGE as u64).unwrap();
        bytes
    };
    let write = |page: PageNo, bytes: &mut Vec<u8>| {
        header::set_page_no(bytes, page);
        set_checksum(bytes, page);
        file.write_at(bytes, u64::from(page.0) * PAGE as u64).unwrap();
    };
    let each = extents_per_map(PAGE);
    let mut head = read(PageNo(0));
    let lsn = header::lsn(&head);
    let groups_at = header::HEADER_BYTES + 16;
    head[groups_at..groups_at + 4].copy_from_slice(&GROUPS.to_le_bytes());
    write(PageNo(0), &mut head);
    file.set_len(u64::from(GROUPS * each * map::EXTENT_PAGES) * PAGE as u64).unwrap();
    for group in 0..GROUPS {
        let at = page_of_group(PAGE, group);
        let mut page = read(at);
        if group > 0 {
            PageOp::InitMap.apply(&mut page).unwrap();
            header::set_lsn(&mut page, lsn);
        }
        // One extent stays free.
        for index in 1..each as u16 - 1 {
            if map::extent(&page, index).tree == base::TreeId::NONE {
                PageOp::MapOwn { extent: index, tree: ballast }.apply(&mut page).unwrap();
            }
        }
        write(at, &mut page);
    }
    file.sync().unwrap();
}

fn write(db: &Db, writer: u64, round: u64) {
    let table = db.open_table("t").unwrap();
    let mut rng = Prng::new(writer);
    for n in 0..60u64 {
        let mut tx = db.begin().unwrap();
        for m in 0..20 {
            let number = if round == 0 { rng.below(1500) } else { n * 20 + m };
            let key = [&writer.to_be_bytes()[..], &number.to_be_bytes()].concat();
            let long = rng.below(40) == 0;
            match round == 1 && rng.below(16) > 0 {
                true => drop(tx.delete(&table, &key).unwrap()),
                false => tx.put(&table, &key, &vec![n as u8; if long { 9000 } else { 300 }]).unwrap(),
            }
        }
        tx.commit().unwrap();
    }
}

/// Map pages are evicted as others are. (Once they stayed in the pool for good, until no frame was
/// left.)
#[test]
fn a_file_with_more_map_pages_than_frames() {
    let (disk, db, _) = fresh();
    let ballast = db.create_table("ballast").unwrap().entry.tree.id;
    db.close().unwrap();
    drop(db);
    lengthen(&disk, ballast);
    let mut before = Rows::new();
    for round in 0..2 {
        let db = try_open(&disk).unwrap();
        assert!(u64::from(GROUPS) > figure(&db, "buffer_frames") && options().tuning.frames == 64);
        let table = db.open_table("t").unwrap();
        assert!(rows(&db.begin().unwrap(), &table) == before);
        std::thread::scope(|scope| {
            let db = &db;
            (0..WRITERS).for_each(|writer| drop(scope.spawn(move || write(db, writer, round))));
        });
        before = rows(&db.begin().unwrap(), &table);
        while figure(&db, "history_transactions") > 0 {
            std::thread::yield_now();
        }
        if round == 0 {
            assert!(figure(&db, "extents_allocated") > 30, "{}", figure(&db, "extents_allocated"));
        } else {
            assert!(figure(&db, "merges") > 40, "{}", figure(&db, "merges"));
        }
        let bytes = figure(&db, "space_map_bytes");
        // A hundred groups of 48 bytes each, and 176 more for each group with free extents.
        assert!((4800..40_000).contains(&bytes), "{bytes}");
        let report = db.check().unwrap();
        assert!(report.is_clean(), "{report}");
        db.close().unwrap();
    }
    // Dropping a table reads the groups where it has extents, and all of its pages become free.
    let db = try_open(&disk).unwrap();
    let free = figure(&db, "free_pages");
    db.drop_table("t").unwrap();
    db.drop_table("ballast").unwrap();
    let each = u64::from(extents_per_map(PAGE) - 1) * 16;
    assert!(free + 100 < figure(&db, "free_pages"));
    // All but the extent of the catalog and one that another table may have.
    assert!(figure(&db, "free_pages") >= u64::from(GROUPS) * each - 3 * 16, "{}", figure(&db, "free_pages"));
}

/// Far more threads than frames make pages at once, of long values and of leaves. Each has a pinned
/// page of the map and a frame for the new page, and needs one more: the page before it in its
/// chain, or a page of its descent. (Once they used up all frames, and waited for each other for
/// ever.)
#[test]
fn more_threads_than_frames_make_pages_at_once() {
    const THREADS: u64 = 150;
    const ROWS: u64 = 24;
    let (disk, db, _) = fresh();
    let ballast = db.create_table("ballast").unwrap().entry.tree.id;
    db.close().unwrap();
    drop(db);
    lengthen(&disk, ballast);
    let db = try_open(&disk).unwrap();
    assert!(THREADS > 2 * figure(&db, "buffer_frames"));
    let tables: Vec<_> = (0..THREADS).map(|n| db.create_table(&format!("t{n}")).unwrap()).collect();
    let start = Arc::new(Barrier::new(THREADS as usize));
    let (told, ended) = mpsc::channel();
    for (thread, table) in tables.iter().enumerate() {
        let (db, table, start, told) = (db.clone(), table.clone(), Arc::clone(&start), told.clone());
        std::thread::spawn(move || {
            start.wait();
            for n in 0..ROWS {
                let mut tx = db.begin_with(TxnOptions::new().durability(Durability::None)).unwrap();
                let bytes = if n % 4 == 0 { 20_000 } else { 700 };
                tx.put(&table, &n.to_be_bytes(), &vec![thread as u8; bytes]).unwrap();
                tx.commit().unwrap();
            }
            told.send(()).unwrap();
        });
    }
    for n in 0..THREADS {
        // A thread that waits for ever must not stop the test for ever.
        let hangs = |_| panic!("{n} of {THREADS} threads have ended:\n{}", db.metrics().to_text());
        ended.recv_timeout(Duration::from_secs(120)).unwrap_or_else(hangs);
    }
    assert!(figure(&db, "free_frame_waits") > 0);
    for (thread, table) in tables.iter().enumerate() {
        let found = rows(&db.begin().unwrap(), table);
        assert_eq!(found.len() as u64, ROWS);
        assert!(found.values().all(|value| value.iter().all(|byte| *byte == thread as u8)));
    }
    let report = db.check().unwrap();
    assert!(report.is_clean(), "{report}");
    db.close().unwrap();
}
