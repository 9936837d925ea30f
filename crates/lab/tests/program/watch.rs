//! The commands of the feature `watch`.

use crate::common::{Scratch, text};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn a_wrong_target_or_flag_is_one_sentence_and_status_2() {
    let scratch = Scratch::new("watch-misuse");
    for (args, word) in [
        ("explain", "VARIABLE"),
        ("explain innodb_io_capacty", "innodb_io_capacity"),
        ("trace-fsync", "PID|TARGET"),
        ("trace-fsync nowhere", "nowhere"),
        ("trace-fsync 4294967295", "4294967295"),
        ("trace-fsync mysql://root@localhost/ --strace", "--strace"),
        ("trace-fsync oracle://root@localhost/", "oracle"),
        ("trace-fsync . --seconds 0", "--seconds"),
        ("top", "TARGET"),
        ("top nowhere --print 80x24", "nowhere"),
        ("top . --print 79x24", "80x24"),
        ("top nowhere", "--print"),
        ("serve", "TARGET"),
        ("serve nowhere --listen 127.0.0.1:0", "nowhere"),
        ("serve . --listen 0.0.0.0:7070", "--network"),
        ("serve . --listen 7070", "127.0.0.1:7070"),
        ("trace-fsync . --step 0", "--step"),
        ("trace-fsync . --json no/such/file.json", "no/such"),
        ("collect x", "--out"),
    ] {
        let complaint = scratch.refused(2, args);
        assert!(complaint.contains(word), "millpond {args} does not name {word:?}: {complaint}");
    }
    assert_eq!(scratch.names(), Vec::<String>::new(), "misuse leaves nothing behind");
}

/// Runs the program where no file gets longer than some blocks of 512 bytes, which stands for a
/// full disk. Returns its one sentence.
fn refused_by_a_full_disk(scratch: &Scratch, blocks: u32, args: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -f {blocks}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_millpond")]);
    command.args(args.split_whitespace()).current_dir(&scratch.0).stdin(Stdio::null());
    let out = command.output().unwrap();
    let complaint = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "millpond {args}: {complaint}");
    assert_eq!(complaint.lines().count(), 1, "millpond {args}: {complaint}");
    complaint
}

#[test]
fn a_full_disk_is_one_sentence_and_no_file_is_cut_off() {
    let scratch = Scratch::new("full-disk");
    let db = millpond::Options::new().buffer_pool_bytes(16 << 20).open(scratch.0.join("db")).unwrap();
    db.create_table("t").unwrap();
    // Its recorder needs two samples to be traced.
    let begun = Instant::now();
    while !scratch.millpond("trace-fsync db --seconds 1").status.success() {
        std::thread::sleep(Duration::from_millis(100));
        assert!(begun.elapsed() < Duration::from_secs(60), "the recorder has no two samples");
    }
    for (blocks, args, file) in [
        (0, "collect db --out collected", "collected/"),
        (0, "plot db --out plots", "plots/"),
        // The plots fit, the page does not.
        (40, "plot db --out plots", "plots/index.html"),
        (0, "trace-fsync db --seconds 1 --json trace.json", "trace.json"),
        (0, "serve db --listen 127.0.0.1:0 --token-file token", "token"),
    ] {
        let complaint = refused_by_a_full_disk(&scratch, blocks, args);
        assert!(complaint.contains(file) && complaint.contains("cannot write"), "{args}: {complaint}");
        let cut = scratch.names().into_iter().filter(|name| name != "db");
        assert_eq!(cut.collect::<Vec<_>>(), Vec::<String>::new(), "{args}");
    }
    db.close().unwrap();
}
