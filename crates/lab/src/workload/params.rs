//! The parameters that all workloads share, and the seeds that follow from them.

use super::distribution::Distribution;
use super::tpcc::TpccSetup;
use base::prng::Prng;
use millpond::{Durability, Isolation, TxnOptions};

/// The settings of every transaction of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TxnSettings {
    /// When a commit returns.
    pub(crate) durability: Durability,
    /// The isolation level.
    pub(crate) isolation: Isolation,
}

impl TxnSettings {
    /// Returns the options of a transaction that writes.
    pub(crate) fn writing(self) -> TxnOptions {
        TxnOptions::new().durability(self.durability).isolation(self.isolation)
    }

    /// Returns the options of a transaction that only reads.
    pub(crate) fn reading(self) -> TxnOptions {
        self.writing().read_only(true)
    }
}

/// The parameters that all workloads share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkloadParams {
    /// How many tables.
    pub(crate) tables: u32,
    /// Rows in each after the load.
    pub(crate) rows: u32,
    /// How rows are chosen.
    pub(crate) distribution: Distribution,
    /// The seed of the run. The random numbers of each thread follow from it.
    pub(crate) seed: u64,
    /// The settings of the transactions.
    pub(crate) begin: TxnSettings,
    /// What `tpcc` is asked for.
    pub(crate) tpcc: TpccSetup,
}

impl WorkloadParams {
    /// Returns the number of a random table, from 1.
    pub(crate) fn pick_table(&self, rng: &mut Prng) -> u32 {
        1 + rng.below(u64::from(self.tables)) as u32
    }

    /// Returns the parameters for a directory that other runs have used, whose log ends at `lsn`.
    /// They have another seed: a run that writes the values of the last run again changes nothing,
    /// and its redo is half as long.
    pub(crate) fn after(self, lsn: u64) -> WorkloadParams {
        WorkloadParams { seed: Prng::new(self.seed ^ lsn).next_u64(), ..self }
    }
}

/// Returns a seed that is different for every thread and run.
pub(crate) fn thread_seed(seed: u64, thread: u32) -> u64 {
    seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (u64::from(thread) << 32)
}
