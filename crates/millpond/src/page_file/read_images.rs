//! Reads many images of pages from a file, many at a time.

use base::aligned::AlignedBuf;
use std::io;
use vfs::{File, ReadOp};

/// Images that are read at once.
const TOGETHER: usize = 64;

/// Reads an image at each offset and calls `each` with the offset's index, in order.
pub(crate) fn read_images<E>(
    file: &dyn File,
    offsets: &[u64],
    page_bytes: usize,
    mut each: impl FnMut(usize, io::Result<&mut [u8]>) -> Result<(), E>,
) -> Result<(), E> {
    let mut images = AlignedBuf::zeroed(offsets.len().clamp(1, TOGETHER) * page_bytes);
    for (n, part) in offsets.chunks(TOGETHER).enumerate() {
        let ops = part.iter().zip(images.chunks_exact_mut(page_bytes));
        let mut ops: Vec<_> = ops.map(|(&offset, bytes)| ReadOp { offset, bytes }).collect();
        // A batch reports only that some read failed. Reads one by one show which.
        let together = file.read_batch(&mut ops).is_ok();
        for (at, (&offset, image)) in part.iter().zip(images.chunks_exact_mut(page_bytes)).enumerate() {
            let read = if together { Ok(()) } else { file.read_at(image, offset) };
            each(n * TOGETHER + at, read.map(|()| image))?;
        }
    }
    Ok(())
}
