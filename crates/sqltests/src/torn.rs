//! A power cut may leave the last event of the binary log without its last bytes. The server looks
//! at no checksum when it recovers: it commits in other engines what the event's number names. What
//! the binary log alone has of Millpond is repeated then too, or a transaction would be there in
//! one engine and not in the other.

use super::repeated::{Engine, kill};
use super::server::Server;
use super::steps::expect;
use super::{make_dir, server, sql};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of an event's checksum.
const CHECKSUM: u64 = 4;
/// Bytes of the number of a transaction, before the checksum.
const NUMBER: u64 = 8;

/// What happens to the last bytes of the log.
enum Damage {
    /// So many are zero.
    Zero(u64),
    /// So many are not there.
    Cut(u64),
}

/// Damages, options of the next start, and whether the transaction counts.
const CASES: [(Damage, &[&str], bool); 5] = [
    (Damage::Zero(CHECKSUM), &[], true),
    (Damage::Zero(1), &[], true),
    (Damage::Zero(CHECKSUM + NUMBER), &[], false),
    (Damage::Cut(1), &[], false),
    (Damage::Zero(CHECKSUM), &["--master-verify-checksum=ON"], false),
];

/// The test.
pub(super) fn torn(dir: &Path) -> Result<(), String> {
    make_dir(dir)?;
    let engine = Engine { dir };
    let mut server = engine.start(&[])?;
    sql(
        &server,
        "CREATE DATABASE test; CREATE TABLE test.m (id INT PRIMARY KEY) ENGINE=Millpond; \
         CREATE TABLE test.i (id INT PRIMARY KEY) ENGINE=InnoDB",
    )?;
    for (damage, options, counts) in CASES {
        let name = match damage {
            Damage::Zero(bytes) => format!("{bytes} bytes are zero, {options:?}"),
            Damage::Cut(bytes) => format!("{bytes} bytes are cut off"),
        };
        server = one(&engine, server, &damage, options, counts).map_err(|why| format!("{name}: {why}"))?;
    }
    drop(server);
    server::stop(dir)
}

/// Commits one transaction in both engines, and damages its end in the binary log.
fn one(
    engine: &Engine<'_>,
    server: Server,
    damage: &Damage,
    options: &[&str],
    counts: bool,
) -> Result<Server, String> {
    // The first transaction of a file is durable by the redo log. From then on the binary log is
    // enough.
    sql(&server, "TRUNCATE test.m; TRUNCATE test.i; RESET MASTER; INSERT INTO test.m VALUES (1)")?;
    engine.keep()?;
    sql(&server, "BEGIN; INSERT INTO test.m VALUES (2); INSERT INTO test.i VALUES (2); COMMIT")?;
    engine.kill_and_go_back(&server)?;
    damage.do_to(&last_file(&server)?)?;
    let server = engine.start(options)?;
    let rows = sql(&server, "SELECT GROUP_CONCAT(id ORDER BY id) FROM test.m")?;
    let wanted = if counts { "1,2" } else { "1" };
    if rows != wanted {
        return Err(format!("Millpond has the rows {rows} instead of {wanted}"));
    }
    if counts {
        expect("InnoDB's row", &sql(&server, "SELECT id FROM test.i")?, "2")?;
    }
    // It is not repeated again.
    kill(&server)?;
    let server = engine.start(&[])?;
    let again = sql(&server, "SELECT GROUP_CONCAT(id ORDER BY id) FROM test.m")?;
    if again == wanted { Ok(server) } else { Err(format!("after another start Millpond has {again}")) }
}

impl Damage {
    fn do_to(&self, path: &Path) -> Result<(), String> {
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        let file = OpenOptions::new().write(true).open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        match *self {
            Damage::Zero(bytes) => {
                file.write_all_at(&vec![0; bytes as usize], length - bytes).map_err(failed)
            }
            Damage::Cut(bytes) => file.set_len(length - bytes).map_err(failed),
        }
    }
}

/// Returns the last file of a server's binary log.
fn last_file(server: &Server) -> Result<PathBuf, String> {
    let index = server.data().join("binlog.index");
    let names = std::fs::read_to_string(&index).map_err(|e| format!("{}: {e}", index.display()))?;
    let last = names.lines().last().ok_or("the binary log has no files")?;
    Ok(server.data().join(last))
}
