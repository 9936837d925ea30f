//! The memory of the process after a peak. A file of its own, because a test in the same process
//! would change the figure.

use millpond::{Db, Isolation, Options, Result, Table, TxnOptions};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

fn figure(db: &Db, name: &str) -> u64 {
    db.metrics().get(name).unwrap() as u64
}

/// Returns the resident memory of this process, bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * rustix::param::page_size() as u64
}

/// Takes very many locks, with memory of the program between theirs, and releases them. Returns
/// how much memory the locks took, what is left of the program's, and the resident memory at the
/// peak.
fn peak(db: &Db, table: &Table) -> Result<(u64, Vec<Vec<u8>>, u64)> {
    let mut large = db.begin_with(TxnOptions::new().isolation(Isolation::Serializable))?;
    let mut between = Vec::new();
    for n in 0..500_000u64 {
        // The rows are missing, so their absence is locked. The keys are too long to be stored in
        // place.
        let key = [n.to_be_bytes(), [7; 8], [7; 8], [7; 8]].concat();
        assert!(large.get_for_update(table, &key)?.is_none());
        if n % 1000 == 0 {
            between.push(vec![n as u8; 100]);
        }
    }
    Ok((figure(db, "lock_bytes"), between, resident()))
}

/// What the engine has freed after a peak goes back to the system, if the process is the engine's
/// own. The heap of another host is left alone.
#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn memory_goes_back_to_the_system_after_a_peak() -> Result<()> {
    let options = Options::new().own_process(true).buffer_pool_bytes(4 << 20);
    let db = options.redo_capacity_bytes(16 << 20).open_in_memory()?;
    let table = db.create_table("t")?;
    let base = resident();
    let mut report = String::new();
    // A peak that is shorter than a pause of the history thread may stay unseen.
    for _ in 0..5 {
        let (locks, _between, peak) = peak(&db, &table)?;
        assert_eq!(figure(&db, "lock_bytes"), 0);
        assert!(locks > 80 * MIB && peak > base + locks, "{locks} bytes of locks, {peak} of all");
        let (released, freed) = (Instant::now(), resident());
        while released.elapsed() < Duration::from_secs(40) {
            let (now, trims) = (resident(), figure(&db, "heap_trims"));
            if trims > 0 && now < base + locks / 5 {
                return db.close();
            }
            report = format!(
                "MiB: base {}, peak {}, released {}, now {}; {trims} trims",
                base / MIB,
                peak / MIB,
                freed / MIB,
                now / MIB
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    panic!("{report}");
}
