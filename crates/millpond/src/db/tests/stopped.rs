//! A database that stops says why: at once, once, and to each caller.

use super::rollback::vfs_of;
use super::*;
use std::io::ErrorKind;
use std::sync::Mutex;
use vfs::fault::{Fault, FaultRule, OpKind};

/// Operations whose failure stops a database: a part of the file's path, and the kind.
const FATAL: [(&str, OpKind); 4] =
    [("redo/", OpKind::Sync), ("redo/", OpKind::Write), ("pages", OpKind::Write), ("pages", OpKind::Sync)];

#[test]
fn a_database_that_stops_tells_the_program_once_and_each_caller_why() {
    for (file, kind) in FATAL {
        let faults = FaultDisk::new(Arc::new(MemDisk::default()));
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = Arc::clone(&told);
        let options = options().on_failure(move |error| lines.lock().unwrap().push(error.to_string()));
        let db = Db::open_on(&vfs_of(faults.clone()), Path::new(DIR), &options).unwrap();
        let t = db.create_table("t").unwrap();
        put(&db, &t, b"before", b"1");
        assert!(db.failure().is_none() && told.lock().unwrap().is_empty());
        faults.fail_on(
            file,
            FaultRule { kind, nth: 1, for_ever: true, fault: Fault::Refused(ErrorKind::Other) },
        );
        let attempt = || {
            let mut tx = db.begin()?;
            tx.put(&t, b"after", b"2")?;
            tx.commit()?;
            db.checkpoint()
        };
        let (first, second) = (attempt().unwrap_err(), attempt().unwrap_err());
        let why = db.failure().expect("it has stopped").to_string();
        assert!(why.contains(&format!("/db/{file}")), "{file} {kind:?}: {why}");
        let names_page = why.contains("page ") || why.contains("pages ");
        assert!(file != "pages" || kind != OpKind::Write || names_page, "no page is named: {why}");
        for error in [first, second] {
            assert!(matches!(error, Error::Poisoned { .. }), "{file} {kind:?}: {error}");
            assert!(error.to_string().contains(&why), "{file} {kind:?}: {error} without {why}");
        }
        assert!(db.close().is_err());
        assert_eq!(*told.lock().unwrap(), [why.as_str()]);
        assert_eq!(db.failure().map(|error| error.to_string()), Some(why));
    }
}
