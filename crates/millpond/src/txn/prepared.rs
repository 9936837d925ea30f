//! The list of prepared transactions by xid, and who may decide each of them.

use crate::error::{Error, Result};
use crate::lock::{Owner, Using};
use crate::undo::Stream;
use base::TxnId;
use base::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A prepared transaction.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) owner: Arc<Owner>,
    pub(super) stream: Option<Arc<Stream>>,
    /// A thread is deciding it, or the session that has prepared it will.
    pub(super) claimed: bool,
    /// The tables that it uses without a lock, when its session has left it.
    pub(super) tables: Vec<Using>,
}

/// All prepared transactions.
#[derive(Debug)]
pub(super) struct PreparedList {
    by_xid: Mutex<BTreeMap<Vec<u8>, Prepared>>,
}

impl PreparedList {
    /// The prepared transactions that recovery has found.
    pub(super) fn recovered(found: impl Iterator<Item = (Vec<u8>, Prepared)>) -> PreparedList {
        PreparedList { by_xid: Mutex::new(found.collect()) }
    }

    /// Adds the transaction that `prepare` returns. No other thread has the list meanwhile. Fails
    /// if the xid is in the list.
    pub(super) fn add(&self, xid: &[u8], prepare: impl FnOnce() -> Prepared) -> Result {
        let mut prepared = self.by_xid.lock();
        if prepared.contains_key(xid) {
            return Err(Error::Misuse("a prepared transaction has that xid already".into()));
        }
        prepared.insert(xid.to_vec(), prepare());
        Ok(())
    }

    /// Lets any thread decide a transaction that a session has held. It goes on to use `tables`.
    pub(super) fn leave(&self, xid: &[u8], tables: Vec<Using>) {
        if let Some(found) = self.by_xid.lock().get_mut(xid) {
            base::check!(found.claimed, "{} is left, and no session holds it", found.owner.txn());
            found.claimed = false;
            found.owner.hide();
            found.tables = tables;
        }
    }

    /// Gives the caller alone the right to end a prepared transaction. The transaction stays in the
    /// list, so that a checkpoint meanwhile still finds its xid.
    pub(super) fn claim(&self, xid: &[u8]) -> Result<Prepared> {
        let mut prepared = self.by_xid.lock();
        match prepared.get_mut(xid).filter(|p| !p.claimed) {
            Some(found) => {
                found.claimed = true;
                Ok(Prepared {
                    owner: Arc::clone(&found.owner),
                    stream: found.stream.clone(),
                    claimed: true,
                    tables: std::mem::take(&mut found.tables),
                })
            }
            None => Err(Error::Misuse("no prepared transaction has that xid".into())),
        }
    }

    /// Removes a transaction that is decided. REQUIRES: the caller has claimed it, or holds it.
    pub(super) fn remove(&self, xid: &[u8]) {
        let removed = self.by_xid.lock().remove(xid);
        base::check!(
            removed.is_some_and(|prepared| prepared.claimed),
            "a prepared transaction is decided by a thread that has not claimed it"
        );
    }

    /// Returns the xids of all transactions, sorted.
    pub(super) fn xids(&self) -> Vec<Vec<u8>> {
        self.by_xid.lock().keys().cloned().collect()
    }

    /// Returns the xids by transaction, of those transactions for which `wanted` holds. It is told
    /// whether they are claimed.
    pub(super) fn by_txn(&self, wanted: impl Fn(bool) -> bool) -> BTreeMap<TxnId, Vec<u8>> {
        let prepared = self.by_xid.lock();
        let wanted = prepared.iter().filter(|(_, p)| wanted(p.claimed));
        wanted.map(|(xid, p)| (p.owner.txn(), xid.clone())).collect()
    }

    /// Returns the owners of the locks and the undo of all transactions.
    pub(super) fn owners(&self) -> Vec<(Arc<Owner>, Option<Arc<Stream>>)> {
        self.by_xid.lock().values().map(|p| (Arc::clone(&p.owner), p.stream.clone())).collect()
    }
}
