//! `millpond torture` as a process.

use crate::common::{Scratch, text};

#[test]
fn torture_ends_with_a_certificate_and_leaves_nothing() {
    let scratch = Scratch::new("torture");
    let said = scratch.ok("torture here --minutes 0.1 --seed 3");
    for wanted in
        ["CERTIFICATE", "seed            3", "kills", "power cuts", "findings        0", "Not shown:"]
    {
        assert!(said.contains(wanted), "no {wanted:?} in {said}");
    }
    assert_eq!(scratch.names(), Vec::<String>::new());
    assert!(scratch.refused(2, "torture here --minutes 0").contains("--minutes"));
    std::fs::create_dir_all(scratch.0.join("full/of")).unwrap();
    assert!(scratch.refused(2, "torture full").contains("not empty"));
}

#[test]
fn a_file_system_that_ignores_syncs_is_found_and_the_evidence_stays() {
    let scratch = Scratch::new("torture-lies");
    let out = scratch.millpond("torture here --minutes 2 --seed 4 --ignore-syncs");
    let said = text(&out.stdout);
    if said.contains("no power cuts") {
        println!("not run: {said}");
        return;
    }
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("evidence: ") && text(&out.stderr).contains("the database is in"), "{said}");
    assert!(scratch.0.join("here/before/db").is_dir() && scratch.0.join("here/disk/db").is_dir());
}
