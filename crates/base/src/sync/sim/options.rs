//! [`WorldOptions`]: the seed of a world, and its limits.

/// The options of a world.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// Decides every choice of the world.
    pub seed: u64,
    /// With more scheduling points than this the world fails with [`super::Failure::StepLimit`].
    pub max_steps: u64,
    /// After so many seconds of real time without a scheduling point the world fails with
    /// [`super::Failure::Hung`].
    pub hung_after_seconds: u64,
    /// The result of [`super::cores`]; with 0 the seed decides, 1 to 4.
    pub cores: u32,
    /// The result of [`super::world_flags`].
    pub flags: u128,
    /// In one world of so many, as the seed decides, atomics are scheduling points.
    pub atomics_one_in: u64,
    /// Whether the message of a panic has a backtrace.
    pub backtrace: bool,
}

impl WorldOptions {
    /// Returns the usual options for a seed.
    #[must_use]
    pub fn new(seed: u64) -> WorldOptions {
        WorldOptions {
            seed,
            max_steps: 20_000_000,
            hung_after_seconds: 60,
            cores: 0,
            flags: 0,
            atomics_one_in: 4,
            backtrace: false,
        }
    }
}
