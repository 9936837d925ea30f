//! Keys, values and tables that the workloads share.

use crate::driver::Driver;
use base::prng::Prng;

pub(super) fn key(n: u64) -> Vec<u8> {
    format!("k{n:05}").into_bytes()
}

/// Returns a random value: 8 hexadecimal digits and `lo..=hi` more bytes.
pub(super) fn value(rng: &mut Prng, lo: u64, hi: u64) -> Vec<u8> {
    let mut value = format!("{:08x}", rng.next_u64() as u32).into_bytes();
    let from = value.len();
    value.resize(from + rng.between(lo, hi) as usize, 0);
    rng.fill(&mut value[from..]);
    value
}

pub(super) fn fill(driver: &Driver, table: &str, rows: u64, bytes: u64) {
    let mut rng = driver.rng(rows ^ bytes);
    let mut n = 0;
    while n < rows {
        let mut tx = driver.tx();
        for _ in 0..40.min(rows - n) {
            tx.put(table, &key(n), &value(&mut rng, bytes / 2, bytes)).expect("there is no conflict");
            n += 1;
        }
        tx.commit();
    }
}
