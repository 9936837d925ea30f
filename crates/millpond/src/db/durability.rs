//! [`Durability`]: what must be on disk when a commit returns.

/// What is durable when a commit returns. With each choice, transactions are atomic and isolated,
/// and they become durable in the order of their commits: a crash never loses an earlier commit and
/// keeps a later one.
///
/// ```
/// # let name = format!("millpond-doc-durability-{}", std::process::id());
/// # let dir = std::env::temp_dir().join(name);
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
    /// The commit is on disk when the call returns. It survives the end of the process, and a power
    /// cut if [`Db::is_durable`](crate::Db::is_durable). The default.
    ///
    /// A database [in memory](crate::Db::open_in_memory) accepts it, but makes nothing durable;
    /// [`Receipt::durable`](crate::Receipt::durable) is false then.
    #[default]
    Sync,
    /// The commit survives the end of the process, however it ends, when the call returns. It is
    /// copied into the page cache of the system, without waiting for the device. A power cut, or a
    /// system that stops, loses as much as with [`Durability::Bounded`].
    ///
    /// If the page cache refuses the copy (a full disk), commits are synced instead. A database [in
    /// memory](crate::Db::open_in_memory) does not outlive its process.
    Written {
        /// The age of the oldest commit that is not on disk is at most this, milliseconds.
        ms: u64,
        /// At most this many bytes of redo are not on disk.
        bytes: u64,
    },
    /// The commit is on disk soon. A power cut or a killed process loses at most the commits of the
    /// last `ms` milliseconds and of the last `bytes` bytes of redo. A commit waits while more than
    /// that is not durable. Closing or dropping the database loses nothing.
    Bounded {
        /// The age of the oldest commit that is not durable is at most this, milliseconds.
        ms: u64,
        /// At most this many bytes of redo are not durable.
        bytes: u64,
    },
    /// Nothing is guaranteed when the call returns. The commit becomes durable when the log is
    /// written for another reason: another transaction's commit, about 1 MiB of redo that has
    /// gathered, or about one second in which nothing was to be purged.
    None,
}
