//! The head of `ib_logfile0`: its format, where its ring begins, and the last checkpoint. Pure.

use base::crc::crc32c;

/// The head: three blocks of 4,096 bytes.
pub(super) const HEAD_BYTES: usize = 12_288;
/// Where the two checkpoints are; they are written in turns.
const CHECKPOINTS: [usize; 2] = [4096, 8192];

/// MariaDB 10.8 and later.
const FORMAT_10_8: u32 = 0x5068_7973;
/// MariaDB 10.5 to 10.7.
const FORMAT_10_5: u32 = 0x5048_5953;
/// The bit of an encrypted log; the newer encrypted format has it too.
const ENCRYPTED: u32 = 1 << 31;

/// What the head says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The LSN of the first byte behind the head, when the file was made.
    pub(super) first_lsn: u64,
    /// What wrote the file: `MariaDB 10.11.19`.
    pub(super) creator: String,
    /// The LSN of the last checkpoint, if there is a whole one.
    pub(super) checkpoint: Option<u64>,
}

impl Head {
    /// Reads the head. An error is why this log is not read.
    pub(super) fn read(bytes: &[u8]) -> Result<Head, String> {
        let Some(first) = bytes.get(..512) else {
            return Err("it has not even a head: the server makes a new log when it starts".into());
        };
        let creator = String::from_utf8_lossy(&first[16..48]);
        let creator = creator.trim_end_matches('\0').escape_debug().to_string();
        let format = number4(first, 0);
        if let Some(why) = refused(format, &creator) {
            return Err(why);
        }
        if crc32c(&first[..508]) != number4(first, 508) {
            return Err("the checksum of its head is wrong: the head is damaged, or is being written".into());
        }
        let first_lsn = number8(first, 8);
        if first_lsn < HEAD_BYTES as u64 {
            return Err(format!("its first LSN {first_lsn} is none: the head is damaged"));
        }
        // Since 10.8 an encrypted log says so here, and since 10.11 in its format.
        if number4(first, 48) != 0 {
            return Err(encrypted());
        }
        let checkpoints =
            CHECKPOINTS.iter().filter_map(|at| checkpoint(bytes.get(*at..*at + 64)?, first_lsn));
        Ok(Head { first_lsn, creator, checkpoint: checkpoints.max() })
    }
}

/// Returns the LSN of a checkpoint, if the block is whole.
fn checkpoint(block: &[u8], first_lsn: u64) -> Option<u64> {
    let (lsn, end) = (number8(block, 0), number8(block, 8));
    let whole = crc32c(&block[..60]) == number4(block, 60);
    (whole && lsn >= first_lsn && end >= lsn).then_some(lsn)
}

/// Returns why a format is not read.
fn refused(format: u32, creator: &str) -> Option<String> {
    let by = if creator.is_empty() { String::new() } else { format!(" (written by {creator:?})") };
    Some(match format {
        FORMAT_10_8 => return None,
        _ if format & ENCRYPTED != 0 => encrypted(),
        FORMAT_10_5 => format!(
            "it has the format of MariaDB 10.5 to 10.7{by}, in blocks of 512 bytes; \
             this command reads that of 10.8 and later"
        ),
        1 | 103 | 104 if creator.starts_with("MariaDB") => format!(
            "it has the format of MariaDB 10.4 or earlier{by}, with logical records; \
             this command reads that of 10.8 and later"
        ),
        1..=6 => format!(
            "it has MySQL's format {format}{by}, in blocks of 512 bytes with logical records, \
             whose lengths follow from the indexes; this command reads that of MariaDB 10.8 and later"
        ),
        0 => "it has no format that has a number: it is empty, or of a very old version".into(),
        _ => format!("it has the unknown format {format:#x}{by}; this command reads that of MariaDB 10.8"),
    })
}

fn encrypted() -> String {
    "it is encrypted (innodb_encrypt_log), and this command has no keys".into()
}

fn number4(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_be_bytes)
}

fn number8(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_be_bytes)
}

/// Where the bytes of the log are in a file of a given size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    pub(super) first_lsn: u64,
    /// Bytes of the file behind its head; at least 1.
    pub(super) capacity: u64,
}

impl Ring {
    /// Returns the ring of a file; `None` if it has no byte of log.
    pub(super) fn new(first_lsn: u64, file_bytes: u64) -> Option<Ring> {
        let capacity = file_bytes.checked_sub(HEAD_BYTES as u64).filter(|bytes| *bytes > 0)?;
        Some(Ring { first_lsn, capacity })
    }

    /// Returns the byte that ends a mini-transaction whose end is at `lsn`: 1 in the first lap, 0
    /// in the second, and so on.
    pub(super) fn lap_at(&self, lsn: u64) -> u8 {
        u8::from((lsn.saturating_sub(self.first_lsn) / self.capacity).is_multiple_of(2))
    }

    /// Returns where `bytes` bytes from `lsn` are in the file: offsets and lengths. Behind the end
    /// of the file the ring goes on behind the head.
    pub(super) fn pieces(&self, lsn: u64, bytes: usize) -> Vec<(u64, usize)> {
        let mut at = lsn.saturating_sub(self.first_lsn) % self.capacity;
        let mut left = (bytes as u64).min(self.capacity);
        let mut pieces = Vec::new();
        while left > 0 {
            let piece = left.min(self.capacity - at);
            pieces.push((HEAD_BYTES as u64 + at, piece as usize));
            (at, left) = (0, left - piece);
        }
        pieces
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns the head of a file, with a checkpoint in each place.
    pub(crate) fn head(format: u32, creator: &str, first_lsn: u64, checkpoints: [u64; 2]) -> Vec<u8> {
        let mut bytes = vec![0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&format.to_be_bytes());
        bytes[8..16].copy_from_slice(&first_lsn.to_be_bytes());
        bytes[16..16 + creator.len()].copy_from_slice(creator.as_bytes());
        let sum = crc32c(&bytes[..508]);
        bytes[508..512].copy_from_slice(&sum.to_be_bytes());
        for (at, lsn) in CHECKPOINTS.into_iter().zip(checkpoints) {
            bytes[at..at + 8].copy_from_slice(&lsn.to_be_bytes());
            bytes[at + 8..at + 16].copy_from_slice(&lsn.to_be_bytes());
            let sum = crc32c(&bytes[at..at + 60]);
            bytes[at + 60..at + 64].copy_from_slice(&sum.to_be_bytes());
        }
        bytes
    }

    #[test]
    fn the_newer_whole_checkpoint_counts() {
        let mut bytes = head(FORMAT_10_8, "MariaDB 10.11.19", 44_760, [50_000, 60_000]);
        let read = Head::read(&bytes).unwrap();
        assert_eq!((read.first_lsn, read.checkpoint), (44_760, Some(60_000)));
        assert_eq!(read.creator, "MariaDB 10.11.19");
        bytes[8192 + 7] ^= 1;
        assert_eq!(Head::read(&bytes).unwrap().checkpoint, Some(50_000), "the other one is torn");
        bytes[4096 + 60] ^= 1;
        assert_eq!(Head::read(&bytes).unwrap().checkpoint, None);
        bytes[9] ^= 1;
        assert!(Head::read(&bytes).unwrap_err().contains("checksum"));
    }

    #[test]
    fn other_formats_are_refused_by_name() {
        for (format, creator, words) in [
            (0x5048_5953, "MariaDB 10.6.18", "10.5 to 10.7"),
            (0xd048_5953, "MariaDB 10.6.18", "encrypted"),
            (0xd068_7973, "MariaDB 10.8.1", "encrypted"),
            (0xf09f_979d, "MariaDB 10.11.6", "encrypted"),
            (104, "MariaDB 10.4.34", "10.4 or earlier"),
            (1, "MySQL 5.7.44", "MySQL's format 1"),
            (6, "MySQL 8.0.36", "MySQL's format 6"),
            (0, "", "no format"),
            (77, "x\n", "unknown format 0x4d"),
        ] {
            let why = Head::read(&head(format, creator, 44_760, [0, 0])).unwrap_err();
            assert!(why.contains(words) && !why.contains('\n'), "{why}");
        }
        assert!(Head::read(&[0; 100]).unwrap_err().contains("head"));
        let mut with_key = head(FORMAT_10_8, "MariaDB 10.9.2", 44_760, [0, 0]);
        with_key[51] = 1;
        let sum = crc32c(&with_key[..508]);
        with_key[508..512].copy_from_slice(&sum.to_be_bytes());
        assert!(Head::read(&with_key).unwrap_err().contains("encrypted"));
    }

    #[test]
    fn the_ring_goes_on_behind_the_head() {
        let ring = Ring::new(44_760, HEAD_BYTES as u64 + 1000).unwrap();
        assert_eq!(ring.pieces(44_760, 10), [(12_288, 10)]);
        assert_eq!(ring.pieces(45_755, 10), [(13_283, 5), (12_288, 5)]);
        assert_eq!(ring.pieces(45_755, 5000), [(13_283, 5), (12_288, 995)], "no byte twice");
        assert_eq!([44_760, 45_759, 45_760, 46_760].map(|lsn| ring.lap_at(lsn)), [1, 1, 0, 1]);
        assert_eq!(Ring::new(44_760, HEAD_BYTES as u64), None);
    }
}
