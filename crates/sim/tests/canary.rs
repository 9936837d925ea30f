//! The canary: a disk loses writes that the engine takes for durable, and the simulator sees it. It
//! needs no mistake of the engine; the planted mistakes (`engine.rs`) show that those are seen too.

use sim::budget::stay_on_core;
use sim::driver::Driver;
use sim::explore::{Finding, Plan};
use sim::shape::{SMALL, Shape};
use sim::workloads::Workload;
use vfs::fault::{Fault, FaultRule, OpKind};

/// Commits a few rows on an honest disk.
fn honest(d: &Driver) {
    d.create("t");
    for n in 0..4 {
        let mut tx = d.tx();
        tx.put("t", &[n], b"value").expect("there is no conflict");
        tx.commit();
    }
}

/// The same on a disk whose syncs of the log do nothing.
fn lied_to(d: &Driver) {
    let rule = FaultRule { kind: OpKind::Sync, nth: 1, for_ever: true, fault: Fault::Lied };
    d.faults().fail_on("/redo/", rule);
    honest(d);
}

/// Cuts the power before one operation in eight.
fn explore(script: fn(&Driver)) -> Result<(), Box<Finding>> {
    let shape = Shape { faults: true, ..SMALL };
    let workload = Workload { name: "canary", about: "a disk may lie", shape, script, lives: 1 };
    let plan = Plan { seed: 1, flags: 0, backtrace: false };
    let ran = plan.run(&workload)?;
    plan.cut(&workload, &ran, |step| step % 8 == 0, || true)
}

#[test]
fn a_lost_write_is_seen() {
    stay_on_core(0);
    explore(honest).expect("nothing is lost");
    let finding = explore(lied_to).expect_err("writes were lost");
    assert!(finding.cut.is_some() && finding.what.contains("is missing"), "{finding}");
}
