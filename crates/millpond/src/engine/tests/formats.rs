//! Files of an older or a newer format. Each kind of file is refused with a sentence that says what
//! to do, and nothing is changed.

use crate::checkpoint::root::{FORMAT, SLOT_BYTES};
use crate::db::Db;
use crate::error::{Error, Result};
use crate::options::Options;
use base::codec::fixed::{set_u16, set_u32};
use base::crc::crc32c;
use std::path::Path;
use vfs::mem::MemDisk;
use vfs::{Create, Disk, OpenMode};

const DIR: &str = "/db";

fn options() -> Options {
    super::options()
}

fn open(disk: &MemDisk) -> Result<Db> {
    Db::open_on(&disk.vfs(2), Path::new(DIR), &options())
}

/// Makes a database that was killed with an open transaction, so it has an undo file.
fn killed() -> MemDisk {
    let disk = MemDisk::default();
    let db = open(&disk).unwrap();
    let table = db.create_table("t").unwrap();
    let mut tx = db.begin().unwrap();
    tx.put(&table, b"key", b"value").unwrap();
    db.checkpoint().unwrap();
    let left = disk.fork();
    drop(tx);
    left
}

#[test]
fn each_kind_of_file_is_refused_in_another_format() {
    // The places of the file's headers, and the offset of the checksum, which covers the bytes
    // before it. A root has two slots.
    let kinds: [(&str, &[usize], usize); 8] = [
        ("root", &[0, SLOT_BYTES], SLOT_BYTES - 4),
        ("LOCK", &[0], 24),
        ("redo/LOCK", &[0], 24),
        ("undo/LOCK", &[0], 24),
        ("doublewrite/LOCK", &[0], 24),
        ("redo/0000000000000000.log", &[0], 40),
        ("doublewrite/areas", &[0], 32),
        ("undo/00000001", &[0], 4092),
    ];
    let disk = killed();
    open(&disk.fork()).unwrap().close().unwrap();
    for (name, heads, crc_at) in kinds {
        let reads = if name == "root" { FORMAT } else { 1 };
        for format in [reads - 1, reads + 1] {
            let mut wanted = format!(
                "has format {format}; this program reads format {reads}: open it with the release that wrote it"
            );
            if format < reads {
                wanted.push_str(" and copy its rows into a new database");
            }
            let image = disk.fork();
            let path = Path::new(DIR).join(name);
            let mode = OpenMode { create: Create::Never, direct: true, read_only: false };
            let file = image.open(&path, mode).unwrap();
            for &head in heads {
                let mut bytes = vec![0; 4096];
                file.read_at(&mut bytes, head as u64).unwrap();
                set_u16(&mut bytes, 8, format);
                let crc = crc32c(&bytes[..crc_at]);
                set_u32(&mut bytes, crc_at, crc);
                file.write_at(&bytes, head as u64).unwrap();
            }
            let before = image.op_count();
            let error = open(&image).map(drop).expect_err(name);
            assert!(matches!(&error, Error::Foreign { file, .. } if *file == path), "{name}: {error}");
            let text = error.to_string();
            assert!(text.ends_with(&wanted) && !text.contains('\n'), "{name}: {text}");
            let pages =
                |disk: &MemDisk| disk.open(&Path::new(DIR).join("pages"), mode).unwrap().len().unwrap();
            assert!(
                pages(&image) == pages(&disk) && image.op_count() - before < 24,
                "{name}: something was done"
            );
        }
    }
}
