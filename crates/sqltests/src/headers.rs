//! The server's private headers, from its Debian source package.
//!
//! The machine's own apt configuration is only read. A private list of sources is derived from it,
//! with `deb-src` in place of `deb`, and apt works on private directories. If the archive does not
//! have the exact source of the installed server (security updates disappear from some mirrors),
//! another patch release of the same series is taken; [`super::layout`] then proves that it fits.

use super::packages::{SERVER, source_of_server};
use super::{make_dir, output, target, write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Headers for the installed server.
#[derive(Debug)]
pub(super) struct Headers {
    /// The unpacked part of the source.
    pub(super) source: PathBuf,
    /// The version of the source package.
    pub(super) version: String,
    /// The version of the installed server.
    pub(super) server: String,
}

impl Headers {
    pub(super) fn are_exact(&self) -> bool {
        self.version == self.server
    }
}

/// What of the source is unpacked. Each file may match only one of them.
const PARTS: [&str; 3] = ["*/include/*", "*/sql/*.h", "*/wsrep-lib/wsrep-API/v26/*.h"];
/// The file that marks a complete set of headers, with the version of its source.
const MARK: &str = "complete";

/// Returns the headers for the installed server, and fetches them if need be.
pub(super) fn fetch() -> Result<Headers, String> {
    let (package, server) = source_of_server()?;
    let dir = target().join("headers").join(directory_name(&server));
    let source = dir.join("source");
    if let Ok(version) = std::fs::read_to_string(dir.join(MARK)) {
        return Ok(Headers { source, version, server });
    }
    println!("fetching the headers of {package} {server}");
    let _ = std::fs::remove_dir_all(&dir);
    make_dir(&dir.join("lists/partial"))?;
    make_dir(&dir.join("cache"))?;
    let apt = PrivateApt::new(&dir)?;
    output(apt.command("apt-get").arg("update"))?;
    let known = output(apt.command("apt-cache").args(["showsrc", "--only-source", &package]))?;
    let versions = candidates(&versions_of(&known), &server);
    if versions.is_empty() {
        return Err(format!("the package archive has no source of MariaDB {}", series(&server)));
    }
    let (version, archive) = download(&apt, &package, &versions)?;
    unpack(&archive, &source)?;
    for entry in std::fs::read_dir(&dir).map_err(|e| e.to_string())?.flatten() {
        // Lists, caches and archives are not needed any more.
        if entry.path() != source {
            let _ = std::fs::remove_file(entry.path());
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    write(&dir.join(MARK), &version)?;
    Ok(Headers { source, version, server })
}

/// Downloads the first of `versions` that the archive really has.
fn download(apt: &PrivateApt, package: &str, versions: &[String]) -> Result<(String, PathBuf), String> {
    let mut refused = String::new();
    for version in versions {
        let mut get = apt.command("apt-get");
        get.args(["source", "--quiet", "--download-only", "--tar-only", &format!("{package}={version}")]);
        match output(get.current_dir(&apt.dir)) {
            Ok(_) => return Ok((version.clone(), archive_in(&apt.dir)?)),
            Err(why) => refused = why,
        }
    }
    Err(format!("no source of the server can be fetched: {refused}"))
}

fn archive_in(dir: &Path) -> Result<PathBuf, String> {
    let entries = std::fs::read_dir(dir).map_err(|e| e.to_string())?.flatten().map(|entry| entry.path());
    let mut archives = entries.filter(|path| path.to_string_lossy().contains(".orig.tar."));
    archives.next().ok_or_else(|| "apt-get has left no archive of the source".into())
}

/// Unpacks the headers of an archive, and makes the one header that the server's build makes.
fn unpack(archive: &Path, to: &Path) -> Result<(), String> {
    make_dir(to)?;
    let mut tar = Command::new("tar");
    tar.arg("-x").arg("-f").arg(archive).arg("-C").arg(to);
    output(tar.args(["--strip-components=1", "--wildcards"]).args(PARTS))?;
    let probes = to.join("include/probes_mysql_nodtrace.h");
    let template = to.join("include/probes_mysql_nodtrace.h.in");
    std::fs::copy(&template, probes).map_err(|e| format!("{}: {e}", template.display())).map(drop)
}

/// apt with sources, lists and caches of its own.
struct PrivateApt {
    dir: PathBuf,
}

impl PrivateApt {
    fn new(dir: &Path) -> Result<PrivateApt, String> {
        let policy = output(Command::new("apt-cache").args(["policy", SERVER]))?;
        let lines = source_lines(&policy, &apt_sources());
        if lines.is_empty() {
            return Err(format!("apt knows no archive with {SERVER}"));
        }
        write(&dir.join("deb-src.list"), &(lines.join("\n") + "\n"))?;
        Ok(PrivateApt { dir: dir.to_owned() })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let mut option = |name: &str, value: &Path| {
            command.arg("-o").arg(format!("{name}={}", value.display()));
        };
        option("Dir::Etc::sourcelist", &self.dir.join("deb-src.list"));
        option("Dir::Etc::sourceparts", Path::new("/dev/null"));
        option("Dir::State::lists", &self.dir.join("lists"));
        option("Dir::Cache", &self.dir.join("cache"));
        // The directories may be closed to the user that apt would change to.
        option("APT::Sandbox::User", Path::new("root"));
        command
    }
}

/// Returns the texts of the machine's own lists of sources.
fn apt_sources() -> Vec<String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(entries) = std::fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    files.iter().filter_map(|file| std::fs::read_to_string(file).ok()).collect()
}

/// Returns `deb-src` lines of the archives from which `apt-cache policy` says that the server can
/// come. Keys are those that the machine's own sources name for the same archive.
fn source_lines(policy: &str, sources: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    for line in policy.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        // 500 URI suite/component architecture Packages
        let [_, uri, place, _, "Packages"] = words[..] else { continue };
        let Some((suite, component)) = place.split_once('/') else { continue };
        let key = key_of(uri, sources).map_or_else(String::new, |file| format!("[signed-by={file}] "));
        let line = format!("deb-src {key}{uri} {suite} {component}");
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// Returns the file of keys that a list of sources names for an archive.
fn key_of(uri: &str, sources: &[String]) -> Option<String> {
    let uri = uri.trim_end_matches('/');
    let names = |text: &str| text.split_whitespace().any(|word| word.trim_end_matches('/') == uri);
    for text in sources {
        for stanza in text.split("\n\n").filter(|stanza| names(stanza)) {
            // Stanzas of `.sources` have a field, lines of `.list` an option.
            let field = stanza.lines().find_map(|line| line.strip_prefix("Signed-By:"));
            let option = stanza.lines().filter(|line| names(line)).find_map(|line| {
                let (_, rest) = line.split_once("signed-by=")?;
                rest.split([' ', ']', ',']).next()
            });
            if let Some(file) = field.or(option).map(str::trim).filter(|file| file.starts_with('/')) {
                return Some(file.to_owned());
            }
        }
    }
    None
}

fn versions_of(showsrc: &str) -> Vec<String> {
    showsrc.lines().filter_map(|line| line.strip_prefix("Version: ")).map(str::to_owned).collect()
}

/// Returns the numbers of a version without epoch and Debian revision: 10, 11, 19.
fn numbers(version: &str) -> Vec<u64> {
    let upstream = version.split_once(':').map_or(version, |(_, rest)| rest);
    upstream.split('-').next().unwrap_or(upstream).split('.').filter_map(|part| part.parse().ok()).collect()
}

/// Returns the series of a version: 10.11.
fn series(version: &str) -> String {
    let numbers = numbers(version);
    numbers.iter().take(2).map(u64::to_string).collect::<Vec<_>>().join(".")
}

/// Returns the versions of the server's series: the exact one first, then the nearest patch
/// release.
fn candidates(versions: &[String], server: &str) -> Vec<String> {
    let patch = |version: &str| numbers(version).get(2).copied().unwrap_or(0);
    let mut fitting: Vec<String> = versions.iter().filter(|v| series(v) == series(server)).cloned().collect();
    fitting
        .sort_by_key(|version| (version != server, patch(version).abs_diff(patch(server)), version.clone()));
    fitting.dedup();
    fitting
}

fn directory_name(version: &str) -> String {
    version.chars().map(|c| if c.is_ascii_alphanumeric() || ".-".contains(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "\
mariadb-server-core:
  Installed: 1:10.11.19-0+deb12u1
  Version table:
 *** 1:10.11.19-0+deb12u1 500
        500 http://mirror.example/debian-security bookworm-security/main amd64 Packages
        100 /var/lib/dpkg/status
     1:10.11.18-0+deb12u1 500
        500 http://mirror.example/debian bookworm/main amd64 Packages
";

    #[test]
    fn source_archives_are_those_that_the_server_comes_from_with_their_keys() {
        let sources = [
            "Types: deb\nURIs: http://mirror.example/debian/\nSuites: bookworm\nSigned-By: /k/a.gpg\n"
                .to_owned(),
            "deb [arch=amd64 signed-by=/k/other.gpg] http://other.example/debian x main\n".to_owned(),
        ];
        assert_eq!(
            source_lines(POLICY, &sources),
            [
                "deb-src http://mirror.example/debian-security bookworm-security main",
                "deb-src [signed-by=/k/a.gpg] http://mirror.example/debian bookworm main",
            ]
        );
        assert_eq!(key_of("http://other.example/debian", &sources).as_deref(), Some("/k/other.gpg"));
    }

    #[test]
    fn the_exact_source_comes_first_then_the_nearest_patch_release_of_the_series() {
        let known = ["1:10.11.6-0+deb12u1", "1:10.11.18-0+deb12u1", "1:11.4.2-1", "1:10.11.19-0+deb12u1"];
        let known = known.map(str::to_owned);
        assert_eq!(
            candidates(&known, "1:10.11.19-0+deb12u1"),
            ["1:10.11.19-0+deb12u1", "1:10.11.18-0+deb12u1", "1:10.11.6-0+deb12u1"]
        );
        assert!(candidates(&known, "1:10.5.1-1").is_empty());
    }
}
