//! An instance of the kernel's tracing of its own, in the file system tracefs.
//!
//! An instance has its own buffer and its own switches, so nobody else's trace is touched. It is
//! removed when the value is dropped. An instance that a killed process has left is removed by the
//! next trace.

use output::failure::{Failure, Outcome};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Where tracefs may be, and where it is mounted if it is nowhere.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const PREFIX: &str = "millpond-";
/// Kilobytes of the buffer for each processor: some 30,000 events.
const BUFFER_KB: &str = "4096";

/// An instance. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Instance {
    dir: PathBuf,
    /// Where this process has mounted tracefs.
    mounted: Option<&'static str>,
}

impl Instance {
    /// Makes an instance, and mounts tracefs if it is not mounted.
    pub(crate) fn new() -> Outcome<Instance> {
        let (root, mounted) = match PLACES.iter().find(|place| Path::new(place).join("instances").exists()) {
            Some(place) => (*place, None),
            None => (PLACES[0], Some(mount(PLACES[0])?)),
        };
        let instances = Path::new(root).join("instances");
        remove_left(&instances);
        let mut instance =
            Instance { dir: instances.join(format!("{PREFIX}{}", std::process::id())), mounted };
        if let Err(error) = fs::create_dir(&instance.dir) {
            let dir = std::mem::take(&mut instance.dir);
            return Err(no_rights(&format!("cannot make {}", dir.display()), &error));
        }
        // One clock for all processors, so that a thread may move between them.
        instance.write("trace_clock", "mono")?;
        instance.write("buffer_size_kb", BUFFER_KB)?;
        Ok(instance)
    }

    /// Traces these threads, and those that they start.
    pub(crate) fn follow(&self, threads: &[u32]) -> Outcome {
        self.write("options/event-fork", "1")?;
        let threads: Vec<String> = threads.iter().map(u32::to_string).collect();
        // The kernel takes so much in one write.
        for some in threads.chunks(200) {
            let file = self.dir.join("set_event_pid");
            let mut options = fs::OpenOptions::new();
            let written = options.append(true).open(&file).and_then(|mut file| {
                io::Write::write_all(&mut file, format!("{}\n", some.join(" ")).as_bytes())
            });
            written.map_err(|e| Failure::failed(format!("cannot write {}: {e}", file.display())))?;
        }
        Ok(())
    }

    /// Switches the entry and the return of a call on, for the entries that a filter lets pass.
    /// Returns whether the kernel has such events.
    pub(crate) fn enable(&self, call: &str, filter: Option<&str>) -> Outcome<bool> {
        let (enter, exit) =
            (format!("events/syscalls/sys_enter_{call}"), format!("events/syscalls/sys_exit_{call}"));
        if !self.dir.join(&enter).exists() {
            return Ok(false);
        }
        if let Some(filter) = filter {
            self.write(&format!("{enter}/filter"), filter)?;
        }
        for event in [exit, enter] {
            self.write(&format!("{event}/enable"), "1")?;
        }
        Ok(true)
    }

    /// Opens the stream of events.
    pub(crate) fn pipe(&self) -> Outcome<Pipe> {
        let path = self.dir.join("trace_pipe");
        let opened =
            rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
        let file = opened.map_err(|e| Failure::failed(format!("cannot open {}: {e}", path.display())))?;
        Ok(Pipe { file: File::from(file), rest: Vec::new() })
    }

    fn write(&self, name: &str, text: &str) -> Outcome {
        let file = self.dir.join(name);
        fs::write(&file, text).map_err(|e| Failure::failed(format!("cannot write {}: {e}", file.display())))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.dir);
        if let Some(place) = self.mounted {
            // Another trace may use it meanwhile; then it stays.
            let _ = rustix::mount::unmount(place, UnmountFlags::empty());
        }
    }
}

/// The stream of events of an instance.
#[derive(Debug)]
pub(crate) struct Pipe {
    file: File,
    rest: Vec<u8>,
}

impl Pipe {
    /// Returns the lines that are there; none if there are none now.
    pub(crate) fn lines(&mut self) -> Outcome<Vec<String>> {
        let mut bytes = [0; 1 << 16];
        loop {
            match self.file.read(&mut bytes) {
                Ok(0) => break,
                Ok(n) => self.rest.extend_from_slice(&bytes[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(Failure::failed(format!("cannot read the kernel's trace: {e}"))),
            }
            if self.rest.len() > 1 << 22 {
                break;
            }
        }
        let end = self.rest.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let whole: Vec<u8> = self.rest.drain(..end).collect();
        Ok(String::from_utf8_lossy(&whole).lines().map(str::to_owned).collect())
    }
}

fn mount(place: &'static str) -> Outcome<&'static str> {
    if !Path::new(place).is_dir() {
        let text = format!("this kernel has no tracing: there is no {place}");
        return Err(Failure::failed(format!("{text}; --strace needs none")));
    }
    match rustix::mount::mount("tracefs", place, "tracefs", MountFlags::empty(), None) {
        Ok(()) => Ok(place),
        Err(error) => Err(no_rights(&format!("cannot mount tracefs on {place}"), &error.into())),
    }
}

/// Returns the failure of a step that needs rights.
fn no_rights(step: &str, error: &io::Error) -> Failure {
    Failure::failed(format!(
        "{step}: {error}; tracing a process by the kernel needs root, for example by sudo; the directory of a \
         database of Millpond needs no rights, and --strace only those of the process's user"
    ))
}

/// Removes instances whose process is gone.
fn remove_left(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}
