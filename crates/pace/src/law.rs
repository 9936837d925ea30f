//! A law of flow control: when dirty pages are written, and what happens to writers (Fl8).
//! [`Millpond`] is the one that databases have. Others implement [`FlowLaw`] to be compared with it
//! on the same engine.

use crate::age_limits::AgeLimits;
use crate::free_frames::free_frame_reserve;
use crate::governor::{CleanerPlan, CleanerSample, Governor};
use std::fmt::Debug;

/// Which dirty pages are written with a page that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbours {
    /// Those that follow each other on either side of it.
    Adjacent,
    /// None.
    Off,
    /// Those that follow each other around it in its area of the file.
    InArea,
    /// All in its area of the file.
    WholeArea,
}

/// What a law decides.
pub trait FlowLaw: Debug + Send + Sync {
    /// Says what is wrong with the settings of the law, if something is.
    fn problem(&self) -> Option<String> {
        None
    }

    /// Returns what plans the steps of the cleaner, before its first one.
    fn planner(&self) -> Box<dyn Planner>;

    /// Returns the limits of the checkpoint age for a log of `log_bytes`, from Millpond's.
    fn limits(&self, own: AgeLimits, log_bytes: u64) -> AgeLimits;

    /// Returns how many frames are kept free.
    fn free_frames(&self, threads: u64, frames: u64) -> u64;

    /// Returns which pages are written with a page.
    fn neighbours(&self) -> Neighbours;

    /// Whether page writes come in rounds: then the checkpoint moves between two of them, and the
    /// log is as long as its capacity allows, also if a shorter one would do.
    fn has_rounds(&self) -> bool;
}

/// Plans the steps of the cleaner.
pub trait Planner: Send {
    /// Plans one step. `hard_now` is the checkpoint age at which writers stop now: the log may have
    /// fewer files than it is allowed. `is_writing`: pages that were ordered before are not written
    /// yet.
    fn plan(&mut self, sample: CleanerSample<'_>, hard_now: u64, is_writing: bool) -> CleanerPlan;
}

/// Millpond's law: nothing to set, and writers are slowed smoothly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Millpond;

impl FlowLaw for Millpond {
    fn planner(&self) -> Box<dyn Planner> {
        Box::new(Governor::new())
    }

    fn limits(&self, own: AgeLimits, _: u64) -> AgeLimits {
        own
    }

    fn free_frames(&self, threads: u64, frames: u64) -> u64 {
        free_frame_reserve(threads, frames).high
    }

    fn neighbours(&self) -> Neighbours {
        Neighbours::Adjacent
    }

    fn has_rounds(&self) -> bool {
        false
    }
}

impl Planner for Governor {
    fn plan(&mut self, sample: CleanerSample<'_>, _: u64, _: bool) -> CleanerPlan {
        self.step(&sample)
    }
}
