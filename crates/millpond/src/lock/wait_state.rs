//! The states of a wait: the word that the waiting thread sleeps on.

pub(super) const WAITING: u32 = 1;
pub(super) const GRANTED: u32 = 2;
pub(super) const DEADLOCK: u32 = 3;
pub(super) const STOPPED: u32 = 4;
pub(super) const WITHDRAWN: u32 = 5;
/// Nothing was granted, and the transaction continues: a scan no longer lets writers pass first.
pub(super) const PASSED: u32 = 6;
pub(super) const CANCELLED: u32 = 7;
