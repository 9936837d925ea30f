//! Counts the instructions of an operation, and where they are, with valgrind's callgrind. The
//! result does not depend on the load of the machine.
//!
//! The program `instructions` of `lab` does the same operation [`FEW`] and [`MANY`] times. The
//! difference, divided by the difference of the counts, is one operation without set-up. Only
//! instructions of the process are counted, not those of the kernel. The calling thread is counted
//! separately from the threads of the engine, because the work of those depends on time.

use checkout::{cargo, target};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const FEW: u64 = 2_000;
const MANY: u64 = 20_000;
/// The operations of the program, and their descriptions.
const KINDS: [(&str, &str); 6] = [
    ("update", "a durable update of one row"),
    ("unsynced", "an update of one row that is not synced"),
    ("read", "a transaction that reads one row"),
    ("get", "a read of one row in a transaction"),
    ("scan", "a transaction that scans 100 rows"),
    ("cursor", "a transaction in which a cursor reads 100 rows"),
];
/// A part with a smaller share of all instructions is not printed.
const LEAST_SHARE: f64 = 0.01;
/// How many functions are printed.
const FUNCTIONS: usize = 12;

/// Instructions by part of the program.
type Parts = BTreeMap<String, u64>;

/// The instructions of one run: of the calling thread, of all other threads, and of the calling
/// thread by function.
#[derive(Default)]
struct InstructionCounts {
    caller: Parts,
    others: Parts,
    functions: Parts,
}

/// Counts and prints.
pub(crate) fn run() -> Result<(), String> {
    need_valgrind()?;
    cargo(&["build", "--release", "--package", "lab", "--bin", "instructions"])?;
    let target = target();
    let program = target.join("release/instructions");
    let dir = target.join(format!("instructions-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(|e| format!("cannot create {}: {e}", dir.display()))?;
    let outcome = KINDS.iter().try_for_each(|(kind, name)| {
        let few = count(&program, &dir, kind, FEW)?;
        let many = count(&program, &dir, kind, MANY)?;
        print(name, &few, &many);
        Ok(())
    });
    let removed = std::fs::remove_dir_all(&dir).map_err(|e| format!("cannot remove {}: {e}", dir.display()));
    outcome.and(removed)
}

fn need_valgrind() -> Result<(), String> {
    let found = || Command::new("valgrind").arg("--version").output().is_ok_and(|out| out.status.success());
    if found() {
        return Ok(());
    }
    let root = Command::new("id").arg("-u").output().is_ok_and(|out| out.stdout == b"0\n");
    let apt =
        |args: &[&str]| Command::new("apt-get").args(args).status().is_ok_and(|status| status.success());
    if root && apt(&["install", "-y", "valgrind"]) && found() {
        return Ok(());
    }
    Err("valgrind is not installed: `apt-get install valgrind`, or what your system has instead, as root"
        .into())
}

fn count(program: &Path, dir: &Path, kind: &str, times: u64) -> Result<InstructionCounts, String> {
    let (db, out) = (dir.join("db"), format!("{kind}-{times}"));
    let done = Command::new("valgrind")
        .args(["--tool=callgrind", "--separate-threads=yes"])
        .arg(format!("--callgrind-out-file={}", dir.join(&out).display()))
        .arg(program)
        .args([kind, &times.to_string()])
        .arg(&db)
        .output()
        .map_err(|e| format!("cannot start valgrind: {e}"))?;
    if !done.status.success() {
        return Err(format!("valgrind failed: {}", String::from_utf8_lossy(&done.stderr)));
    }
    std::fs::remove_dir_all(&db).map_err(|e| format!("cannot remove {}: {e}", db.display()))?;
    let mut counted = InstructionCounts::default();
    for entry in std::fs::read_dir(dir).map_err(|e| e.to_string())? {
        let path = entry.map_err(|e| e.to_string())?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(thread) = name.strip_prefix(&out).and_then(|rest| rest.strip_prefix('-')) else { continue };
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        if thread == "01" {
            add_up(&text, &mut counted.caller, Some(&mut counted.functions));
        } else {
            add_up(&text, &mut counted.others, None);
        }
    }
    if counted.caller.is_empty() {
        return Err("valgrind has written nothing about the thread that calls the engine".into());
    }
    Ok(counted)
}

/// Adds up a file in callgrind's format (valgrind manual, "Callgrind Format Specification"). A name
/// is written once, with a number; later lines have only the number.
fn add_up(text: &str, parts: &mut Parts, mut functions: Option<&mut Parts>) {
    let (mut files, mut names) = (BTreeMap::new(), BTreeMap::new());
    // The file of the function, the file of the line that was inlined into it, and the function's
    // name.
    let (mut own, mut inlined, mut function) = (String::new(), String::new(), String::new());
    let mut of_call = false;
    for line in text.lines() {
        if let Some((kind, name)) = line.split_once('=') {
            match kind {
                "fl" => {
                    own = named(name, &mut files);
                    inlined.clone_from(&own);
                }
                "fi" | "fe" => inlined = named(name, &mut files),
                "cfi" | "cfl" => drop(named(name, &mut files)),
                "fn" => {
                    function = named(name, &mut names);
                    inlined.clone_from(&own);
                }
                "cfn" => drop(named(name, &mut names)),
                // The next line has the cost of the called function, which is counted there.
                "calls" => of_call = true,
                _ => {}
            }
            continue;
        }
        let mut words = line.split(' ');
        let is_place =
            words.next().is_some_and(|w| w.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)));
        let Some(cost) = words.next().and_then(|w| w.parse::<u64>().ok()).filter(|_| is_place) else {
            continue;
        };
        if std::mem::take(&mut of_call) {
            continue;
        }
        *parts.entry(part(&own, &inlined, &function)).or_default() += cost;
        if let Some(functions) = &mut functions {
            *functions.entry(short(&function)).or_default() += cost;
        }
    }
}

/// Returns the name of `text`. `(7) name` defines the number 7, `(7)` uses it.
fn named(text: &str, known: &mut BTreeMap<String, String>) -> String {
    let (number, name) = text.split_once(' ').unwrap_or((text, ""));
    if name.is_empty() {
        return known.get(number).cloned().unwrap_or_else(|| text.to_owned());
    }
    known.insert(number.to_owned(), name.to_owned());
    name.to_owned()
}

/// Returns the module of an instruction: that of its source line, or, for inlined lines of the
/// standard library, that of the function.
fn part(own: &str, inlined: &str, function: &str) -> String {
    if let Some(module) = module(inlined).or_else(|| module(own)) {
        return module;
    }
    let function = function.trim_start_matches('_');
    let of = |names: &[&str]| names.iter().any(|name| function.starts_with(name));
    if of(&["mem", "bcmp"]) {
        "copying, comparing and filling memory"
    } else if of(&[
        "malloc",
        "free",
        "calloc",
        "realloc",
        "int_malloc",
        "int_free",
        "rust_alloc",
        "rust_dealloc",
        "rdl_",
        "rust::alloc",
        "posix_memalign",
        "unlink_chunk",
    ]) {
        "the allocator"
    } else if own.contains("crc32c") || function.contains("crc32c") {
        "checksums"
    } else {
        "the standard library and libc"
    }
    .to_owned()
}

/// Returns the module of a file: `log` for `…/crates/millpond/src/log/ring.rs`, `vfs` for
/// `…/crates/vfs/src/os.rs`.
fn module(file: &str) -> Option<String> {
    let (_, inside) = file
        .split_once("crates/")
        // The crates of the compiler have such a folder, too.
        .filter(|(_, rest)| !rest.starts_with("core_arch/"))
        .filter(|(_, rest)| rest.contains("/src/"))?;
    let mut steps = inside.split('/');
    let (name, place, first) = (steps.next()?, steps.next()?, steps.next()?);
    Some(match (name, place) {
        ("millpond", "src") => first.trim_end_matches(".rs").to_owned(),
        ("base", "src") if first == "crc.rs" => "checksums".to_owned(),
        ("lab", "src") => "the counted program itself".to_owned(),
        _ => name.to_owned(),
    })
}

/// Returns a function's path without its hash and its address.
fn short(function: &str) -> String {
    let function = function.split('\'').next().unwrap_or(function);
    match function.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 => path.to_owned(),
        _ => function.to_owned(),
    }
}

/// Returns the instructions of one operation in each part, most first.
fn difference(few: &Parts, many: &Parts) -> Vec<(f64, String)> {
    let each = |(name, &count): (&String, &u64)| {
        let before = few.get(name).copied().unwrap_or(0);
        ((count as f64 - before as f64) / (MANY - FEW) as f64, name.clone())
    };
    let mut parts: Vec<_> = many.iter().map(each).collect();
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    parts
}

fn print(name: &str, few: &InstructionCounts, many: &InstructionCounts) {
    let parts = difference(&few.caller, &many.caller);
    let total: f64 = parts.iter().map(|(count, _)| count).sum();
    let others: f64 = difference(&few.others, &many.others).iter().map(|(count, _)| count).sum();
    println!("{name}: {total:.0} instructions; {others:.0} more in the engine's own threads");
    let functions = difference(&few.functions, &many.functions);
    for (what, lines, most) in [("by module", parts, usize::MAX), ("by function", functions, FUNCTIONS)] {
        println!("  {what}");
        for (count, name) in lines.iter().take(most).filter(|(count, _)| *count > total * LEAST_SHARE) {
            println!("    {count:>8.0} {:>5.1} %  {name}", count / total * 100.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_belong_to_their_source_line_and_calls_count_once() {
        let text = "\
events: Ir
fl=(1) /x/crates/millpond/src/log/ring.rs
fn=(1) millpond::log::ring::Ring::reserve::h0123456789abcdef
16 10
+3 5
fi=(2) /rustc/library/core/src/cell.rs
* 2
fe=(1)
fi=(3) /x/crates/base/src/ids.rs
7 4
cfn=(2) memcpy
calls=1 9
20 1000
fl=(4) ???
fn=(2)
0 30

fl=(1)
fn=(1)
30 1
";
        let (mut parts, mut functions) = (Parts::new(), Parts::new());
        add_up(text, &mut parts, Some(&mut functions));
        let parts: Vec<_> = parts.iter().map(|(name, count)| (&name[..], *count)).collect();
        assert_eq!(parts, [("base", 4), ("copying, comparing and filling memory", 30), ("log", 18)]);
        let functions: Vec<_> = functions.iter().map(|(name, count)| (&name[..], *count)).collect();
        assert_eq!(functions, [("memcpy", 30), ("millpond::log::ring::Ring::reserve", 22)]);
    }
}
