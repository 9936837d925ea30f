//! What programs get to see of files and directories is what they see elsewhere. Without root and
//! /dev/fuse there is nothing to test, and each test says so.

use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

mod place;

use place::{KIND, Place, writable};

fn code<T: std::fmt::Debug>(answer: io::Result<T>) -> Option<i32> {
    answer.unwrap_err().raw_os_error()
}

#[test]
fn a_directory_is_listed_whole_while_its_files_are_removed() {
    let Some(place) = Place::new("list") else { return };
    let mounted = place.mount(KIND);
    let dir = place.at().join("dir");
    fs::create_dir(&dir).unwrap();
    for n in 0..3_000 {
        File::create(dir.join(format!("file {n}"))).unwrap();
    }
    let mut seen = 0;
    for entry in fs::read_dir(&dir).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
        seen += 1;
    }
    assert_eq!(seen, 3_000);
    fs::remove_dir(&dir).unwrap();
    mounted.finish(0).unwrap();
}

#[test]
fn links_are_counted_for_files_and_not_for_directories() {
    let Some(place) = Place::new("links") else { return };
    let mounted = place.mount(KIND);
    let (path, other) = (place.at().join("file"), place.at().join("other"));
    let removed = writable().open(&path).unwrap();
    assert_eq!(removed.metadata().unwrap().nlink(), 1);
    fs::remove_file(&path).unwrap();
    assert_eq!(removed.metadata().unwrap().nlink(), 0);
    let replaced = writable().open(&path).unwrap();
    fs::write(&other, "other").unwrap();
    fs::rename(&other, &path).unwrap();
    assert_eq!(replaced.metadata().unwrap().nlink(), 0);
    assert_eq!(fs::metadata(&path).unwrap().nlink(), 1);
    // Two would say that there is no directory in it.
    fs::create_dir_all(place.at().join("outer/inner")).unwrap();
    assert_eq!(fs::metadata(place.at().join("outer")).unwrap().nlink(), 1);
    drop((removed, replaced));
    mounted.finish(0).unwrap();
}

#[test]
fn a_name_is_up_to_255_bytes_of_any_kind() {
    let Some(place) = Place::new("bytes") else { return };
    let mounted = place.mount(KIND);
    let (at, most) = (place.at(), "n".repeat(255));
    let too_long = at.join(format!("{most}n"));
    fs::write(at.join(&most), "text").unwrap();
    assert_eq!(code(File::create(&too_long)), Some(36));
    assert_eq!(code(fs::create_dir(&too_long)), Some(36));
    assert_eq!(code(fs::rename(at.join(&most), &too_long)), Some(36));
    assert_eq!(code(fs::metadata(&too_long)), Some(36));
    let odd = OsStr::from_bytes(b"no text: \xff\xfe");
    fs::write(at.join(odd), "odd").unwrap();
    mounted.finish(0).unwrap();
    let mounted = place.mount(KIND);
    assert_eq!(fs::read_to_string(at.join(odd)).unwrap(), "odd");
    assert_eq!(fs::read_to_string(at.join(&most)).unwrap(), "text");
    mounted.finish(0).unwrap();
}

#[test]
fn a_rename_replaces_unless_it_must_not_and_exchanges_nothing() {
    let Some(place) = Place::new("flags") else { return };
    let mounted = place.mount(KIND);
    let (one, two) = (place.at().join("one"), place.at().join("two"));
    let rename = |flags| renameat_with(CWD, &one, CWD, &two, flags).map_err(rustix::io::Errno::raw_os_error);
    fs::write(&one, "1").unwrap();
    fs::write(&two, "2").unwrap();
    assert_eq!(rename(RenameFlags::NOREPLACE), Err(17));
    assert_eq!(rename(RenameFlags::EXCHANGE), Err(22));
    assert_eq!(rename(RenameFlags::WHITEOUT), Err(22));
    assert_eq!(rename(RenameFlags::empty()), Ok(()));
    assert_eq!(fs::read_to_string(&two).unwrap(), "1");
    fs::create_dir(&one).unwrap();
    assert_eq!(rename(RenameFlags::empty()), Err(20));
    // The backing directory has a directory of this name for itself.
    let taken = place.at().join(".without-a-name");
    assert_eq!(code(fs::rename(&two, &taken)), Some(17));
    assert_eq!(code(File::create(&taken)), Some(17));
    mounted.finish(0).unwrap();
    assert_eq!(fs::read_to_string(place.backing().join("two")).unwrap(), "1");
}

#[test]
fn appends_go_to_the_end_and_a_file_that_is_cut_off_has_zeros_behind() {
    let Some(place) = Place::new("append") else { return };
    let mounted = place.mount(KIND);
    let path = place.at().join("file");
    let append = || OpenOptions::new().append(true).create(true).open(&path).unwrap();
    let (mut one, mut two) = (append(), append());
    for n in 0..5 {
        one.write_all(&[b'1'; 3_000]).unwrap();
        two.write_all(&[b'2'; 3_000]).unwrap();
        assert_eq!(one.metadata().unwrap().len(), 6_000 * (n + 1));
    }
    one.set_len(1_000).unwrap();
    one.sync_all().unwrap();
    one.set_len(9_000).unwrap();
    two.write_all(b"end").unwrap();
    let bytes = fs::read(&path).unwrap();
    assert!(bytes[..1_000].iter().all(|&byte| byte == b'1'));
    assert!(bytes[1_000..9_000].iter().all(|&byte| byte == 0));
    assert_eq!(&bytes[9_000..], b"end");
    let mut short = OpenOptions::new().write(true).truncate(true).open(&path).unwrap();
    assert_eq!(short.metadata().unwrap().len(), 0);
    short.write_all(b"x").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"x");
    drop((one, two, short));
    mounted.finish(0).unwrap();
}

#[test]
fn what_is_made_in_a_directory_of_a_group_is_of_that_group() {
    let Some(place) = Place::new("group") else { return };
    let mounted = place.mount(KIND);
    let dir = place.at().join("dir");
    fs::create_dir(&dir).unwrap();
    chown(&dir, None, Some(12)).unwrap();
    fs::set_permissions(&dir, Permissions::from_mode(0o2770)).unwrap();
    fs::write(dir.join("file"), "text").unwrap();
    fs::create_dir(dir.join("inner")).unwrap();
    fs::write(dir.join("inner/file"), "text").unwrap();
    for name in ["file", "inner", "inner/file"] {
        assert_eq!(fs::metadata(dir.join(name)).unwrap().gid(), 12, "{name}");
    }
    assert_eq!(fs::metadata(dir.join("inner")).unwrap().mode() & 0o2000, 0o2000);
    mounted.finish(0).unwrap();
    assert_eq!(fs::metadata(place.backing().join("dir/inner/file")).unwrap().gid(), 12);
}
