//! The table of an artificial run.

use super::super::consequences::Consequences;
use super::super::flush_cost::FlushCost;
use super::super::result::{Cache, Conditions};
use super::super::tested_dir::TestedDir;
use super::super::verdict::judge;
use super::super::{durable_writes, transfers};
use super::*;
use crate::block_device::BlockDevice;
use crate::others::Others;
use expect_test::expect;

fn rates(per_second: f64) -> Rates {
    Rates { per_second, p50_us: 1e6 / per_second, p99_us: 4e6 / per_second }
}

fn cost() -> FlushCost {
    FlushCost {
        write_us: 25.0,
        flush_us: 900.0,
        dsync_write_us: 850.0,
        flushed_p50_us: 960.0,
        dsync_p50_us: 870.0,
    }
}

fn sample(cost: Option<FlushCost>) -> DiskResult {
    let transfers: Vec<_> = transfers::plan()
        .into_iter()
        .map(|transfer| {
            let per_second = 1e7 * f64::from(transfer.in_flight) / (5000.0 + transfer.block_bytes as f64);
            let mb_per_second = per_second * transfer.block_bytes as f64 / 1e6;
            TransferResult { transfer, rates: rates(per_second), mb_per_second }
        })
        .collect();
    let durable_writes: Vec<_> = durable_writes::plan()
        .into_iter()
        .map(|write| {
            let known = write.place != Place::Fallocated;
            DurableWriteResult { write, rates: known.then(|| rates(800.0 * f64::from(write.threads))) }
        })
        .collect();
    let device = BlockDevice {
        name: "nvme0n1".into(),
        model: Some("Fast 9000".into()),
        rotational: Some(false),
        write_cache: Some("write back".into()),
        fua: Some(true),
        scheduler: Some("none".into()),
    };
    let verdict = judge(false, cost.as_ref(), Some(&device));
    let sentence = verdict.sentence(cost.as_ref(), Some(&device));
    DiskResult {
        version: "1.2.3",
        directory: "/var/lib/db".into(),
        conditions: Conditions {
            seconds_each: 0.5,
            file_bytes: 1 << 30,
            direct_io: cost.is_some(),
            others: Others { processors_percent: 3.0, disk_percent: Some(60.0) },
        },
        machine: [("cores", "8, Some CPU".to_owned()), ("kernel", "Linux 6.18".to_owned())].into(),
        disk: TestedDir {
            file_system: Some("ext4".into()),
            source: Some("/dev/nvme0n1p1".into()),
            mount_options: Some("rw,noatime".into()),
            memory: false,
            device: Some(device),
        },
        consequences: Consequences::of(&durable_writes, cost.as_ref(), &transfers),
        transfers,
        durable_writes,
        flush: cost,
        cache: Cache { verdict, sentence },
    }
}

#[test]
fn the_table_of_a_run() {
    let cost = cost();
    let table = table(&sample(Some(cost)));
    expect![[r#"
        machine         cores 8, Some CPU; Linux 6.18
        file system     ext4 on /dev/nvme0n1p1 (rw,noatime)
        device          nvme0n1 (Fast 9000), does not rotate; cache: write back; FUA: yes; scheduler: none
        measured        0.5 s each, in a file of 1 GiB, with direct I/O
        disturbed       other processes keep the disk busy 60 % of the time, so figures are worse than they could be

        reads and writes: how many a second, and the time of one, p50/p99
                              1 in flight        4 in flight       16 in flight       64 in flight     MB/s
        random read   4K  1.10k 910µs/3.6ms  4.40k 227µs/910µs  17.6k 57µs/227µs   70.4k 14µs/57µs      288
        random read  16K    468 2.1ms/8.6ms  1.87k 535µs/2.1ms  7.48k 134µs/535µs  29.9k 33µs/134µs     490
        random read   1M    9.5 105ms/421ms     38 26ms/105ms     152 6.6ms/26ms     607 1.6ms/6.6ms    637
        seq.   read   4K  1.10k 910µs/3.6ms  4.40k 227µs/910µs  17.6k 57µs/227µs   70.4k 14µs/57µs      288
        seq.   read  16K    468 2.1ms/8.6ms  1.87k 535µs/2.1ms  7.48k 134µs/535µs  29.9k 33µs/134µs     490
        seq.   read   1M    9.5 105ms/421ms     38 26ms/105ms     152 6.6ms/26ms     607 1.6ms/6.6ms    637
        random write  4K  1.10k 910µs/3.6ms  4.40k 227µs/910µs  17.6k 57µs/227µs   70.4k 14µs/57µs      288
        random write 16K    468 2.1ms/8.6ms  1.87k 535µs/2.1ms  7.48k 134µs/535µs  29.9k 33µs/134µs     490
        random write  1M    9.5 105ms/421ms     38 26ms/105ms     152 6.6ms/26ms     607 1.6ms/6.6ms    637
        seq.   write  4K  1.10k 910µs/3.6ms  4.40k 227µs/910µs  17.6k 57µs/227µs   70.4k 14µs/57µs      288
        seq.   write 16K    468 2.1ms/8.6ms  1.87k 535µs/2.1ms  7.48k 134µs/535µs  29.9k 33µs/134µs     490
        seq.   write  1M    9.5 105ms/421ms     38 26ms/105ms     152 6.6ms/26ms     607 1.6ms/6.6ms    637

        a write and its sync, one thread
                                                fsync              fdatasync
        append 128 bytes                          800 1.2ms/5.0ms    800 1.2ms/5.0ms
        overwrite 4K of a zero-written file       800 1.2ms/5.0ms    800 1.2ms/5.0ms
        write 4K where fallocate made space         -                  -
        append 4K                                 800 1.2ms/5.0ms    800 1.2ms/5.0ms

        the same in parallel: all threads together
                    overwrite 4K, fdatasync               append 128 bytes, fsync
                    own files          one file           own files          one file
         2 threads  1.60k 625µs/2.5ms  1.60k 625µs/2.5ms  1.60k 625µs/2.5ms  1.60k 625µs/2.5ms
         4 threads  3.20k 312µs/1.2ms  3.20k 312µs/1.2ms  3.20k 312µs/1.2ms  3.20k 312µs/1.2ms
         8 threads  6.40k 156µs/625µs  6.40k 156µs/625µs  6.40k 156µs/625µs  6.40k 156µs/625µs
        16 threads  12.8k 78µs/312µs   12.8k 78µs/312µs   12.8k 78µs/312µs   12.8k 78µs/312µs

        flush           a direct write of 4K 25µs, fdatasync after it 900µs, a write with O_DSYNC 850µs (fastest tenth)
        cache           a flush adds 900µs to a write of 25µs, so the device does something at a flush, as an honest cache does. Only a power cut proves it; those of `millpond torture` do not reach the device
        one thread      at most 1 100 commits a second that are durable; 550 if two logs are synced for each (sync_binlog=1)
        16 threads      at most 18 000 if each sync carries all 16 (group commit); 13 000 if each commit has its own
        pages, 16K      at most 30 000 random reads and 30 000 random writes a second: innodb_io_capacity may be 30 000 at most
    "#]].assert_eq(&table);
}

#[test]
fn the_table_fits_a_screen() {
    let cost = cost();
    for cost in [Some(cost), None] {
        let table = table(&sample(cost));
        assert!(table.lines().count() <= 45, "{} lines", table.lines().count());
        let figures = table.lines().filter(|line| line.contains("µs/") || line.contains("ms/"));
        for line in figures {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}

#[test]
fn every_figure_of_the_plan_is_in_the_table() {
    let table = table(&sample(None));
    assert_eq!(table.matches("in flight").count(), IN_FLIGHT.len());
    assert!(table.contains("buffered, because this file system refuses direct I/O"));
    // What the file system cannot do is a dash.
    let row = table.lines().find(|line| line.contains("fallocate")).unwrap();
    assert_eq!(row.matches(" - ").count() + usize::from(row.ends_with(" -")), 2, "{row}");
    let rates = |line: &str| line.matches("s/").count();
    assert_eq!(table.lines().filter(|line| line.contains("threads ")).map(rates).sum::<usize>(), 16);
}
