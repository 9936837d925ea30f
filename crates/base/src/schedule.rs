//! How soon a thread that becomes ready gets a core.
#![allow(unsafe_code)]

/// The time for which such a thread asks, nanoseconds: the least that Linux gives.
#[cfg(all(target_os = "linux", not(loom)))]
const SLICE_NS: u64 = 100_000;

/// Asks the system to let the calling thread run soon whenever it becomes ready, each time for a
/// short while. For threads that mostly wait for the device: where all cores are busy, each answer
/// of the device would find them at the end of a queue. The thread's share of the cores does not
/// change. Returns whether the system took the request.
///
/// Since version 6.12, Linux gives a core first to a thread that asks for a shorter slice
/// (`sched_setattr(2)`, `sched_runtime`). Older ones take the request and do nothing.
pub fn run_promptly() -> bool {
    #[cfg(all(target_os = "linux", not(loom)))]
    {
        // SAFETY: the call reads a number of the calling process and takes no pointer of ours that
        // it writes: `getpriority` of this thread.
        let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let request = Request {
            size: size_of::<Request>() as u32,
            policy: libc::SCHED_OTHER as u32,
            // A thread must not lower its nice value without a privilege, so it is named again.
            nice,
            runtime: SLICE_NS,
            ..Request::default()
        };
        // SAFETY: the kernel reads `size` bytes at the pointer, and the request lives until the
        // call returns. The call changes only how this thread is scheduled.
        let answer = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const request, 0) };
        answer == 0
    }
    #[cfg(not(all(target_os = "linux", not(loom))))]
    false
}

/// What `sched_setattr` takes (`struct sched_attr`).
#[cfg(all(target_os = "linux", not(loom)))]
#[derive(Default)]
#[repr(C)]
struct Request {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

#[cfg(all(test, target_os = "linux", not(loom)))]
mod tests {
    #[test]
    fn a_request_is_taken_and_the_nice_value_stays() {
        let took = std::thread::spawn(|| {
            // SAFETY: numbers of the calling thread; no pointer is passed.
            unsafe {
                libc::setpriority(libc::PRIO_PROCESS, 0, 3);
                let took = super::run_promptly();
                (took, libc::getpriority(libc::PRIO_PROCESS, 0), libc::sched_getscheduler(0))
            }
        });
        assert_eq!(took.join().unwrap(), (true, 3, libc::SCHED_OTHER));
    }
}
