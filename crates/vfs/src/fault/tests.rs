//! Tests of each fault.

use super::*;
use crate::mem::MemDisk;

const NEW: OpenMode = OpenMode { create: Create::New, direct: true, read_only: false };

fn disk() -> (FaultDisk, Arc<dyn File>) {
    let disk = FaultDisk::new(Arc::new(MemDisk::default()));
    let file = disk.open(Path::new("f"), NEW).unwrap();
    file.write_at(&[1; 2048], 0).unwrap();
    file.sync().unwrap();
    (disk, file)
}

fn bytes(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

fn rule(kind: OpKind, nth: u64, for_ever: bool, fault: Fault) -> FaultRule {
    FaultRule { kind, nth, for_ever, fault }
}

#[test]
fn the_nth_operation_fails_once_or_for_ever() {
    let (disk, file) = disk();
    disk.fail(rule(OpKind::Write, 2, false, Fault::Refused(ErrorKind::Other)));
    let answers: Vec<_> = (0..4).map(|_| file.write_at(&[2; 512], 0).is_ok()).collect();
    assert_eq!(answers, [true, false, true, true]);
    disk.heal();
    disk.fail(rule(OpKind::Sync, 2, true, Fault::Refused(ErrorKind::Other)));
    let answers: Vec<_> = (0..4).map(|_| file.sync().is_ok()).collect();
    assert_eq!(answers, [true, false, false, false]);
    assert_eq!(disk.failures().len(), 4);
    assert_eq!(disk.retried().len(), 4, "a second try after a failure is recorded");
}

#[test]
fn a_rule_for_a_path_counts_and_fails_only_its_files() {
    let (disk, file) = disk();
    let other = disk.open(Path::new("other"), NEW).unwrap();
    disk.fail_on("oth", rule(OpKind::Write, 2, true, Fault::Refused(ErrorKind::Other)));
    let answers: Vec<_> =
        (0..3).map(|_| (file.write_at(&[2; 512], 0).is_ok(), other.write_at(&[2; 512], 0).is_ok())).collect();
    assert_eq!(answers, [(true, true), (true, false), (true, false)]);
    disk.heal();
    other.write_at(&[2; 512], 0).unwrap();
}

#[test]
fn a_dropping_sync_restores_bytes_and_length_and_the_next_sync_succeeds() {
    let (disk, file) = disk();
    file.write_at(&[2; 1024], 512).unwrap();
    file.write_at(&[3; 512], 512).unwrap();
    file.write_at(&[4; 2048], 2048).unwrap();
    disk.fail(rule(OpKind::Sync, 1, false, Fault::Dropped));
    assert!(file.sync().is_err());
    assert_eq!(bytes(&*file), [1; 2048]);
    file.sync().unwrap();
    assert_eq!(bytes(&*file), [1; 2048]);
}

#[test]
fn a_spoiled_sector_is_unreadable_until_it_is_written() {
    let (disk, file) = disk();
    disk.spoil("f", 600);
    let mut bytes = [0; 512];
    assert!(file.read_at(&mut bytes, 512).is_err() && file.read_at(&mut [0; 2048], 0).is_err());
    file.read_at(&mut bytes, 0).unwrap();
    file.read_at(&mut bytes, 1024).unwrap();
    file.write_at(&[7; 512], 512).unwrap();
    file.read_at(&mut bytes, 512).unwrap();
    assert_eq!(bytes, [7; 512]);
}

#[test]
fn a_torn_write_leaves_its_first_half() {
    let (disk, file) = disk();
    disk.fail(rule(OpKind::Write, 1, false, Fault::Torn));
    assert!(file.write_at(&[2; 2048], 0).is_err());
    assert_eq!(bytes(&*file), [[2; 1024], [1; 1024]].concat());
}

#[test]
fn a_full_disk_refuses_only_growth_and_goes_on_when_there_is_space() {
    let (disk, file) = disk();
    disk.limit_space("", 1024);
    file.write_at(&[2; 2048], 0).unwrap();
    let error = file.write_at(&[3; 2048], 2048).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert_eq!(file.len().unwrap(), 3072, "the part that fits is written");
    assert_eq!(file.set_len(4096).unwrap_err().kind(), ErrorKind::StorageFull);
    disk.heal();
    file.write_at(&[3; 2048], 2048).unwrap();
    assert_eq!(bytes(&*file), [[2; 2048], [3; 2048]].concat());
}

#[test]
fn bytes_that_cannot_be_read_can_be_written() {
    let (disk, file) = disk();
    disk.refuse_reads("f", 512..600);
    let mut half = [0; 512];
    file.read_at(&mut half, 0).unwrap();
    assert!(file.read_at(&mut half, 100).is_err() && file.read_at(&mut half, 599).is_err());
    file.read_at(&mut half, 600).unwrap();
    file.write_at(&[2; 512], 512).unwrap();
    disk.heal();
    file.read_at(&mut half, 512).unwrap();
    assert_eq!(half, [2; 512]);
}
