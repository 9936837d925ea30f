//! What this machine knows of a server that runs on it: the processor time of its process, and what
//! the device of its data directory did, whoever asked for it.

use rustix::fs::{major, minor};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What stands before the names of these figures where they are read.
pub(super) const PREFIX: &str = "host.";

/// A server on this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    process: u32,
    /// Of the data directory; file systems on several devices, and those without one, have none.
    device: Option<(u32, u32)>,
}

/// Returns the process and the data directory of a server, of its settings; `None` if it is on
/// another machine, or in a container of its own.
pub(crate) fn process_here<'s>(setting: impl Fn(&str) -> Option<&'s str>) -> Option<(u32, PathBuf)> {
    let here = rustix::system::uname();
    if setting("hostname")? != here.nodename().to_str().ok()? {
        return None;
    }
    let dir = Path::new(setting("datadir")?);
    // A process with this number and this directory is the server, and not one with the same name
    // of the machine and the same path.
    let pid: u32 = fs::read_to_string(dir.join(setting("pid_file")?)).ok()?.trim().parse().ok()?;
    let runs = Path::new("/proc").join(pid.to_string()).exists();
    (runs && dir.is_dir()).then(|| (pid, dir.to_owned()))
}

impl Host {
    /// Finds the server of these settings; `None` if it is not on this machine.
    pub(super) fn find<'s>(setting: impl Fn(&str) -> Option<&'s str>) -> Option<Host> {
        let (process, dir) = process_here(setting)?;
        let device = fs::metadata(dir).ok().map(|data| (major(data.dev()), minor(data.dev())));
        Some(Host { process, device })
    }

    /// Returns what has been counted until now; what cannot be read is left out.
    pub(super) fn read(self) -> Vec<(String, f64)> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process)).unwrap_or_default();
        let mut read: Vec<(&str, f64)> =
            processor_us(&stat).map(|us| ("processor_us_total", us)).into_iter().collect();
        if let Some((major, minor)) = self.device {
            let stat = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat"));
            read.extend(disk(&stat.unwrap_or_default()));
        }
        read.into_iter().map(|(name, value)| (format!("{PREFIX}{name}"), value)).collect()
    }
}

/// Returns the processor time of a process, of its /proc/PID/stat, in microseconds.
fn processor_us(stat: &str) -> Option<f64> {
    // The name of the program, in parentheses, may have blanks.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(|field| field.parse::<f64>().ok());
    let ticks = times.next()?? + times.next()??;
    Some(ticks * 1e6 / rustix::param::clock_ticks_per_second() as f64)
}

/// Bytes of a sector, as the kernel counts them for every device.
const SECTOR: f64 = 512.0;
const US_PER_MS: f64 = 1000.0;
/// The fields of a device's `stat` in /sys that count: which one, what it is, and its unit in that
/// of the figure.
const FIELDS: [(usize, &str, f64); 9] = [
    (0, "disk_reads", 1.0),
    (2, "disk_bytes_read", SECTOR),
    (3, "disk_read_us_total", US_PER_MS),
    (4, "disk_writes", 1.0),
    (6, "disk_bytes_written", SECTOR),
    (7, "disk_write_us_total", US_PER_MS),
    (9, "disk_busy_us_total", US_PER_MS),
    (15, "disk_flushes", 1.0),
    (16, "disk_flush_us_total", US_PER_MS),
];

/// Returns what a device has done. Kernels before 5.5 do not count its flushes.
fn disk(stat: &str) -> Vec<(&'static str, f64)> {
    let fields: Vec<Option<f64>> = stat.split_whitespace().map(|field| field.parse().ok()).collect();
    let value =
        |&(at, name, unit): &(usize, &'static str, f64)| Some((name, fields.get(at).copied()?? * unit));
    FIELDS.iter().filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn processor_time_of_a_process_whose_name_has_blanks() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 30 0 100";
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(processor_us(stat), Some(300.0 * 1e6 / per_second));
        assert_eq!((processor_us(""), processor_us("7 (x) S 1")), (None, None));
    }

    #[test]
    fn what_a_device_has_done() {
        let old = disk("10 1 80 5 20 2 160 7 0 9 12");
        assert_eq!(old.len(), 7, "flushes are not counted");
        assert_eq!(old[1], ("disk_bytes_read", 40_960.0));
        let new = disk("10 1 80 5 20 2 160 7 0 9 12 0 0 0 0 30 600");
        assert_eq!(
            new[6..],
            [("disk_busy_us_total", 9000.0), ("disk_flushes", 30.0), ("disk_flush_us_total", 600_000.0)]
        );
        assert!(disk("").is_empty());
    }

    #[test]
    fn only_a_server_of_this_machine_that_runs_is_here() {
        let scratch = Scratch::new("host");
        let here = rustix::system::uname().nodename().to_str().unwrap().to_owned();
        let dir = scratch.0.to_str().unwrap();
        let find = |host: &str| {
            process_here(|name| match name {
                "hostname" => Some(host),
                "datadir" => Some(dir),
                "pid_file" => Some("x.pid"),
                _ => None,
            })
        };
        assert_eq!(find(&here), None, "no process");
        fs::write(scratch.0.join("x.pid"), format!("{}\n", std::process::id())).unwrap();
        assert_eq!(find(&here), Some((std::process::id(), scratch.0.clone())));
        assert_eq!(find("another.example"), None);
        assert_eq!(process_here(|_| None), None);
        let read = Host { process: std::process::id(), device: None }.read();
        assert!(read[0].0 == "host.processor_us_total" && read[0].1 >= 0.0);
    }
}
