//! Fuzz target for a page with a valid checksum: it is refused, or all of it can be read and
//! changed.

use crate::page::node::{Inner, Leaf};
use crate::page::op::PageOp;
use crate::page::overflow::{ChainRef, Overflow};
use crate::page::{PAGE_SIZES, header, map, owners, verify};
use crate::page_file::{check_image, set_checksum};
use base::PageNo;

/// The first byte chooses the page size. The next bytes are the page, padded with zeros. The rest
/// is a list of page changes, each after a byte with its length.
pub fn fuzz_page(data: &[u8]) {
    let Some((&size, data)) = data.split_first() else { return };
    let size = PAGE_SIZES[usize::from(size) % PAGE_SIZES.len()];
    let (image, mut ops) = data.split_at(data.len().min(size));
    let mut page = image.to_vec();
    page.resize(size, 0);
    let _ = check_image(&mut page.clone(), PageNo(1));
    let _ = (header::is_blank(&page), verify::problems(&page));
    if verify::quick(&page).is_err() {
        return;
    }
    read_all(&page);
    while let Some((&len, rest)) = ops.split_first() {
        let (op, rest) = rest.split_at(rest.len().min(usize::from(len)));
        ops = rest;
        let Ok(op) = PageOp::decode(op) else { continue };
        let before = page.clone();
        match op.apply(&mut page) {
            Ok(()) => assert_eq!(verify::quick(&page), Ok(()), "a change broke what the accessors rely on"),
            Err(_) => assert!(before == page, "a change that was refused left something behind"),
        }
        read_all(&page);
    }
    let mut encoded = page.clone();
    set_checksum(&mut encoded, header::page_no(&page));
    assert_eq!(check_image(&mut encoded, header::page_no(&page)), Ok(()));
}

fn read_all(page: &[u8]) {
    match header::kind(page) {
        Some(header::PageKind::Leaf) => {
            let leaf = Leaf::new(page);
            for i in 0..leaf.len() {
                let key = leaf.key(i).to_vec();
                let _ = (leaf.search(&key), leaf.covers(&key), leaf.entry_size(i));
                let _ = ChainRef::decode(leaf.row(i).value);
            }
            let _ = (leaf.low_fence(), leaf.high_fence(), leaf.prefix(), leaf.free_bytes());
        }
        Some(header::PageKind::Inner) => {
            let inner = Inner::new(page);
            for i in 0..inner.len() {
                let key = inner.key(i).to_vec();
                let _ = (inner.child(i), inner.find(&key), inner.find_before(&key));
            }
            let _ = (inner.find(b""), inner.find_before(b""), inner.right(), inner.level());
        }
        Some(header::PageKind::Overflow) => {
            let _ = Overflow::new(page).map(|o| (o.data().len(), o.next(), o.owner(), o.is_head()));
        }
        Some(header::PageKind::Map) => {
            for index in 0..map::extents_per_map(page.len()) as u16 {
                let _ = map::extent(page, index);
            }
        }
        Some(header::PageKind::Owners) => {
            for extent in 0..owners::extents_per_page(page.len()) {
                let _ = owners::of_extent(page, extent);
            }
        }
        Some(header::PageKind::Free | header::PageKind::File) | None => {}
    }
}
