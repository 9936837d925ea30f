//! A file of the file system as memory that is shared.
#![allow(unsafe_code)]

mod place;

use place::{KIND, Place, writable};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use std::fs;
use std::os::unix::fs::FileExt;

#[test]
fn a_mapping_is_shared_and_durable_when_it_is_synced() {
    let Some(place) = Place::new("mapped") else { return };
    let mounted = place.mount(KIND);
    let path = place.at().join("mapped");
    let file = writable().open(&path).unwrap();
    file.set_len(8192).unwrap();
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses the place; the file has this length to the end of the test.
    let map = unsafe { mmap(std::ptr::null_mut(), 8192, rights, MapFlags::SHARED, &file, 0) }.unwrap();
    // SAFETY: within the mapping, of which there is no reference.
    unsafe { map.cast::<u8>().write(7) };
    let mut byte = [0];
    file.read_exact_at(&mut byte, 0).unwrap();
    assert_eq!(byte, [7]);
    // SAFETY: the mapping of above.
    unsafe { msync(map, 8192, MsyncFlags::SYNC) }.unwrap();
    // SAFETY: as before.
    unsafe { map.cast::<u8>().add(4096).write(9) };
    mounted.cut();
    // SAFETY: nobody uses it any more.
    unsafe { munmap(map, 8192) }.unwrap();
    drop(file);
    mounted.finish(1).unwrap();
    let bytes = fs::read(place.backing().join("mapped")).unwrap();
    assert_eq!((bytes.len(), bytes[0]), (8192, 7));
    assert!([0, 9].contains(&bytes[4096]));
}
