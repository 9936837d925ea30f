//! Option files of MySQL and MariaDB, read as their own clients read them.
//!
//! [`line()`] understands one line and is pure; [`read`] opens a file and what it includes. The
//! text is bytes: a comment may be in any character set. What the options mean is in `login`.

use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Clients read lines into a buffer of this size; the rest of a longer line is the next line.
const LINE_BYTES: usize = 4094;
/// Files include files to this depth.
const DEPTH: usize = 10;
/// What `!includedir` reads of a directory.
const EXTENSION: &[u8] = b".cnf";

/// An option: its name, and what follows `=`.
pub(crate) type FileOption = (Vec<u8>, Option<Vec<u8>>);

/// What an option file and the files that it includes say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The options of the groups that were asked for, in order.
    pub(crate) options: Vec<FileOption>,
    /// What was left out, in sentences.
    pub(crate) warnings: Vec<String>,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Line<'l> {
    Nothing,
    Group(&'l [u8]),
    Include(&'l [u8]),
    IncludeDir(&'l [u8]),
    Option(&'l [u8], Option<Vec<u8>>),
}

/// Reads a file: the options of these groups, which have no upper-case letters. `None` if the file
/// is not there. An error names the file and the line.
pub(crate) fn read(path: &Path, groups: &[&str]) -> Result<Option<Found>, String> {
    let mut found = Found::default();
    let there = file(path, groups, 0, &mut found)?;
    Ok(there.then_some(found))
}

/// Adds what a file says. Returns whether it can be read.
fn file(path: &Path, groups: &[&str], depth: usize, found: &mut Found) -> Result<bool, String> {
    let Ok(status) = fs::metadata(path) else { return Ok(false) };
    // A server can be made to write such a file, so no client believes it.
    if status.is_file() && status.mode() & 0o002 != 0 {
        found.warnings.push(format!("{} is ignored: everybody may write to it", path.display()));
        return Ok(true);
    }
    let Ok(text) = fs::read(path) else { return Ok(false) };
    // Whether the group is wanted; `None` before the first one.
    let mut wanted = None;
    for (number, bytes) in lines(&text).enumerate() {
        let wrong = |why: &str| format!("{}, line {}: {why}", path.display(), number + 1);
        match line(bytes).map_err(wrong)? {
            Line::Nothing => {}
            Line::Group(name) => {
                wanted = Some(groups.iter().any(|group| name.eq_ignore_ascii_case(group.as_bytes())));
            }
            Line::Include(_) | Line::IncludeDir(_) if depth >= DEPTH => {
                found.warnings.push(wrong("it is not included: the files include each other too deep"));
            }
            Line::Include(name) => included(&expanded(name), groups, depth + 1, found),
            Line::IncludeDir(name) => {
                let dir = expanded(name);
                let names = names(&dir).map_err(|e| wrong(&format!("cannot read {}: {e}", dir.display())))?;
                names.iter().for_each(|name| included(&dir.join(name), groups, depth + 1, found));
            }
            Line::Option(name, value) => match wanted {
                Some(true) => found.options.push((name.to_vec(), value)),
                Some(false) => {}
                None => return Err(wrong("an option stands before the first [group]")),
            },
        }
    }
    Ok(true)
}

/// Adds what an included file says, up to its first wrong line. It may be missing.
fn included(path: &Path, groups: &[&str], depth: usize, found: &mut Found) {
    if let Err(why) = file(path, groups, depth, found) {
        found.warnings.push(format!("{why}; the rest of this file is left out"));
    }
}

/// Returns the names of a directory's option files, sorted.
fn names(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        if name.as_bytes().ends_with(EXTENSION) {
            names.push(PathBuf::from(name));
        }
    }
    names.sort_by(|a, b| a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes()));
    Ok(names)
}

/// Returns a path, with the home directory for `~/`.
fn expanded(name: &[u8]) -> PathBuf {
    let path = |bytes: &[u8]| PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec()));
    match (name.strip_prefix(b"~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(path(rest)),
        _ => path(name),
    }
}

/// Splits a text into lines.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').flat_map(|line| line.chunks(LINE_BYTES))
}

/// A space in Latin-1, whatever the file is written in. So the last byte of "à" in UTF-8 is one.
fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' ' | 0xa0)
}

fn trimmed(text: &[u8]) -> &[u8] {
    let from = text.iter().position(|byte| !is_space(*byte)).unwrap_or(text.len());
    trimmed_end(&text[from..])
}

fn trimmed_end(text: &[u8]) -> &[u8] {
    let to = text.iter().rposition(|byte| !is_space(*byte)).map_or(0, |last| last + 1);
    &text[..to]
}

/// Understands a line. An error says what is wrong with it.
fn line(text: &[u8]) -> Result<Line<'_>, &'static str> {
    let text = trimmed(text.split(|byte| *byte == 0).next().unwrap_or_default());
    match text.first() {
        None | Some(b'#' | b';') => Ok(Line::Nothing),
        Some(b'!') => directive(trimmed(&text[1..])),
        Some(b'[') => {
            let end = text.iter().position(|byte| *byte == b']');
            let end = end.ok_or("the [ of a group lacks its ]")?;
            Ok(Line::Group(trimmed_end(&text[1..end])))
        }
        Some(_) => Ok(option(text)),
    }
}

/// Understands what follows `!`. An unknown word is ignored.
fn directive(text: &[u8]) -> Result<Line<'_>, &'static str> {
    let end = text.iter().position(|byte| is_space(*byte)).unwrap_or(text.len());
    let argument = trimmed(&text[end..]);
    match &text[..end] {
        b"includedir" | b"include" if argument.is_empty() => Err("the name of what to include is missing"),
        b"includedir" => Ok(Line::IncludeDir(argument)),
        b"include" => Ok(Line::Include(argument)),
        _ => Ok(Line::Nothing),
    }
}

fn option(text: &[u8]) -> Line<'_> {
    let text = without_comment(text);
    match text.iter().position(|byte| *byte == b'=') {
        None => Line::Option(trimmed_end(text), None),
        Some(at) => Line::Option(trimmed_end(&text[..at]), Some(value(trimmed(&text[at + 1..])))),
    }
}

/// Cuts off what follows a `#` that is not in quotes. In quotes a backslash protects a quote.
fn without_comment(text: &[u8]) -> &[u8] {
    let (mut quote, mut escaped) = (None, false);
    for (at, byte) in text.iter().enumerate() {
        match (byte, quote) {
            (b'"' | b'\'', None) => quote = Some(*byte),
            (_, Some(begun)) if *byte == begun && !escaped => quote = None,
            (b'#', None) => return &text[..at],
            _ => {}
        }
        escaped = quote.is_some() && *byte == b'\\' && !escaped;
    }
    text
}

/// Takes the quotes around a value off, and understands its escapes.
fn value(text: &[u8]) -> Vec<u8> {
    let text = match text {
        [first @ (b'"' | b'\''), inner @ .., last] if first == last => inner,
        _ => text,
    };
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'n') => out.push(b'\n'),
            Some(b't') => out.push(b'\t'),
            Some(b'r') => out.push(b'\r'),
            Some(b'b') => out.push(8),
            Some(b's') => out.push(b' '),
            Some(quoted @ (b'"' | b'\'' | b'\\')) => out.push(quoted),
            Some(other) => out.extend([b'\\', other]),
            None => out.push(b'\\'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::login::GROUPS;
    use crate::scratch::Scratch;
    use base::prng::Prng;
    use expect_test::expect;
    use std::process::Command;

    #[test]
    fn lines_as_the_clients_understand_them() {
        let mut out = String::new();
        for text in [
            "",
            " # comment",
            ";comment",
            "[client ] # comment",
            "[ Client]",
            "[client",
            "password=a#b",
            "password = \"a#b\" # comment",
            "password='it''s #1'",
            "password=\"a\\\"#b\"",
            "password=\"half",
            "password=a\\sb\\\\c\\q\\",
            "password=\"'",
            "password='",
            "password=",
            "password",
            "a b = c = d ",
            "=x",
            "!include /etc/a b.cnf ",
            "! includedir\t/etc",
            "!include",
            "!other thing",
            "user=nul\0more",
        ] {
            let said = match line(text.as_bytes()) {
                Ok(Line::Nothing) => "nothing".to_owned(),
                Ok(Line::Group(name)) => format!("group {:?}", name.escape_ascii().to_string()),
                Ok(Line::Include(name)) => format!("include {:?}", name.escape_ascii().to_string()),
                Ok(Line::IncludeDir(name)) => format!("directory {:?}", name.escape_ascii().to_string()),
                Ok(Line::Option(name, value)) => {
                    let value = value.map(|value| value.escape_ascii().to_string());
                    format!("{:?} = {value:?}", name.escape_ascii().to_string())
                }
                Err(why) => format!("ERROR {why}"),
            };
            out.push_str(&format!("{:32} {said}\n", text.escape_default().to_string()));
        }
        expect![[r##"
                                             nothing
             # comment                       nothing
            ;comment                         nothing
            [client ] # comment              group "client"
            [ Client]                        group " Client"
            [client                          ERROR the [ of a group lacks its ]
            password=a#b                     "password" = Some("a")
            password = \"a#b\" # comment     "password" = Some("a#b")
            password=\'it\'\'s #1\'          "password" = Some("it\\'\\'s #1")
            password=\"a\\\"#b\"             "password" = Some("a\\\"#b")
            password=\"half                  "password" = Some("\\\"half")
            password=a\\sb\\\\c\\q\\         "password" = Some("a b\\\\c\\\\q\\\\")
            password=\"\'                    "password" = Some("\\\"\\'")
            password=\'                      "password" = Some("\\'")
            password=                        "password" = Some("")
            password                         "password" = None
            a b = c = d                      "a b" = Some("c = d")
            =x                               "" = Some("x")
            !include /etc/a b.cnf            include "/etc/a b.cnf"
            ! includedir\t/etc               directory "/etc"
            !include                         ERROR the name of what to include is missing
            !other thing                     nothing
            user=nul\u{0}more                "user" = Some("nul")
        "##]]
        .assert_eq(&out);
    }

    /// What a line may be made of.
    const PIECES: [&[u8]; 34] = [
        b"password",
        b"user",
        b"=",
        b" = ",
        b"=",
        b"'",
        b"\"",
        b"\\",
        b"#",
        b" #",
        b";",
        b" ",
        b"\t",
        b"\r",
        b"s",
        b"n",
        b"\\s",
        b"\\n",
        b"\\\\",
        b"\\\"",
        b"\\'",
        b"\xe0",
        b"\xc3\xa0",
        b"\xa0",
        b"]",
        b"[",
        b"!",
        b"loose-",
        b"_",
        b"x",
        b"\x0b",
        b"\0",
        b"0",
        b"",
    ];
    const HEADS: [&[u8]; 10] = [
        b"[client]",
        b"[Client]",
        b"[CLIENT ]",
        b" [client]x",
        b"[ client]",
        b"[mysqld]",
        b"[mysql]",
        b"[clients]",
        b"[client-server]",
        b"[client][mysqld]",
    ];

    /// Writes a file that a generator makes of pieces; with `others`, it includes files of its
    /// directory.
    fn write(prng: &mut Prng, path: &Path, others: bool) {
        let mut pick = |n: usize| prng.below(n as u64) as usize;
        let mut text = Vec::new();
        if pick(8) > 0 {
            text.extend([HEADS[pick(3)], b"\n"].concat());
        }
        for _ in 0..pick(12) {
            match pick(10) {
                0 | 1 => text.extend(HEADS[pick(HEADS.len())]),
                2 if others => {
                    let dir = path.parent().unwrap().display();
                    let what = [
                        "!include {}/one.cnf",
                        "!include {}/no.cnf",
                        "! includedir {}/d ",
                        "!includedir\t{}/d",
                    ];
                    text.extend(what[pick(what.len())].replace("{}", &dir.to_string()).bytes());
                }
                3 if pick(20) == 0 => text.extend(std::iter::repeat_n(b'y', 4000 + pick(300))),
                4 if pick(20) == 0 => text.extend(b"!include"),
                _ => {
                    text.extend([b"password", b"user".as_slice()][pick(2)]);
                    (0..pick(9)).for_each(|_| text.extend(PIECES[pick(PIECES.len())]));
                }
            }
            text.push(b'\n');
        }
        fs::write(path, text).unwrap();
    }

    /// The line that `my_print_defaults` prints for each option.
    fn printed(found: &Found) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, value) in &found.options {
            out.extend([b"--", name.as_slice()].concat());
            if let Some(value) = value {
                out.extend([b"=", value.as_slice()].concat());
            }
            out.push(b'\n');
        }
        out
    }

    /// Passwords with `#` and quotes, `\s`, `[Client]`, `!include` and comments in Latin-1 were
    /// read otherwise than the clients read them, or refused.
    #[test]
    fn files_are_read_as_the_servers_own_program_reads_them() {
        const FILES: u64 = 120;
        let program = "my_print_defaults";
        if Command::new(program).arg("--version").output().is_err() {
            assert!(std::env::var_os("MILLPOND_NEEDS_MARIADB").is_none(), "{program} is not installed");
            eprintln!("SKIPPED: {program} is not installed (Debian's package mariadb-client)");
            return;
        }
        for seed in 0..FILES {
            let scratch = Scratch::new("option-file");
            let mut prng = Prng::new(seed);
            let main = scratch.0.join("main.cnf");
            fs::create_dir(scratch.0.join("d")).unwrap();
            for name in ["one.cnf", "d/b.cnf", "d/a.x.cnf", "d/B.cnf", "d/no.txt", "d/.cnf"] {
                write(&mut prng, &scratch.0.join(name), false);
            }
            write(&mut prng, &main, true);
            let theirs = Command::new(program)
                .arg(format!("--defaults-file={}", main.display()))
                .args(GROUPS)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&theirs.stderr);
            let text = fs::read(&main).unwrap().escape_ascii().to_string();
            match read(&main, &GROUPS) {
                Ok(found) => {
                    let ours = printed(&found.unwrap());
                    assert!(theirs.status.success(), "{seed}: {said}: {text}");
                    let (ours, theirs) = (ours.escape_ascii(), theirs.stdout.escape_ascii());
                    assert_eq!(ours.to_string(), theirs.to_string(), "{seed}: {said}: {text}");
                }
                Err(why) => {
                    assert!(!theirs.status.success(), "{seed}: only this program says: {why}: {text}");
                }
            }
        }
    }
}
