//! Blocks of samples of a server, each written to a directory as `collect` does.

use super::proof::{BLOCKS, BlockOf};
use super::settling;
use crate::advise::look::{Progress, sample_until, wait};
use crate::collect::{CONFIGURATION, Head, STATS, Sink, Writer, configuration, next_second};
use crate::sources::{self, Sample, Source};
use output::failure::{Failure, Outcome};
use output::samples::Samples;
use output::stop;
use output::units::show_date;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

/// Watches a server in blocks.
pub(super) struct Blocks<'b> {
    pub(super) source: &'b mut dyn Source,
    pub(super) dir: &'b Path,
    /// The length of a block, seconds.
    pub(super) block_s: u64,
    /// How long the server was up when it was asked last, seconds.
    uptime: Option<f64>,
    done: Vec<BlockOf>,
}

impl<'b> Blocks<'b> {
    pub(super) fn new(source: &'b mut dyn Source, dir: &'b Path, block_s: u64) -> Blocks<'b> {
        Blocks { source, dir, block_s, uptime: None, done: Vec::new() }
    }

    /// Returns the blocks that were watched.
    pub(super) fn done(&self) -> Vec<BlockOf> {
        self.done.clone()
    }

    /// Watches the next block.
    pub(super) fn watch(&mut self) -> Outcome<Samples> {
        let name = BLOCKS[self.done.len().min(BLOCKS.len() - 1)];
        let mut writer = self.writer(name)?;
        wait(next_second(sources::now_us()));
        let began = show_date(sources::now_us());
        let block_s = self.block_s;
        let progress = Progress::new(&format!("block {name}"), Duration::from_secs(block_s));
        let uptime = &mut self.uptime;
        let samples = sample_until(self.source, &mut |sample, samples| {
            still_up(uptime, sample)?;
            writer.sample(sample.unix_us, None, sample.values.clone())?;
            progress.show(samples.end());
            stop::check()?;
            Ok(samples.seconds.len() as u64 > block_s)
        })?;
        self.done.push(BlockOf { name, began, samples: samples.seconds.len() });
        Ok(samples)
    }

    /// Waits until the server has settled after a change.
    pub(super) fn settle(&mut self) -> Outcome {
        let block_s = self.block_s;
        let progress = Progress::new("settling", Duration::from_secs(settling::least_s(block_s)));
        let uptime = &mut self.uptime;
        let settled = sample_until(self.source, &mut |sample, samples| {
            still_up(uptime, sample)?;
            progress.show(samples.end());
            stop::check()?;
            Ok(settling::is_settled(samples, block_s))
        });
        settled.map(drop)
    }

    /// Begins the file of a block, and writes the settings beside it.
    fn writer(&self, name: &str) -> Outcome<Writer> {
        let dir = self.dir.join(name);
        let cannot = |e: std::io::Error| Failure::failed(format!("cannot write {}: {e}", dir.display()));
        fs::create_dir(&dir).map_err(cannot)?;
        let about = self.source.about();
        fs::write(dir.join(CONFIGURATION), configuration(&about.configuration)).map_err(cannot)?;
        let path = dir.join(STATS);
        Writer::begin(File::create_new(&path).map_err(cannot)?, &path, &Head::new(about))
    }
}

/// Fails if the server was restarted: it has lost what was set.
fn still_up(uptime: &mut Option<f64>, sample: &Sample) -> Outcome {
    let now = sample.get("uptime_seconds");
    if uptime.zip(now).is_some_and(|(before, now)| now < before) {
        return Err(Failure::failed("the server was restarted during the experiment"));
    }
    *uptime = now;
    Ok(())
}
