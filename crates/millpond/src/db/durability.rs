//! When a commit may return.

/// What a commit's return promises. Whatever is chosen, transactions are atomic, isolated and become durable in the order of
/// their commits: a crash never keeps a later one and loses an earlier one.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("millpond-doc-durability-{}", std::process::id()));
/// use millpond::{Durability, Options, TxnOptions};
///
/// let db = Options::new().buffer_pool_bytes(16 << 20).open(&dir)?;
/// let clicks = db.create_table("clicks")?;
///
/// // Of clicks the last 200 ms may be lost; the call does not wait for the device.
/// let bounded = TxnOptions::new().durability(Durability::Bounded { ms: 200, bytes: 1 << 20 });
/// let mut tx = db.begin_with(bounded)?;
/// tx.put(&clicks, b"2026-11-21/1", b"")?;
/// tx.commit()?;
///
/// // An order is on disk when the call returns, and with it every click that was committed before.
/// let mut tx = db.begin()?;
/// tx.put(&clicks, b"order", b"")?;
/// assert!(tx.commit()?.durable);
/// # db.close()?;
/// # std::fs::remove_dir_all(&dir).ok();
/// # Ok::<(), millpond::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// The transaction survives a power cut and the death of the process; a power cut only where [`Db::is_durable`](crate::Db::is_durable).
    /// The default. In a database
    /// [in memory](crate::Db::open_in_memory) it is accepted and nothing is durable all the same, as the receipt says.
    #[default]
    Sync,
    /// A power cut, or a process that is killed, loses at most what was committed in the last `ms` milliseconds and in the last
    /// `bytes` bytes of redo: a commit waits while more than that is not durable. A database that is closed or dropped loses
    /// nothing.
    Bounded {
        /// The oldest commit that is not durable is at most this old, milliseconds.
        ms: u64,
        /// At most so many bytes of redo are not durable.
        bytes: u64,
    },
    /// Nothing: it becomes durable when the log is written for another reason, such as another transaction's commit, when
    /// about a mebibyte of redo has gathered, or after about a second in which nothing was to be purged.
    None,
}
