//! What every other Millpond crate uses: identifiers, byte codecs, checksums, aligned memory, a
//! seeded random generator, striping and sharding, giving memory back to the system, and the one
//! module through which every wait and wake goes. Nothing here opens a file or reads a clock.

pub mod aligned;
pub mod aligned_vec;
pub mod assertions;
pub mod by_hash;
pub mod by_txn;
pub mod codec;
pub mod crc;
pub mod ids;
pub mod key_order;
pub mod memory;
pub mod prefetch;
pub mod prng;
pub mod schedule;
pub mod sharded;
pub mod striped;
pub mod sync;

pub use by_hash::{ByHash, Spread};
pub use by_txn::ByTxn;
pub use ids::{Lsn, PageNo, TreeId, TxnId};
pub use sharded::Sharded;
pub use striped::{CachePadded, Striped, StripedArc};
