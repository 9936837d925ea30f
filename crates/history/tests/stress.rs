//! The stress test for a few seconds: the usual number of threads, less data.

use history::stress::{Plan, run};
use std::path::Path;
use std::time::Duration;

#[test]
fn many_threads_on_a_pool_that_is_too_small() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("stress-{}", std::process::id()));
    let plan = Plan {
        dir,
        threads: 64,
        time: Duration::from_secs(3),
        groups: 400,
        pool_bytes: 1 << 20,
        redo_bytes: 16 << 20,
        seed: 1,
    };
    match run(&plan) {
        Ok(report) => println!("{report}"),
        Err(what) => panic!("{what} (left in {})", plan.dir.display()),
    }
}
