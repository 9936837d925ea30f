//! What follows from the measurements for a database server.

use super::durable_writes::DurableWriteResult;
use super::flush_cost::FlushCost;
use super::transfers::{Direction, Order, TransferResult};
use output::units::show_count;
use serde::Serialize;

/// The threads of the second line.
const THREADS: u32 = 16;
/// The size of the pages of InnoDB, bytes.
const PAGE_BYTES: usize = 16 << 10;

/// The most that a server can have here.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Consequences {
    /// Durable commits a second of one thread: each is one write and its sync, which take as long
    /// as the median of the fastest way to do it.
    pub(super) commits_1_thread: f64,
    /// The same of 16 threads if each sync carries a commit of each (group commit).
    pub(super) commits_16_threads: f64,
    /// The same if each commit has a sync of its own.
    pub(super) commits_16_threads_without_groups: f64,
    /// Random reads of 16 KiB a second.
    pub(super) random_reads: f64,
    /// Random writes of 16 KiB a second.
    pub(super) random_writes: f64,
}

impl Consequences {
    /// Finds them in what was measured.
    pub(super) fn of(
        writes: &[DurableWriteResult],
        cost: Option<&FlushCost>,
        transfers: &[TransferResult],
    ) -> Consequences {
        let syncs = |threads: u32| {
            let of_them = writes.iter().filter(move |one| one.write.threads == threads);
            of_them.filter_map(|one| one.rates)
        };
        // By medians: what else the machine does makes some syncs slow, and this is a limit.
        let medians = syncs(1).map(|rates| rates.p50_us);
        let direct = cost.into_iter().flat_map(|cost| [cost.flushed_p50_us, cost.dsync_p50_us]);
        let commits_1_thread = most(medians.chain(direct).map(|us| 1e6 / us.max(1e-3)));
        let commits_16_threads_without_groups = most(syncs(THREADS).map(|rates| rates.per_second));
        let in_groups = commits_1_thread * f64::from(THREADS);
        let random = |direction: Direction| {
            let of_them = transfers.iter().filter(move |one| {
                let transfer = one.transfer;
                transfer.direction == direction
                    && transfer.order == Order::Random
                    && transfer.block_bytes == PAGE_BYTES
            });
            most(of_them.map(|one| one.rates.per_second))
        };
        Consequences {
            commits_1_thread,
            commits_16_threads: in_groups.max(commits_16_threads_without_groups),
            commits_16_threads_without_groups,
            random_reads: random(Direction::Read),
            random_writes: random(Direction::Write),
        }
    }

    /// Returns them in sentences, each with its label.
    pub(super) fn lines(&self, memory: bool) -> Vec<(&'static str, String)> {
        let n = |value: f64| show_count(rounded(value));
        let durable = if memory { "that are not durable (memory)" } else { "that are durable" };
        let least = n(self.random_reads.min(self.random_writes));
        let capacity = format!(": innodb_io_capacity may be {least} at most");
        let capacity = if memory { " (memory)" } else { &capacity };
        vec![
            (
                "one thread",
                format!(
                    "at most {} commits a second {durable}; {} if two logs are synced for each \
                     (sync_binlog=1)",
                    n(self.commits_1_thread),
                    n(rounded(self.commits_1_thread) / 2.0)
                ),
            ),
            (
                "16 threads",
                format!(
                    "at most {} if each sync carries all 16 (group commit); {} if each commit has its own",
                    n(self.commits_16_threads),
                    n(self.commits_16_threads_without_groups)
                ),
            ),
            (
                "pages, 16K",
                format!(
                    "at most {} random reads and {} random writes a second{capacity}",
                    n(self.random_reads),
                    n(self.random_writes)
                ),
            ),
        ]
    }
}

fn most(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
}

/// Rounds to two digits: more would pretend that the next run measures the same.
fn rounded(value: f64) -> f64 {
    if value < 10.0 {
        return value.round();
    }
    let unit = 10f64.powi(value.log10().floor() as i32 - 1);
    (value / unit).round() * unit
}

#[cfg(test)]
mod tests {
    use super::super::durable_writes::{Call, DurableWrite, Files, Place};
    use super::super::latencies::Rates;
    use super::super::transfers::Transfer;
    use super::*;

    fn rates(per_second: f64) -> Rates {
        Rates { per_second, p50_us: 1e6 / per_second, p99_us: 2e6 / per_second }
    }

    fn durable(threads: u32, per_second: Option<f64>) -> DurableWriteResult {
        let write =
            DurableWrite { place: Place::Overwrite, call: Call::Fdatasync, threads, files: Files::Own };
        DurableWriteResult { write, rates: per_second.map(rates) }
    }

    fn transfer(order: Order, direction: Direction, block_bytes: usize, per_second: f64) -> TransferResult {
        let transfer = Transfer { order, direction, block_bytes, in_flight: 64 };
        TransferResult { transfer, rates: rates(per_second), mb_per_second: 0.0 }
    }

    #[test]
    fn the_best_way_to_sync_is_the_limit_of_a_thread_and_groups_that_of_many() {
        let writes = [durable(1, Some(700.0)), durable(1, Some(1000.0)), durable(1, None)];
        let writes = [&writes[..], &[durable(16, Some(3000.0)), durable(8, Some(9999.0))]].concat();
        let transfers = [
            transfer(Order::Random, Direction::Read, 16 << 10, 5000.0),
            transfer(Order::Random, Direction::Read, 16 << 10, 20_000.0),
            transfer(Order::Random, Direction::Read, 4 << 10, 50_000.0),
            transfer(Order::Sequential, Direction::Write, 16 << 10, 60_000.0),
            transfer(Order::Random, Direction::Write, 16 << 10, 12_000.0),
        ];
        let found = Consequences::of(&writes, None, &transfers);
        let expected = Consequences {
            commits_1_thread: 1000.0,
            commits_16_threads: 16_000.0,
            commits_16_threads_without_groups: 3000.0,
            random_reads: 20_000.0,
            random_writes: 12_000.0,
        };
        assert_eq!(found, expected);
        let cost = FlushCost {
            write_us: 90.0,
            flush_us: 100.0,
            dsync_write_us: 300.0,
            flushed_p50_us: 400.0,
            dsync_p50_us: 500.0,
        };
        assert_eq!(Consequences::of(&writes, Some(&cost), &transfers).commits_1_thread, 2500.0);
        let lines = found.lines(false);
        assert_eq!(
            lines[2].1,
            "at most 20 000 random reads and 12 000 random writes a second: innodb_io_capacity may be \
             12 000 at most"
        );
        assert!(lines[0].1.contains("1 000 commits a second that are durable; 500"), "{lines:?}");
    }

    #[test]
    fn figures_of_consequences_have_two_digits() {
        for (value, shown) in [(0.0, 0.0), (7.4, 7.0), (1234.0, 1200.0), (98_765.0, 99_000.0)] {
            assert_eq!(rounded(value), shown);
        }
    }
}
