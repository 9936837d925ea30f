//! The file system as programs see it, and what a cut leaves of it. Without root and /dev/fuse
//! there is nothing to test, and each test says so.

use cuts::{Moment, Policy, Syncs};
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

mod place;

use place::{KIND, Place, STRICT, writable};

fn sync_dir(dir: &Path) {
    File::open(dir).unwrap().sync_all().unwrap();
}

#[test]
fn what_was_synced_is_there_after_each_cut_and_the_rest_may_be() {
    let Some(place) = Place::new("synced") else { return };
    let (mut kept, mut lost) = (0, 0);
    for seed in 0..20 {
        let mounted = place.mount(KIND);
        let _ = fs::remove_dir_all(place.at().join("dir"));
        fs::create_dir_all(place.at().join("dir")).unwrap();
        let mut file = writable().open(place.at().join("dir/file")).unwrap();
        file.write_all(&[1; 10_000]).unwrap();
        file.sync_data().unwrap();
        file.write_all(&[2; 10_000]).unwrap();
        fs::write(place.at().join("other"), "x").unwrap();
        mounted.cut();
        assert_eq!(file.write_all(&[3; 100]).unwrap_err().raw_os_error(), Some(5));
        assert_eq!(file.sync_all().unwrap_err().raw_os_error(), Some(5));
        assert!(File::create(place.at().join("late")).is_err());
        drop(file);
        let left = mounted.finish(seed).unwrap();
        assert!(left.of_blocks >= 3 && left.blocks <= left.of_blocks, "{left:?}");
        let bytes = fs::read(place.backing().join("dir/file")).unwrap();
        assert!(bytes[..10_000].iter().all(|&byte| byte == 1));
        assert!(bytes[10_000..].iter().all(|&byte| byte == 2 || byte == 0));
        if bytes[10_000..].contains(&2) {
            kept += 1;
        } else {
            lost += 1;
        }
        assert!(!place.backing().join("late").exists());
        fs::read_dir(place.backing()).unwrap().for_each(|entry| {
            assert!(["dir", "other"].map(Into::into).contains(&entry.unwrap().file_name()));
        });
    }
    assert!(kept > 0 && lost > 0, "{kept} and {lost}");
}

#[test]
fn a_cut_comes_after_the_sync_that_was_planned_or_before_it() {
    let Some(place) = Place::new("planned") else { return };
    for (moment, durable) in [(Moment::AfterSync(3), 3), (Moment::BeforeSync(3), 2)] {
        let mounted = place.mount(KIND);
        mounted.plan(moment);
        let path = place.at().join("counted");
        let file = writable().open(&path).unwrap();
        let synced =
            (1..=5u8).take_while(|&n| file.write_all_at(&[n], 0).is_ok() && file.sync_data().is_ok());
        assert_eq!(synced.count(), durable);
        assert!(mounted.wait_for_cut(Duration::from_secs(1)));
        drop(file);
        mounted.finish(1).unwrap();
        let bytes = fs::read(place.backing().join("counted")).unwrap();
        assert!(bytes == [durable as u8] || bytes == [durable as u8 + 1], "{bytes:?}");
        fs::remove_file(place.backing().join("counted")).unwrap();
    }
}

#[test]
fn a_synced_file_has_its_name_or_needs_its_directory_for_it() {
    let Some(place) = Place::new("names") else { return };
    let there = |policy: Policy, with_directory: bool| {
        let mut there = 0;
        for seed in 0..12 {
            let mounted = place.mount(policy);
            let path = place.at().join("new");
            let _ = fs::remove_file(&path);
            sync_dir(&place.at());
            fs::write(&path, "text").unwrap();
            File::open(&path).unwrap().sync_all().unwrap();
            if with_directory {
                sync_dir(&place.at());
            }
            mounted.cut();
            mounted.finish(seed).unwrap();
            let found = fs::read_to_string(place.backing().join("new"));
            assert!(found.as_ref().map_or(true, |text| text == "text"), "{found:?}");
            there += u32::from(found.is_ok());
        }
        there
    };
    assert_eq!(there(KIND, false), 12);
    assert_eq!(there(STRICT, true), 12);
    let weak = there(STRICT, false);
    assert!(weak > 0 && weak < 12, "{weak}");
}

#[test]
fn a_rename_is_as_before_or_done_and_a_removed_file_may_come_back() {
    let Some(place) = Place::new("rename") else { return };
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let mounted = place.mount(KIND);
        for (name, text) in [("old", "old"), ("new", "new"), ("gone", "gone")] {
            fs::write(place.at().join(name), text).unwrap();
            File::open(place.at().join(name)).unwrap().sync_all().unwrap();
        }
        fs::rename(place.at().join("new"), place.at().join("old")).unwrap();
        fs::remove_file(place.at().join("gone")).unwrap();
        assert_eq!(fs::read_to_string(place.at().join("old")).unwrap(), "new");
        mounted.cut();
        mounted.finish(seed).unwrap();
        let read = |name: &str| fs::read_to_string(place.backing().join(name)).ok();
        seen.insert((read("old"), read("new"), read("gone")));
    }
    let some = |text: &str| Some(text.to_owned());
    assert!(seen.contains(&(some("old"), some("new"), some("gone"))));
    assert!(seen.contains(&(some("new"), None, some("gone"))));
    assert!(seen.contains(&(some("new"), None, None)));
    assert_eq!(seen.len(), 3);
}

#[test]
fn a_disk_that_lies_loses_what_was_synced() {
    let Some(place) = Place::new("lies") else { return };
    let lost = (0..10).filter(|&seed| {
        let mounted = place.mount(Policy { syncs: Syncs::Ignored, ..KIND });
        let path = place.at().join("file");
        let _ = fs::remove_file(&path);
        fs::write(&path, "text").unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        mounted.cut();
        mounted.finish(seed).unwrap();
        !fs::read_to_string(place.backing().join("file")).is_ok_and(|text| text == "text")
    });
    assert!(lost.count() > 0);
}

#[test]
fn without_a_cut_all_is_there_and_numbers_stay() {
    let Some(place) = Place::new("whole") else { return };
    let mounted = place.mount(STRICT);
    fs::create_dir_all(place.at().join("a/b")).unwrap();
    fs::write(place.at().join("a/b/c"), "text").unwrap();
    let number = fs::metadata(place.at().join("a/b/c")).unwrap().ino();
    mounted.finish(0).unwrap();
    assert_eq!(fs::read_to_string(place.backing().join("a/b/c")).unwrap(), "text");
    let mounted = place.mount(STRICT);
    assert_eq!(fs::metadata(place.at().join("a/b/c")).unwrap().ino(), number);
    assert_eq!(fs::read_dir(place.at()).unwrap().count(), 1);
    mounted.finish(0).unwrap();
    assert_eq!(fs::read_dir(place.backing()).unwrap().count(), 1);
}

#[test]
fn direct_writes_allocations_and_locks_work() {
    let Some(place) = Place::new("direct") else { return };
    let mounted = place.mount(KIND);
    let path = place.at().join("direct");
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let file = writable().custom_flags(direct).open(&path).unwrap();
    #[repr(align(4096))]
    struct Aligned([u8; 8192]);
    let page = Box::new(Aligned([5; 8192]));
    file.write_all_at(&page.0, 4096).unwrap();
    let mut back = Box::new(Aligned([0; 8192]));
    file.read_exact_at(&mut back.0, 4096).unwrap();
    assert_eq!(back.0, page.0);
    fallocate(&file, FallocateFlags::empty(), 0, 20_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 20_000);
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 4096, 4096).unwrap();
    let mut buffered = File::open(&path).unwrap();
    buffered.seek(SeekFrom::Start(4096)).unwrap();
    let mut bytes = vec![1; 8192];
    buffered.read_exact(&mut bytes).unwrap();
    assert!(bytes[..4096].iter().all(|&byte| byte == 0) && bytes[4096..].iter().all(|&byte| byte == 5));
    flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert!(flock(&buffered, FlockOperation::NonBlockingLockExclusive).is_err());
    drop((file, buffered));
    mounted.finish(0).unwrap();
}
