//! The thread that writes the metrics to the flight recorder.

use super::disk_space::DiskSpace;
use super::figures::Figures;
use super::roster::Pause;
use crate::recorder::Recorder;
use base::sync::Mutex;
use std::sync::Arc;

/// The flight recorder, and what it records.
pub(super) struct Recording {
    recorder: Mutex<Recorder>,
    figures: Arc<Figures>,
    disk: Arc<DiskSpace>,
}

impl Recording {
    pub(super) fn new(recorder: Recorder, figures: &Arc<Figures>, disk: &Arc<DiskSpace>) -> Recording {
        Recording { recorder: Mutex::new(recorder), figures: Arc::clone(figures), disk: Arc::clone(disk) }
    }

    /// Takes a sample of the metrics if one is due.
    pub(super) fn step(&self) -> Pause {
        Pause::us(self.recorder.lock().step(self.disk.has_spare(), || self.figures.read()))
    }

    /// Takes the last sample: what the last second was like, that of closing included.
    pub(super) fn take_last_sample(&self) {
        drop(self.recorder.lock().sample(self.disk.has_spare(), || self.figures.read()));
    }
}
