//! Torn pages on real file systems: ext4, XFS and btrfs, each in a file that is mounted through a
//! loop device. A process writes with a small buffer pool, so pages are always on their way to the
//! file. It is cut off: ext4 and XFS are shut down under it, as a power cut would leave them, with
//! what their journals hold; on btrfs the process is killed. Then every page whose write may have
//! been in flight is torn by hand, half of it old bytes. The database opens, restores each of them
//! and has every acknowledged row. Without the doublewrite it names a torn page instead.
//!
//! Mounting needs the right to do so, and each file system its `mkfs`. Without them the tests print
//! a note and pass. XFS is shut down by `xfs_io`, of the package xfsprogs.
//!
//! ```text
//! cargo test -p millpond --test torn_pages -- --nocapture --test-threads=1
//! ```

use millpond::{Db, Doublewrite, Error, Options};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const CHILD: &str = "MILLPOND_TORN_PAGES_CHILD";
const OFF: &str = "MILLPOND_TORN_PAGES_OFF";
const THREADS: u64 = 4;
const ROWS: u64 = 4000;
const PAGE: usize = 8192;
const SECTOR: usize = 512;
/// Where the first copy lies in the doublewrite.
const AREAS_AT: u64 = 4096;

/// A file system in a file, mounted. Both go with the test.
struct FileSystem {
    dir: PathBuf,
}

/// Runs a program. Returns what went wrong.
fn run(program: &str, args: &[&str]) -> Result<(), String> {
    match Command::new(program).args(args).output() {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => Err(format!("{program}: {}", String::from_utf8_lossy(&done.stderr).trim())),
        Err(e) => Err(format!("{program}: {e}")),
    }
}

impl FileSystem {
    fn new(kind: &str, name: &str) -> Option<FileSystem> {
        let dir = std::env::temp_dir().join(format!("millpond-torn-{kind}-{name}-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let it = FileSystem { dir };
        std::fs::create_dir(it.mounted()).unwrap();
        std::fs::File::create(it.image()).unwrap().set_len(512 << 20).unwrap();
        let (image, force) = (it.image(), if kind == "ext4" { "-F" } else { "-f" });
        let made = run(&format!("mkfs.{kind}"), &["-q", force, image.to_str().unwrap()]);
        match made.and_then(|()| it.mount()) {
            Ok(()) => Some(it),
            Err(why) => {
                println!("skipped: no {kind} can be mounted here: {why}");
                None
            }
        }
    }

    fn image(&self) -> PathBuf {
        self.dir.join("image")
    }

    fn mounted(&self) -> PathBuf {
        self.dir.join("mounted")
    }

    fn mount(&self) -> Result<(), String> {
        run("mount", &["-o", "loop", self.image().to_str().unwrap(), self.mounted().to_str().unwrap()])
    }

    /// Ends all writing at once, without what is in the file system's memory. Returns whether it
    /// can be done on this one.
    fn shut_down(&self) -> bool {
        let done = run("xfs_io", &["-x", "-c", "shutdown", self.mounted().to_str().unwrap()]);
        let writes = std::fs::write(self.mounted().join("probe"), b"x").is_ok();
        assert!(done.is_err() || !writes, "a file system that was shut down still writes");
        !writes
    }

    /// As after a restart of the machine: mounted again, with its journal replayed.
    fn restart(&self) {
        // The rings of a process that has ended are destroyed some time later.
        let unmount = || run("umount", &[self.mounted().to_str().unwrap()]);
        let mut tries = 0;
        while let Err(why) = unmount() {
            tries += 1;
            assert!(tries < 600, "{why}");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        self.mount().unwrap();
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        let _ = run("umount", &["--lazy", self.mounted().to_str().unwrap()]);
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn options(off: bool) -> Options {
    let options = Options::new()
        .page_bytes(PAGE)
        .buffer_pool_bytes(2 << 20)
        .redo_capacity_bytes(48 << 20)
        .eager_recovery(off);
    if off { options.doublewrite(Doublewrite::UnsafeOff) } else { options }
}

/// The content of a row after change `n` by its thread.
fn value(n: u64) -> Vec<u8> {
    (0..125).flat_map(|part| (n ^ part).to_le_bytes()).collect()
}

fn key(thread: u64, row: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&row.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key[8..].copy_from_slice(&thread.to_be_bytes());
    key
}

/// The row that change `n` of a thread writes.
fn row_of(n: u64) -> u64 {
    n.wrapping_mul(0x2545_f491_4f6c_dd1d) % ROWS
}

/// The other process: changes rows until it is ended, and prints each change that is durable.
fn write_for_ever(dir: &Path, off: bool) {
    let db = options(off).open(dir).unwrap();
    let table = db.create_table("t").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, table) = (&db, table.clone());
            scope.spawn(move || {
                for n in 0.. {
                    let commit = || {
                        let mut tx = db.begin()?;
                        tx.put(&table, &key(thread, row_of(n)), &value(n))?;
                        tx.commit()
                    };
                    match commit() {
                        Ok(_) => println!("acknowledged {thread} {n}"),
                        // The file system is gone.
                        Err(_) => return,
                    }
                }
            });
        }
    });
}

fn start(dir: &Path, off: bool) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "the_process_that_is_cut_off", "--nocapture"]).env(CHILD, dir);
    if off {
        child.env(OFF, "1");
    }
    child.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn the_process_that_is_cut_off() {
    if let Some(dir) = std::env::var_os(CHILD) {
        write_for_ever(Path::new(&dir), std::env::var_os(OFF).is_some());
    }
}

/// Lets the process write until it has acknowledged `changes`, and cuts it off. Returns the number
/// of acknowledged changes of each thread.
fn cut_off(fs: &FileSystem, mut child: Child, changes: usize) -> [u64; THREADS as usize] {
    let mut acknowledged = [0; THREADS as usize];
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut done = 0;
    for line in lines {
        let Ok(line) = line else { break };
        let mut words = line.rsplit(' ');
        let (n, thread, what) = (words.next(), words.next(), words.next());
        // A line may stand after what the test runner prints.
        if !what.is_some_and(|what| what.ends_with("acknowledged")) {
            continue;
        }
        let (Some(Ok(n)), Some(Ok(thread))) = (n.map(str::parse::<u64>), thread.map(str::parse::<usize>))
        else {
            continue;
        };
        acknowledged[thread] = n + 1;
        done += 1;
        if done == changes && !fs.shut_down() {
            child.kill().unwrap();
        }
        if done == changes {
            // What was printed before it ended counts too.
            let _ = child.kill();
        }
    }
    child.wait().unwrap();
    assert!(done >= changes, "the process ended by itself after {done} changes");
    fs.restart();
    acknowledged
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Returns the checkpoint that the newer root slot names.
fn checkpoint(dir: &Path) -> u64 {
    let root = std::fs::read(dir.join("root")).unwrap();
    let newest = root.chunks_exact(4096).max_by_key(|slot| u64_at(slot, 24)).unwrap();
    u64_at(newest, 32)
}

/// Tears each page of which the doublewrite has a copy from at or above the checkpoint: its write
/// may have been in flight. The second half of its sectors becomes what no version of it holds.
/// Returns how many.
fn tear_all(dir: &Path) -> usize {
    let checkpoint = checkpoint(dir);
    let copies = std::fs::read(dir.join("doublewrite/areas")).unwrap();
    let pages = std::fs::File::options().read(true).write(true).open(dir.join("pages")).unwrap();
    let mut torn = std::collections::BTreeSet::new();
    for copy in copies[AREAS_AT as usize..].chunks_exact(PAGE) {
        let number = u32::from_le_bytes(copy[8..12].try_into().unwrap());
        // A copy that was being written itself protects nothing: its page was not touched.
        let is_whole = base::crc::crc32c(&copy[4..]) == u32::from_le_bytes(copy[..4].try_into().unwrap());
        if is_whole && u64_at(copy, 16) >= checkpoint && torn.insert(number) {
            let half = vec![0xa5; PAGE / 2 / SECTOR * SECTOR];
            pages.write_all_at(&half, u64::from(number) * PAGE as u64 + PAGE as u64 / 2).unwrap();
        }
    }
    pages.sync_all().unwrap();
    torn.len()
}

/// Checks that each row has what its thread wrote last, or the one change that was under way.
fn check_rows(db: &Db, acknowledged: &[u64]) {
    let tx = db.begin().unwrap();
    let table = db.open_table("t").unwrap();
    for (thread, changes) in acknowledged.iter().enumerate() {
        let mut expected = std::collections::BTreeMap::new();
        expected.extend((0..*changes).map(|n| (row_of(n), n)));
        for (row, n) in expected {
            let found = tx.get(&table, &key(thread as u64, row)).unwrap();
            let found = found.unwrap_or_else(|| panic!("row {row} of thread {thread} is gone"));
            // Changes after the last acknowledged one may have become durable too.
            let later = (*changes..*changes + 2000).filter(|n| row_of(*n) == row);
            let fits = std::iter::once(n).chain(later).any(|n| found[..] == value(n)[..]);
            assert!(fits, "row {row} of thread {thread} has neither change {n} nor a later one");
        }
    }
}

fn is_restored_on(kind: &str) {
    let Some(fs) = FileSystem::new(kind, "on") else { return };
    let dir = fs.mounted().join("db");
    let acknowledged = cut_off(&fs, start(&dir, false), 8_000);
    let torn = tear_all(&dir);
    let db = options(false).open(&dir).unwrap();
    check_rows(&db, &acknowledged);
    let restored = db.metrics().get("torn_pages_restored").unwrap();
    println!(
        "{kind}: {} changes acknowledged, {torn} pages torn, {restored} restored",
        acknowledged.iter().sum::<u64>()
    );
    assert!(torn > 0 && restored >= torn as f64, "{torn} pages were torn and {restored} restored");
    db.checkpoint().unwrap();
    let check = db.check().unwrap();
    assert!(check.is_clean(), "{check}");
    db.close().unwrap();
}

#[test]
fn torn_pages_are_restored_on_ext4() {
    is_restored_on("ext4");
}

#[test]
fn torn_pages_are_restored_on_xfs() {
    is_restored_on("xfs");
}

#[test]
fn torn_pages_are_restored_on_btrfs() {
    is_restored_on("btrfs");
}

/// Without copies the same tear is named with its page and its cause, and nothing is shown.
#[test]
fn a_torn_page_without_a_copy_is_named() {
    let Some(fs) = FileSystem::new("ext4", "off") else { return };
    let dir = fs.mounted().join("db");
    cut_off(&fs, start(&dir, true), 5_000);
    let pages = std::fs::File::options().read(true).write(true).open(dir.join("pages")).unwrap();
    let count = pages.metadata().unwrap().len() / PAGE as u64;
    let mut torn = 0;
    for number in 8..count {
        let mut image = vec![0; PAGE];
        pages.read_exact_at(&mut image, number * PAGE as u64).unwrap();
        // A leaf of the table that has redo.
        if image[5] == 2 && u64_at(&image, 16) >= checkpoint(&dir) {
            image[PAGE / 2..].fill(0xa5);
            pages.write_all_at(&image, number * PAGE as u64).unwrap();
            torn += 1;
        }
    }
    drop(pages);
    assert!(torn > 0, "no page has redo");
    match options(true).open(&dir) {
        Err(Error::Corrupt { what, .. }) => {
            println!("{torn} pages torn: {what}");
            assert!(what.contains("may have been torn while the doublewrite was off"), "{what}");
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("{torn} torn pages were not seen"),
    }
}
