//! The table of a run of `millpond disk`.

use super::durable_writes::{Call, DurableWriteResult, Files, IN_PARALLEL, Place, THREADS};
use super::latencies::Rates;
use super::result::DiskResult;
use super::short::{short_micros, short_rate};
use super::transfers::{BLOCKS, Direction, IN_FLIGHT, Order, TransferResult};
use crate::result::TableLines;
use output::units::show_size;
use std::fmt::Write;

/// Columns of a cell: a rate, the median, and the 99th percentile.
const CELL: usize = 18;

/// Returns the table.
pub(crate) fn table(result: &DiskResult) -> String {
    let mut out = facts(result).text();
    out.push_str(&transfers(&result.transfers));
    out.push_str(&alone(&result.durable_writes));
    out.push_str(&in_parallel(&result.durable_writes));
    out.push('\n');
    out.push_str(&conclusions(result).text());
    out
}

fn facts(result: &DiskResult) -> TableLines {
    let mut lines = TableLines::default();
    let machine: Vec<String> = result
        .machine
        .iter()
        .map(|(name, fact)| match *name {
            "kernel" => fact.clone(),
            name => format!("{name} {fact}"),
        })
        .collect();
    lines.line("machine", machine.join("; "));
    lines.line("file system", result.disk.file_system_line());
    lines.line("device", result.disk.device_line());
    let conditions = &result.conditions;
    let how = match (conditions.direct_io, result.disk.memory) {
        (true, _) => "with direct I/O",
        (false, true) => "in memory: there is no device to read or to write",
        (false, false) => "buffered, because this file system refuses direct I/O: each write is synced",
    };
    let (seconds, size) = (conditions.seconds_each, show_size(conditions.file_bytes as f64));
    lines.line("measured", format!("{seconds} s each, in a file of {size}, {how}"));
    if let Some(disturbed) = conditions.others.sentence() {
        lines.line("disturbed", disturbed);
    }
    lines
}

/// Returns a rate, the median and the 99th percentile of the time.
fn cell(rates: Option<&Rates>) -> String {
    let Some(rates) = rates else { return format!("{:>6} {:<11}", "-", "") };
    let times = format!("{}/{}", short_micros(rates.p50_us), short_micros(rates.p99_us));
    format!("{:>6} {times:<11}", short_rate(rates.per_second))
}

fn transfers(all: &[TransferResult]) -> String {
    let mut out = String::from("\nreads and writes: how many a second, and the time of one, p50/p99\n");
    let depths: String = IN_FLIGHT.map(|n| format!(" {n:>6} {:<11}", "in flight")).concat();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{:<16}{depths} {:>6}", "", "MB/s");
    for direction in [Direction::Read, Direction::Write] {
        for order in [Order::Random, Order::Sequential] {
            for block in BLOCKS {
                let row: Vec<&TransferResult> = all
                    .iter()
                    .filter(|one| {
                        let transfer = one.transfer;
                        (transfer.direction, transfer.order, transfer.block_bytes)
                            == (direction, order, block)
                    })
                    .collect();
                let cells: String = row.iter().map(|one| format!(" {}", cell(Some(&one.rates)))).collect();
                let most = row.iter().map(|one| one.mb_per_second).fold(0.0, f64::max);
                let _ = writeln!(out, "{:<16}{cells} {most:>6.0}", label(direction, order, block));
            }
        }
    }
    out
}

fn label(direction: Direction, order: Order, block_bytes: usize) -> String {
    let order = if order == Order::Random { "random" } else { "seq." };
    let direction = if direction == Direction::Read { "read" } else { "write" };
    let size = if block_bytes < 1 << 20 {
        format!("{}K", block_bytes >> 10)
    } else {
        format!("{}M", block_bytes >> 20)
    };
    format!("{order:<6} {direction:<5} {size:>3}")
}

fn found(all: &[DurableWriteResult], place: Place, call: Call, threads: u32, files: Files) -> Option<&Rates> {
    let wanted = (place, call, threads, files);
    let one = all.iter().find(|one| {
        let write = one.write;
        (write.place, write.call, write.threads, write.files) == wanted
    })?;
    one.rates.as_ref()
}

fn alone(all: &[DurableWriteResult]) -> String {
    let mut out = String::from("\na write and its sync, one thread\n");
    let _ = writeln!(out, "{:<38} {:<CELL$}  fdatasync", "", " fsync");
    for (place, what) in [
        (Place::Append, "append 128 bytes"),
        (Place::Overwrite, "overwrite 4K of a zero-written file"),
        (Place::Fallocated, "write 4K where fallocate made space"),
        (Place::Grow, "append 4K"),
    ] {
        let cell = |call| cell(found(all, place, call, 1, Files::Own));
        let _ = writeln!(out, "{what:<38} {} {}", cell(Call::Fsync), cell(Call::Fdatasync).trim_end());
    }
    out
}

fn in_parallel(all: &[DurableWriteResult]) -> String {
    let mut out = String::from("\nthe same in parallel: all threads together\n");
    let pair = 2 * CELL + 1;
    let _ = writeln!(out, "{:<10} {:<pair$}  append 128 bytes, fsync", "", " overwrite 4K, fdatasync");
    let (own, one) = (" own files", " one file");
    let _ = writeln!(out, "{:<10} {own:<CELL$} {one:<CELL$} {own:<CELL$} {one}", "");
    for threads in THREADS {
        let cells = IN_PARALLEL.map(|(place, call)| {
            [Files::Own, Files::Shared]
                .map(|files| format!(" {}", cell(found(all, place, call, threads, files))))
        });
        let cells = cells.concat().concat();
        let _ = writeln!(out, "{:<10}{}", format!("{threads:>2} threads"), cells.trim_end());
    }
    out
}

fn conclusions(result: &DiskResult) -> TableLines {
    let mut lines = TableLines::default();
    if let Some(cost) = &result.flush {
        let (write, flush) = (short_micros(cost.write_us), short_micros(cost.flush_us));
        let dsync = short_micros(cost.dsync_write_us);
        lines.line(
            "flush",
            format!(
                "a direct write of 4K {write}, fdatasync after it {flush}, a write with O_DSYNC {dsync} (fastest tenth)"
            ),
        );
    }
    lines.line("cache", result.cache.sentence.clone());
    for (label, text) in result.consequences.lines(result.disk.memory) {
        lines.line(label, text);
    }
    lines
}

#[cfg(test)]
mod tests;
