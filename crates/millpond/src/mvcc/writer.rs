//! Which transactions may write: ids are not endless.

use crate::error::{Error, Result};
use base::TxnId;

/// Transaction ids have 48 bits. From this id on no transaction may begin to write. About 10^12 ids
/// are left for transactions that only lock what they read.
pub(crate) const LAST_WRITER: TxnId = TxnId((1 << 48) - (1 << 40));

/// An error if the transaction may not begin to write.
pub(crate) fn check_writer(txn: TxnId) -> Result {
    if txn < LAST_WRITER {
        return Ok(());
    }
    let what = "281 million million transactions have written, as many as there are ids for";
    Err(Error::Limit { what: what.into() })
}
