//! Images of pages: the form in which pages stand in files. An image is the page with its checksum,
//! CRC32C of bytes 4.., in bytes 0..4.

use crate::page::{Damage, ensure, header, verify};
use base::codec::fixed::{get_u32, set_u32};
use base::crc::crc32c;
use base::{Lsn, PageNo};

const CRC: usize = 0;
/// The checksum covers all from here on, so also the page number.
const COVERED: usize = CRC + 4;

/// Makes an image of a page: sets the checksum. This is the last step before it goes to a file.
/// Returns the page LSN.
pub(crate) fn set_checksum(page: &mut [u8], no: PageNo) -> Lsn {
    base::check!(header::page_no(page) == no, "{no:?} names {:?}", header::page_no(page));
    let crc = crc32c(&page[COVERED..]);
    set_u32(page, CRC, crc);
    header::lsn(page)
}

/// Makes a page of an image again: checks checksum, page number, format, kind and flags. After an
/// error only its header can be read.
pub(crate) fn check_image(image: &mut [u8], no: PageNo) -> Result<(), Damage> {
    ensure!(image.len() > header::HEADER_BYTES, "a page is shorter than its header");
    ensure!(get_u32(image, CRC) == crc32c(&image[COVERED..]), "the page's checksum does not match");
    ensure!(header::page_no(image) == no, "another page's image stands here");
    header::check_format(image)
}

/// As [`check_image`], for the image of whichever page. Returns the page's number and LSN.
pub(crate) fn check_any_image(image: &mut [u8]) -> Result<(PageNo, Lsn), Damage> {
    let no = header::page_no(image);
    check_image(image, no).map(|()| (no, header::lsn(image)))
}

/// As [`check_image`], and also checks what makes reading the page safe.
pub(crate) fn accept(image: &mut [u8], no: PageNo) -> Result<(), Damage> {
    check_image(image, no).and_then(|()| verify::quick(image))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_accepted_and_any_flipped_bit_is_found() {
        let mut page = vec![0u8; 4096];
        header::init_file(&mut page, b"a page of the test");
        header::set_page_no(&mut page, PageNo(7));
        header::set_lsn(&mut page, Lsn(1234));
        assert_eq!(set_checksum(&mut page, PageNo(7)), Lsn(1234));
        let with_bit = |bit: usize| {
            let mut image = page.clone();
            image[bit / 8] ^= 1 << (bit % 8);
            image
        };
        assert_eq!(accept(&mut page.clone(), PageNo(7)), Ok(()));
        assert_eq!(check_any_image(&mut page.clone()), Ok((PageNo(7), Lsn(1234))));
        assert!(check_image(&mut page.clone(), PageNo(8)).is_err());
        for bit in (0..4096 * 8).step_by(997) {
            assert!(check_image(&mut with_bit(bit), PageNo(7)).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_blank_page_is_no_image() {
        assert!(header::is_blank(&[0; 4096]));
        assert!(check_image(&mut [0; 4096], PageNo(0)).is_err());
    }
}
