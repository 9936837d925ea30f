//! The memory of the process when its buffer pool gets smaller. A file of its own, because a test
//! in the same process would change the figure.

use millpond::{Options, Result};

const MIB: u64 = 1 << 20;

/// Returns the resident memory of this process, bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * rustix::param::page_size() as u64
}

#[test]
#[cfg(target_os = "linux")]
fn the_memory_of_a_pool_that_shrinks_goes_back_to_the_system() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("millpond-pool-memory-{}", std::process::id()));
    let db = Options::new().buffer_pool_bytes(8 * MIB).open(&dir)?;
    db.set_buffer_pool_bytes(128 * MIB)?;
    let table = db.create_table("t")?;
    for n in 0..80u64 {
        let mut tx = db.begin()?;
        (0..100u64).for_each(|m| tx.put(&table, &(n * 100 + m).to_be_bytes(), &[7; 10_000]).unwrap());
        tx.commit()?;
    }
    let pages = db.metrics().get("lru_pages").unwrap() as u64 * 8192;
    assert!(pages > 70 * MIB, "{pages} bytes of pages");
    let before = resident();
    db.set_buffer_pool_bytes(8 * MIB)?;
    let after = resident();
    assert!(after + 50 * MIB < before, "{} MiB before, {} MiB after", before / MIB, after / MIB);
    assert!(db.check()?.is_clean());
    db.close()?;
    std::fs::remove_dir_all(&dir).unwrap();
    Ok(())
}
