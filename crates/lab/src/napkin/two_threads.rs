//! What two threads do together: they switch on one core, and they talk over TCP.

use super::timing::ns_each;
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use std::io::{self, Read, Write, pipe};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread::ScopedJoinHandle;

/// Round trips between two looks at the clock.
const BATCH: u64 = 100;
/// Bytes of an echo.
const ECHO_BYTES: usize = 32 << 10;

/// Returns the nanoseconds of a context switch: two threads on one core send each other a byte
/// through pipes, and each round trip has two switches. The system calls of the pipes are in it.
pub(super) fn context_switch() -> io::Result<f64> {
    let mut core = CpuSet::new();
    core.set(sched_getcpu());
    let ((mut asked, mut ask), (mut answered, mut answer)) = (pipe()?, pipe()?);
    std::thread::scope(|scope| {
        let other = scope.spawn(move || -> io::Result<()> {
            sched_setaffinity(None, &core)?;
            let mut byte = [0];
            // Until the first thread has closed its end.
            while asked.read(&mut byte)? == 1 {
                answer.write_all(&byte)?;
            }
            Ok(())
        });
        let first = scope.spawn(move || -> io::Result<f64> {
            sched_setaffinity(None, &core)?;
            let mut byte = [1];
            ns_each(|| {
                for _ in 0..BATCH {
                    ask.write_all(&byte)?;
                    answered.read_exact(&mut byte)?;
                }
                Ok(2 * BATCH)
            })
        });
        let each = joined(first);
        joined(other)?;
        each
    })
}

/// Returns the nanoseconds in which 32 KiB go to another thread and back, over the loopback.
pub(super) fn tcp_echo() -> io::Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    std::thread::scope(|scope| {
        let echo = scope.spawn(move || -> io::Result<()> {
            let mut bytes = vec![0; ECHO_BYTES];
            loop {
                match server.read(&mut bytes)? {
                    0 => return Ok(()),
                    n => server.write_all(&bytes[..n])?,
                }
            }
        });
        let mut bytes = vec![1; ECHO_BYTES];
        let each = ns_each(|| {
            client.write_all(&bytes)?;
            client.read_exact(&mut bytes)?;
            Ok(1)
        });
        // Its end ends the other thread.
        drop(client);
        joined(echo)?;
        each
    })
}

fn joined<T>(thread: ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
