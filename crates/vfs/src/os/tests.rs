//! Tests of files, names, locks and batches, on the file system of the temporary directory.

use super::*;
use base::aligned::AlignedBuf;
use base::prng::Prng;

struct Dir(std::path::PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("millpond-vfs-{name}-{}", std::process::id()));
        OsDisk::default().create_dir(&dir).unwrap();
        Dir(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const NEW: OpenMode = OpenMode { create: Create::New, direct: true, read_only: false };

#[test]
fn written_bytes_are_read_back_and_a_short_file_is_an_error() {
    let (disk, dir) = (OsDisk::default(), Dir::new("rw"));
    let file = disk.open(&dir.0.join("f"), NEW).unwrap();
    let mut buf = AlignedBuf::zeroed(8192);
    buf.fill(7);
    file.write_at(&buf, 4096).unwrap();
    file.sync().unwrap();
    assert_eq!(file.len().unwrap(), 12288);
    let mut back = AlignedBuf::zeroed(8192);
    file.read_at(&mut back, 4096).unwrap();
    assert_eq!(&buf[..], &back[..]);
    assert_eq!(file.read_at(&mut back, 8192).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    file.punch(4096, 4096).unwrap();
    file.read_at(&mut back, 4096).unwrap();
    assert_eq!(back[4096..], buf[4096..]);
}

#[test]
fn names_links_and_locks() {
    let (disk, dir) = (OsDisk::default(), Dir::new("names"));
    let (a, b, link) = (dir.0.join("a"), dir.0.join("b"), dir.0.join("link"));
    drop(disk.open(&a, NEW).unwrap());
    assert_eq!(disk.open(&a, NEW).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    disk.rename(&a, &b).unwrap();
    disk.sync_dir(&dir.0).unwrap();
    std::os::unix::fs::symlink(&b, &link).unwrap();
    let mode = OpenMode { create: Create::Never, direct: false, read_only: true };
    assert!(disk.open(&link, mode).is_err(), "a symbolic link is not followed");
    assert_eq!(disk.list(&dir.0).unwrap(), ["b", "link"]);
    let held = disk.lock(&dir.0.join("LOCK")).unwrap();
    assert_eq!(disk.lock(&dir.0.join("LOCK")).err().unwrap().kind(), io::ErrorKind::WouldBlock);
    drop(held);
    disk.lock(&dir.0.join("LOCK")).unwrap();
}

/// A directory is renamed, and another one gets its path.
#[test]
fn a_held_directory_is_found_whatever_becomes_of_its_path() {
    let (disk, top) = (OsDisk::default(), Dir::new("held"));
    let (dir, moved) = (top.0.join("dir"), top.0.join("moved"));
    disk.create_dir(&dir).unwrap();
    let held = disk.hold(&dir).unwrap();
    disk.create_dir(&dir.join("inside")).unwrap();
    let held_inside = disk.hold(&dir.join("inside")).unwrap();
    std::fs::rename(&dir, &moved).unwrap();
    std::fs::create_dir_all(dir.join("inside")).unwrap();

    disk.open(&dir.join("a"), NEW).unwrap();
    disk.rename(&dir.join("a"), &dir.join("inside/b")).unwrap();
    disk.open(&dir.join("inside/c"), NEW).unwrap();
    disk.remove(&dir.join("inside/c")).unwrap();
    let lock = disk.lock(&dir.join("LOCK")).unwrap();
    disk.sync_dir(&dir).unwrap();
    assert_eq!(disk.list(&dir).unwrap(), ["LOCK", "inside"]);
    assert_eq!(disk.list(&dir.join("inside/")).unwrap(), ["b"]);
    let as_before = |path: &Path| disk.is_durable(path) == disk.is_durable(&top.0);
    assert!(as_before(&dir) && as_before(&dir.join("inside")));

    // Who holds nothing sees the other directory, and so does this disk in the end.
    assert_eq!(OsDisk::default().list(&dir).unwrap(), ["inside"]);
    assert_eq!(OsDisk::default().list(&moved).unwrap(), ["LOCK", "inside"]);
    drop((lock, held, held_inside));
    assert_eq!(disk.list(&dir).unwrap(), ["inside"]);
    assert!(disk.list(&dir.join("inside")).unwrap().is_empty());
}

const PAGE: usize = 8192;

/// Returns `count` buffers of random bytes, each with an offset of its own in a file of `pages`
/// pages, in random order.
fn pages(rng: &mut Prng, count: usize, pages: u64) -> Vec<(u64, AlignedBuf)> {
    let mut free: Vec<u64> = (0..pages).collect();
    let one = |_| {
        let mut bytes = AlignedBuf::zeroed(PAGE);
        rng.fill(&mut bytes);
        let place = rng.below(free.len() as u64) as usize;
        (free.swap_remove(place) * PAGE as u64, bytes)
    };
    (0..count).map(one).collect()
}

fn write_ops(pages: &[(u64, AlignedBuf)]) -> Vec<WriteOp<'_>> {
    pages.iter().map(|(offset, bytes)| WriteOp { offset: *offset, bytes }).collect()
}

/// Batches with far more operations than a ring has in flight, from several threads at the same
/// time, on a disk with rings (if the system has them) and on one without.
#[test]
fn batches_write_every_byte_to_its_offset() {
    for (name, disk) in [("batch", OsDisk::default()), ("batch1", OsDisk::without_rings())] {
        let dir = Dir::new(name);
        let file = disk.open(&dir.0.join("f"), NEW).unwrap();
        let threads: Vec<_> = (0..3u64)
            .map(|me| {
                let file = if me == 0 {
                    Arc::clone(&file)
                } else {
                    disk.open(&dir.0.join(me.to_string()), NEW).unwrap()
                };
                let work = move || {
                    let mut rng = Prng::new(me);
                    for count in [0, 1, 2, 63, 64, 65, 300] {
                        let written = pages(&mut rng, count, 400);
                        file.write_batch(&write_ops(&written)).unwrap();
                        let mut back: Vec<_> =
                            written.iter().map(|(at, _)| (*at, AlignedBuf::zeroed(PAGE))).collect();
                        let mut ops: Vec<_> =
                            back.iter_mut().map(|(at, bytes)| ReadOp { offset: *at, bytes }).collect();
                        file.read_batch(&mut ops).unwrap();
                        assert!(written.iter().zip(&back).all(|(a, b)| a.1[..] == b.1[..]));
                    }
                };
                base::sync::spawn("batches", work).unwrap()
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
    }
}

/// An error in the middle of a batch names the operation, and the ring can do the next batch.
#[test]
fn a_batch_that_fails_says_where_and_leaves_the_disk_usable() {
    for (name, disk) in [("fail", OsDisk::default()), ("fail1", OsDisk::without_rings())] {
        let dir = Dir::new(name);
        let file = disk.open(&dir.0.join("f"), NEW).unwrap();
        let written = pages(&mut Prng::new(1), 100, 100);
        file.write_batch(&write_ops(&written)).unwrap();
        for _ in 0..20 {
            let mut back: Vec<_> = (0..150u64).map(|n| (n, AlignedBuf::zeroed(PAGE))).collect();
            let mut ops: Vec<_> =
                back.iter_mut().map(|(n, bytes)| ReadOp { offset: *n * PAGE as u64, bytes }).collect();
            let error = file.read_batch(&mut ops).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
            assert!(error.to_string().starts_with("read of 8192 bytes at offset "), "{error}");
            file.read_batch(&mut ops[..100]).unwrap();
        }
        let mode = OpenMode { create: Create::Never, direct: true, read_only: true };
        let read_only = disk.open(&dir.0.join("f"), mode).unwrap();
        let error = read_only.write_batch(&write_ops(&written)).unwrap_err();
        assert!(error.to_string().starts_with("write of 8192 bytes at offset "), "{error}");
    }
}

/// A file ends inside a block. Reading that block is an error, though a part of it exists.
#[test]
fn a_read_beyond_the_end_inside_a_block_is_an_unexpected_eof() {
    for (name, disk) in [("tail", OsDisk::default()), ("tail1", OsDisk::without_rings())] {
        let dir = Dir::new(name);
        let file = disk.open(&dir.0.join("f"), NEW).unwrap();
        file.set_len(2 * PAGE as u64 - 100).unwrap();
        let (mut a, mut b) = (AlignedBuf::zeroed(PAGE), AlignedBuf::zeroed(PAGE));
        let mut ops = [ReadOp { offset: 0, bytes: &mut a }, ReadOp { offset: PAGE as u64, bytes: &mut b }];
        assert_eq!(file.read_batch(&mut ops).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(file.read_at(&mut b, PAGE as u64).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}

/// The rings of a killed process exist until the kernel has finished its writes. Only then may
/// another process get the lock.
#[test]
fn a_ring_holds_the_lock_until_the_ring_is_gone() {
    let dir = Dir::new("ringlock");
    let path = dir.0.join("LOCK");
    let disk = OsDisk::default();
    if disk.batch_io() != BatchIo::Ring {
        return;
    }
    let mode = OpenMode { create: Create::IfMissing, direct: false, read_only: false };
    let lock = Arc::new(open(&HeldDirs::default().at(&path), flags(mode)).unwrap());
    fs::flock(&*lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    let rings = Rings::default();
    rings.add_lock(Arc::clone(&lock));
    let in_use = rings.take().unwrap();
    // The process dies: its descriptors are closed, nothing is unlocked.
    drop(rings);
    drop(lock);
    assert_eq!(disk.lock(&path).err().unwrap().kind(), io::ErrorKind::WouldBlock, "the ring still holds it");
    drop(in_use);
    let mut spins = 1000;
    while disk.lock(&path).is_err() {
        base::sync::spin(&mut spins); // the kernel destroys rings later
    }
}

/// A closed database can be opened at once, although rings that held its lock may still exist.
#[test]
fn a_released_lock_is_free_at_once() {
    let (disk, dir) = (OsDisk::default(), Dir::new("relock"));
    let file = disk.open(&dir.0.join("f"), NEW).unwrap();
    let written = pages(&mut Prng::new(1), 8, 8);
    for _ in 0..50 {
        let held = disk.lock(&dir.0.join("LOCK")).unwrap();
        file.write_batch(&write_ops(&written)).unwrap();
        drop(held);
    }
}

/// Run it with `cargo test --release -p millpond-vfs -- --ignored --nocapture batches_by`. It uses
/// the disk of MILLPOND_BENCH_DIR.
#[test]
#[ignore = "measures the device"]
fn batches_by_rings_threads_and_one_by_one() {
    const FILE_PAGES: u64 = 1 << 17;
    const ROUNDS: usize = 40;
    let dir = std::env::var("MILLPOND_BENCH_DIR").unwrap_or_else(|_| ".".into());
    let path = Path::new(&dir).join(format!("batches-{}", std::process::id()));
    let disks = [
        ("io_uring", OsDisk::default()),
        ("threads", OsDisk::without_rings()),
        ("one by one", OsDisk::default()),
    ];
    println!("io_uring: {:?}", disks[0].1.batch_io());
    let made = disks[0].1.open(&path, NEW).unwrap();
    let mut block = AlignedBuf::zeroed(1 << 20);
    Prng::new(1).fill(&mut block);
    for at in 0..(FILE_PAGES * PAGE as u64) >> 20 {
        made.write_at(&block, at << 20).unwrap();
    }
    made.sync().unwrap();
    let files = disks.map(|(name, disk)| {
        let mode = OpenMode { create: Create::Never, direct: true, read_only: false };
        (name, disk.open(&path, mode).unwrap())
    });
    let clock = OsClock::default();
    let mut rng = Prng::new(2);
    for n in [8, 64, 256] {
        let mut took = [[0u64; 3]; 2];
        for _ in 0..ROUNDS {
            let mut batch = pages(&mut rng, n, FILE_PAGES);
            for (k, (name, file)) in files.iter().enumerate() {
                let start = clock.now_us();
                if *name == "one by one" {
                    write_ops(&batch).iter().for_each(|op| file.write_at(op.bytes, op.offset).unwrap());
                } else {
                    file.write_batch(&write_ops(&batch)).unwrap();
                }
                file.sync().unwrap();
                took[0][k] += clock.now_us() - start;
            }
            for (k, (name, file)) in files.iter().enumerate() {
                let mut ops: Vec<_> =
                    batch.iter_mut().map(|(at, bytes)| ReadOp { offset: *at, bytes }).collect();
                let start = clock.now_us();
                if *name == "one by one" {
                    ops.iter_mut().for_each(|op| file.read_at(op.bytes, op.offset).unwrap());
                } else {
                    file.read_batch(&mut ops).unwrap();
                }
                took[1][k] += clock.now_us() - start;
            }
        }
        for (what, took) in ["write + fdatasync", "read"].iter().zip(took) {
            for (k, (name, _)) in files.iter().enumerate() {
                let us = took[k] as f64 / ROUNDS as f64;
                println!(
                    "{n:4} x 8 KiB random {what:18} {name:11} {us:8.0} us  {:8.0} pages/s",
                    n as f64 * 1e6 / us
                );
            }
        }
    }
    std::fs::remove_file(&path).unwrap();
}

/// A thread that only read was seen to write 4 KiB: the kernel counts the new access time.
#[test]
fn a_read_leaves_the_access_time_alone() {
    let (disk, dir) = (OsDisk::default(), Dir::new("access-time"));
    let path = dir.0.join("f");
    for direct in [true, false] {
        let file = disk.open(&path, OpenMode { create: Create::IfMissing, direct, ..NEW }).unwrap();
        let mut bytes = AlignedBuf::zeroed(4096);
        file.write_at(&bytes, 0).unwrap();
        // Older than the last change, so a read would renew it.
        let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
        std::fs::File::open(&path).unwrap().set_times(std::fs::FileTimes::new().set_accessed(old)).unwrap();
        file.read_at(&mut bytes, 0).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().accessed().unwrap(), old, "direct: {direct}");
    }
}

#[test]
fn what_is_written_through_a_mapping_is_in_the_file() {
    let dir = std::env::temp_dir().join(format!("millpond-os-map-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let path = dir.join("f");
    let mode = OpenMode { create: Create::New, direct: false, read_only: false };
    let file = crate::Vfs::os().disk.open(&path, mode).unwrap();
    file.write_at(&[1; 10_000], 0).unwrap();
    assert!(file.map(0).is_none());
    // On other file systems there is no mapping.
    if let Some(mut mapping) = file.map(10_000) {
        mapping.write(&[2; 5000], 4000);
        drop(file);
        let mut expected = vec![1; 10_000];
        expected[4000..9000].fill(2);
        assert!(std::fs::read(&path).unwrap() == expected);
        mapping.write(&[3], 9_999);
        assert_eq!(std::fs::read(&path).unwrap()[9_999], 3);
        let beyond = std::panic::AssertUnwindSafe(|| mapping.write(&[4; 2], 9_999));
        assert!(std::panic::catch_unwind(beyond).is_err());
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
