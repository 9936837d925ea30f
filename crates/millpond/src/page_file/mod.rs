//! The door to pages in files. Here alone a page number becomes an offset in the `pages` file, and
//! here alone the checksum of an image is made and checked.
//!
//! [`PageFile`] has the file to itself: it reads one page or many, writes runs, syncs, grows and
//! gives space back. All others name pages. What stands in the file is an *image*: [`set_checksum`]
//! makes one of a page, in place, and [`accept`] or [`check_image`] makes a page of it again.
//! Between the two only the header of an image is as it is in memory. The areas of the doublewrite
//! hold images too; they have a file of their own.
//!
//! The compiler keeps it so: the file and the place of the checksum are private here, and without
//! the file an offset is of no use. So another form of images, compressed or encrypted, is a change
//! of this module.

mod failed_write;
mod file;
mod image;
mod read_images;

pub(crate) use file::PageFile;
pub(crate) use image::{accept, check_any_image, check_image, set_checksum};
pub(crate) use read_images::read_images;
