//! The public API of the crate `millpond`, as text in `docs/api.txt`.
//!
//! CI compares the file with the API that the compiler sees, so that every change is noticed.
//! Updating the file is refused if the change breaks programs and the changelog does not say so.
//! Such an item must be named below `### Breaking` of the section `## Unreleased`.

mod render;

use checkout::{cargo_program, root};
use render::{Crate, surface};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

const FILE: &str = "docs/api.txt";
/// The crate, and the crates from which it re-exports.
const PACKAGES: [&str; 2] = ["millpond", "millpond-metrics"];
/// The version of rustdoc's JSON format that `render` reads: that of the compiler in
/// `rust-version`.
const FORMAT: u64 = 57;

/// Fails if the API differs from the file, or if the file breaks the released API.
pub(crate) fn check() -> Result<(), String> {
    let now = now()?;
    let kept = kept()?;
    if let Some(released) = released()? {
        refuse_breaks(&released, &kept, &changelog()?)?;
    }
    if now == kept {
        return Ok(());
    }
    for (sign, line) in difference(&kept, &now) {
        eprintln!("{sign} {line}");
    }
    Err(format!("the public API differs from {FILE}; if that is meant: cargo xtask api --write"))
}

/// Updates the file.
pub(crate) fn write() -> Result<(), String> {
    let now = now()?;
    refuse_breaks(&kept()?, &now, &changelog()?)?;
    fs::write(root().join(FILE), now).map_err(|e| format!("cannot write {FILE}: {e}"))
}

fn kept() -> Result<String, String> {
    match fs::read_to_string(root().join(FILE)) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        other => other.map_err(|e| format!("cannot read {FILE}: {e}")),
    }
}

fn changelog() -> Result<String, String> {
    fs::read_to_string(root().join("CHANGELOG.md")).map_err(|e| format!("cannot read CHANGELOG.md: {e}"))
}

/// Returns the file of the latest release, if there was one and git can show it.
fn released() -> Result<Option<String>, String> {
    let git = |args: &[&str]| {
        let out = Command::new("git").args(args).current_dir(root()).output().ok()?;
        out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
    };
    let tag = git(&["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"]);
    Ok(tag.and_then(|tag| git(&["show", &format!("{}:{FILE}", tag.trim())])))
}

/// Returns the API that the compiler sees.
fn now() -> Result<String, String> {
    let described = PACKAGES.iter().map(|package| describe(package)).collect::<Result<Vec<_>, _>>()?;
    let mut crates = described.iter().map(Crate);
    let Some(krate) = crates.next() else { return Ok(String::new()) };
    let mut text = surface(&krate, &crates.collect::<Vec<_>>()).join("\n");
    text.push('\n');
    Ok(text)
}

fn describe(package: &str) -> Result<Value, String> {
    // A target directory of its own: the environment variable below would make cargo rebuild
    // everything in the usual one.
    let target = checkout::target().join("api");
    let status = Command::new(cargo_program())
        .args(["rustdoc", "--quiet", "--lib", "--package", package, "--target-dir"])
        .arg(&target)
        .args(["--", "-Z", "unstable-options", "--output-format", "json"])
        .current_dir(root())
        // Rustdoc's JSON output is not a stable option yet.
        .env("RUSTC_BOOTSTRAP", "1")
        .status()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    if !status.success() {
        return Err(format!("rustdoc cannot describe {package}"));
    }
    let path = target.join("doc").join(package.replace('-', "_")).with_extension("json");
    let text = fs::read(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let described: Value =
        serde_json::from_slice(&text).map_err(|e| format!("{} is not JSON: {e}", path.display()))?;
    match described["format_version"].as_u64() {
        Some(FORMAT) => Ok(described),
        found => Err(format!(
            "this compiler writes JSON of format {found:?}, and api.rs reads format {FORMAT}: use the compiler of CI, or extend api.rs"
        )),
    }
}

/// Returns the lines that only one of the two texts has, each with its sign.
fn difference<'t>(before: &'t str, after: &'t str) -> Vec<(char, &'t str)> {
    let lines = |text: &'t str| text.lines().collect::<BTreeSet<_>>();
    let (before, after) = (lines(before), lines(after));
    let gone = before.difference(&after).map(|line| ('-', *line));
    gone.chain(after.difference(&before).map(|line| ('+', *line))).collect()
}

/// Returns the lines whose removal or addition breaks programs.
fn breaks<'t>(before: &'t str, after: &'t str) -> Vec<&'t str> {
    let has = |line: &str| before.lines().any(|l| l == line);
    difference(before, after)
        .into_iter()
        .filter(|(sign, line)| match (sign, line.split_once(' ')) {
            ('-', _) => true,
            // Without `#[non_exhaustive]` a program may match all variants, or write all fields.
            (_, Some(("variant", rest))) => owner(rest).is_some_and(|owner| has(&format!("enum {owner}"))),
            (_, Some(("field", rest))) => owner(rest).is_some_and(|owner| has(&format!("struct {owner}"))),
            _ => false,
        })
        .map(|(_, line)| line)
        .collect()
}

/// Returns the type of a member: `Receipt` for `Receipt::lsn: u64`.
fn owner(path: &str) -> Option<&str> {
    let name = path.split([' ', '(', '{']).next()?.trim_end_matches(':');
    Some(name.rsplit_once("::")?.0)
}

/// Returns the name that the changelog must use for the item of a line: `Db::begin`, or `Db` for a
/// type or a trait that it implements.
fn item(line: &str) -> &str {
    let line = line.strip_prefix("#[non_exhaustive] ").unwrap_or(line);
    let name = match line.split_once(" for ") {
        Some((of, name)) if of.starts_with("impl") => name,
        _ => line
            .split(' ')
            .find(|word| {
                ![
                    "const", "async", "unsafe", "fn", "field", "variant", "struct", "enum", "type", "mod",
                    "use",
                ]
                .contains(word)
            })
            .unwrap_or(line),
    };
    name.split(['<', '(', ' ']).next().unwrap_or(name).trim_end_matches(':')
}

/// Returns the text of the changelog below `### Breaking` of `## Unreleased`.
fn announced(changelog: &str) -> &str {
    let Some((_, rest)) = changelog.split_once("\n## Unreleased") else { return "" };
    let unreleased = rest.split("\n## ").next().unwrap_or("");
    let Some((_, rest)) = unreleased.split_once("\n### Breaking") else { return "" };
    rest.split("\n### ").next().unwrap_or("")
}

fn refuse_breaks(before: &str, after: &str, changelog: &str) -> Result<(), String> {
    let announced = announced(changelog);
    let silent: Vec<&str> = breaks(before, after)
        .into_iter()
        .filter(|line| !announced.contains(&format!("`{}`", item(line))))
        .collect();
    if silent.is_empty() {
        return Ok(());
    }
    silent.iter().for_each(|line| eprintln!("breaks programs: {line}"));
    Err("CHANGELOG.md has to name each of these items in backticks, below `### Breaking` of `## Unreleased`"
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "\
#[non_exhaustive] enum Error
enum Durability
variant Durability::Sync
struct Db { .. }
impl Send for Db
fn Db::begin(&self) -> Result<Transaction>
struct Point
field Point::x: u64
";

    fn broken(from: &str, to: &str) -> Vec<String> {
        let after = BEFORE.replace(from, to);
        breaks(BEFORE, &after).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn additions_break_no_program_unless_it_could_name_all_members() {
        let begin = "fn Db::begin(&self) -> Result<Transaction>\n";
        assert!(broken(begin, &format!("{begin}fn Db::end(&self)\n")).is_empty());
        assert!(broken("enum Error\n", "enum Error\nvariant Error::New(u8)\n").is_empty());
        assert_eq!(
            broken("Durability::Sync\n", "Durability::Sync\nvariant Durability::New\n"),
            ["variant Durability::New"]
        );
        assert_eq!(broken("x: u64\n", "x: u64\nfield Point::y: u64\n"), ["field Point::y: u64"]);
        assert!(broken(".. }\n", ".. }\nfield Db::y: u64\n").is_empty());
    }

    #[test]
    fn removals_and_changes_must_be_announced_by_name() {
        assert_eq!(broken("impl Send for Db\n", ""), ["impl Send for Db"]);
        let changed = broken("(&self)", "(&mut self)");
        assert_eq!(changed, ["fn Db::begin(&self) -> Result<Transaction>"]);
        let after = BEFORE.replace("(&self)", "(&mut self)");
        let says = |text: &str| refuse_breaks(BEFORE, &after, text).is_ok();
        assert!(says(
            "# Changelog\n\n## Unreleased\n\n### Breaking\n\n- `Db::begin` takes `&mut self`.\n\n### Else\n"
        ));
        assert!(!says("# Changelog\n\n## Unreleased\n\n- `Db::begin` takes `&mut self`.\n"));
        assert!(!says("# Changelog\n\n## Unreleased\n\n## 1.0\n\n### Breaking\n\n- `Db::begin`\n"));
        assert!(!says("# Changelog\n\n## Unreleased\n\n### Breaking\n\n- `Db::begin_with`\n"));
    }

    #[test]
    fn items_have_names() {
        for (line, name) in [
            ("fn Db::bulk_load<K, V>(&self) -> Result<Table> where K: AsRef", "Db::bulk_load"),
            ("const fn f()", "f"),
            ("#[non_exhaustive] struct Receipt", "Receipt"),
            ("field Receipt::lsn: u64", "Receipt::lsn"),
            ("variant Error::Io { file: PathBuf }", "Error::Io"),
            ("impl Iterator for Range<'_> { Item = u8 }", "Range"),
            ("type Result<T = (), E = Error> = X", "Result"),
        ] {
            assert_eq!(item(line), name, "{line}");
        }
    }
}
