//! What many idle connections cost: the rate of the working clients beside them, over their rate
//! alone.

use super::super::server::Server;
use super::report::Value;
use super::size::Size;
use super::sysbench::{self, Data, Run};
use super::workloads::Workload;
use checkout::root;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Connections with an open transaction.
pub(super) const CONNECTIONS: u64 = 2000;
/// How long it may take to end them.
const PATIENCE: Duration = Duration::from_secs(60);

fn database(engine: &str) -> String {
    format!("idle_{}", engine.to_lowercase())
}

/// Measures `pairs` times, for each engine, the share of the rate that is kept.
pub(super) fn measure(
    server: &Server,
    workload: &Workload,
    pairs: usize,
    size: Size,
) -> Result<Value, String> {
    let mut value = Value::new("share kept");
    for engine in ["Millpond", "InnoDB"] {
        sysbench::make(server, engine, &database(engine), Data { tables: 1, rows: CONNECTIONS })?;
        sysbench::run(server, workload, engine, size.data, size.seconds)?;
    }
    for pair in 0..pairs {
        let order = if pair % 2 == 0 { ["Millpond", "InnoDB"] } else { ["InnoDB", "Millpond"] };
        for engine in order {
            let run = || sysbench::run(server, workload, engine, size.data, size.seconds);
            let alone = || sysbench::settle(server).and_then(|()| run());
            let crowded = || {
                sysbench::settle(server)?;
                let idle = Idle::open(server, engine)?;
                let beside = run()?;
                idle.close(server).map(|()| beside)
            };
            // The tables change from run to run: no side may have the later runs alone.
            let (alone, beside) = if pair / 2 % 2 == 0 {
                let first = alone()?;
                (first, crowded()?)
            } else {
                let first = crowded()?;
                (alone()?, first)
            };
            value.add(engine, Run { rate: beside.rate / alone.rate, ..beside });
        }
    }
    Ok(value)
}

/// The idle connections: threads of one sysbench.
struct Idle(Child);

impl Idle {
    /// Opens the connections, and returns when each has its transaction.
    fn open(server: &Server, engine: &str) -> Result<Idle, String> {
        let data = Data { tables: 1, rows: CONNECTIONS };
        let mut program = sysbench::program(server, &database(engine), data);
        program.arg(root().join("mariadb/bench/idle.lua"));
        program.args([format!("--threads={CONNECTIONS}"), "--time=0".into(), "run".into()]);
        let child =
            program.stdout(Stdio::piped()).spawn().map_err(|e| format!("cannot start sysbench: {e}"))?;
        let mut idle = Idle(child);
        let said = idle.0.stdout.take().ok_or("sysbench has no output")?;
        // sysbench says this when all its threads are ready.
        let ready = |line: &String| line.contains("Threads started!");
        if !BufReader::new(said).lines().map_while(Result::ok).any(|line| ready(&line)) {
            return Err(format!("sysbench does not open {CONNECTIONS} connections"));
        }
        Ok(idle)
    }

    /// Ends the connections, and returns when the server has rolled back their transactions.
    fn close(self, server: &Server) -> Result<(), String> {
        drop(self);
        let began = Instant::now();
        while sysbench::status(server, "Threads_connected")? > 10.0 {
            if began.elapsed() > PATIENCE {
                return Err("the server does not end the idle connections".into());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
