//! Fuzz target for the content of the log: blocks, groups, records, page changes and undo entries.

use crate::checkpoint::root::{Root, SLOT_BYTES};
use crate::log::block::BlockHeader;
use crate::log::group::{self, GROUP_HEADER_BYTES, Record, Records};
use crate::page::op::PageOp;
use crate::page::verify;
use crate::undo::record;
use base::Lsn;

/// Decodes the bytes as a block header, a group, a root slot, an undo record, and as the records of
/// a group whose checksum held. The page changes among those are applied to a page one after the
/// other, as replay does.
pub fn fuzz_log_record(data: &[u8]) {
    let _ = BlockHeader::decode(data);
    if let Some(head) = data.first_chunk::<GROUP_HEADER_BYTES>()
        && let Some(len) = group::claimed_len(head)
        && len <= data.len()
    {
        let _ = group::verify(&data[..len], Lsn(1), 1);
    }
    if data.len() >= SLOT_BYTES {
        let _ = Root::decode(&data[..SLOT_BYTES]);
    }
    let _ = record::UndoRecord::decode(0, data);
    let mut page = vec![0; 4096];
    for found in Records::new(data) {
        let Ok(found) = found else { break };
        match found {
            Record::Page { op, .. } => {
                let Ok(op) = PageOp::decode(op) else { break };
                if op.is_init() || verify::quick(&page).is_ok() {
                    match op.apply(&mut page) {
                        Ok(()) => assert_eq!(verify::quick(&page), Ok(())),
                        Err(_) => break,
                    }
                }
                let mut encoded = Vec::new();
                op.encode(&mut encoded);
                assert_eq!(PageOp::decode(&encoded).as_ref(), Ok(&op));
            }
            Record::Undo { at, entry, .. } => {
                let _ = record::UndoRecord::decode(at, entry);
            }
            _ => {}
        }
    }
}
