//! What others may see of the transactions that run.

use super::system::Txns;
use base::TxnId;
use std::collections::BTreeMap;

impl Txns {
    /// Returns the xids of the prepared transactions.
    pub(crate) fn prepared_ids(&self) -> BTreeMap<TxnId, Vec<u8>> {
        self.prepared.by_txn(|_claimed| true)
    }

    /// Returns how many bytes of undo a transaction has.
    pub(crate) fn undo_bytes_of(&self, txn: TxnId) -> u64 {
        self.streams.get(txn).map_or(0, |stream| stream.end())
    }
}
