//! Functions that can be read at a glance: at most so many lines, and at most so many arguments.
//! The arguments of a function of a foreign trait are that trait's.

use super::problem::Report;
use super::source::{File, Tree, is_ident, line_of, matching_brace, whole_words};
use std::ops::Range;

/// The longest function, in lines, from `fn` to its closing brace.
const LINES_MAX: usize = 70;
/// The most arguments of a function, `self` included.
const ARGUMENTS_MAX: usize = 7;

/// Traits of other crates with functions of more arguments.
const FOREIGN: &[&str] = &["Filesystem"];

/// A function of a file.
#[derive(Debug, PartialEq, Eq)]
struct Function<'c> {
    name: &'c str,
    line: usize,
    lines: usize,
    arguments: usize,
}

pub(super) fn check(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.rust() {
        check_file(file, report);
    }
}

fn check_file(file: &File, report: &mut Report<'_>) {
    let foreign = foreign_lines(&file.code);
    for Function { name, line, lines, arguments } in functions(&file.code) {
        if lines > LINES_MAX {
            let what =
                format!("`{name}` has {lines} lines, at most {LINES_MAX} are allowed: split it by idea");
            report(&file.path, line, what);
        }
        if arguments > ARGUMENTS_MAX && !foreign.iter().any(|lines| lines.contains(&line)) {
            let what = format!(
                "`{name}` has {arguments} arguments, at most {ARGUMENTS_MAX} are allowed: make a parameter struct"
            );
            report(&file.path, line, what);
        }
    }
}

/// Returns the lines of the implementations of foreign traits.
fn foreign_lines(code: &str) -> Vec<Range<usize>> {
    let implementation = |at: usize| {
        let of = code[at..].strip_prefix("impl")?.split_whitespace().next()?;
        let open = at + code[at..].find('{')?;
        let lines = line_of(code, at)..line_of(code, matching_brace(code, open));
        FOREIGN.contains(&of).then_some(lines)
    };
    whole_words(code, "impl").into_iter().filter_map(implementation).collect()
}

/// Returns all functions of code without comments. A function without a body has one line.
fn functions(code: &str) -> Vec<Function<'_>> {
    let function = |at: usize| {
        let name_at = at + 2 + code[at + 2..].find(|c: char| !c.is_whitespace())?;
        let name = &code[name_at..];
        let name = &name[..name.find(|c| !is_ident(c)).unwrap_or(name.len())];
        // `fn(u8)` is a type.
        if name.is_empty() {
            return None;
        }
        let open = arguments_at(code, name_at + name.len())?;
        let (arguments, close) = count_arguments(code, open)?;
        let end = body_at(code, close).map_or(at, |body| matching_brace(code, body));
        let lines = code[at..end].matches('\n').count() + 1;
        Some(Function { name, line: line_of(code, at), lines, arguments })
    };
    whole_words(code, "fn").into_iter().filter_map(function).collect()
}

/// Returns where the parenthesis is that opens the arguments, after the generics if there are any.
fn arguments_at(code: &str, from: usize) -> Option<usize> {
    let mut angles = Angles::default();
    code[from..].char_indices().find(|(_, c)| angles.next(*c) == 0 && *c == '(').map(|(n, _)| from + n)
}

/// Counts the arguments in the parentheses that open at `open`. Returns where they close, too.
fn count_arguments(code: &str, open: usize) -> Option<(usize, usize)> {
    let (mut angles, mut depth, mut count, mut empty) = (Angles::default(), 0, 0, true);
    for (n, c) in code[open..].char_indices() {
        let outside = angles.next(c) == 0;
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 1 && outside => {
                count += usize::from(!empty);
                empty = true;
                continue;
            }
            _ => {}
        }
        if depth == 0 {
            return Some((count + usize::from(!empty), open + n + 1));
        }
        empty &= n == 0 || c.is_whitespace();
    }
    None
}

/// Returns where the body opens after the arguments; `None` if there is none.
fn body_at(code: &str, from: usize) -> Option<usize> {
    let mut depth = 0;
    for (n, c) in code[from..].char_indices() {
        match c {
            // `[u8; 4]`
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '{' if depth == 0 => return Some(from + n),
            ';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Counts open angle brackets. The `>` of `->` and of `=>` is none.
#[derive(Default)]
struct Angles {
    depth: usize,
    before: Option<char>,
}

impl Angles {
    /// Returns the depth after `c`.
    fn next(&mut self, c: char) -> usize {
        match (self.before.replace(c), c) {
            (_, '<') => self.depth += 1,
            (Some('-' | '='), '>') => {}
            (_, '>') => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.depth
    }
}

#[cfg(test)]
mod tests {
    use super::super::made::{PATH, found_in_text};
    use super::*;

    fn found(text: &str) -> Vec<String> {
        found_in_text(&[(PATH, text)], check)
    }

    #[test]
    fn functions_are_found_with_lines_and_arguments() {
        let code = "fn a() {}\ntrait T {\n    fn b(&self, n: [u8; 2]) -> [u8; 2];\n}\n\
                    fn c<F: Fn(u8, u8) -> u8>(\n    f: F,\n    g: fn(u8) -> Map<u8, (u8, u8)>,\n) -> u8 {\n    1\n}\n";
        let function = |name, line, lines, arguments| Function { name, line, lines, arguments };
        assert_eq!(functions(code), [function("a", 1, 1, 0), function("b", 3, 1, 2), function("c", 5, 6, 2)]);
    }

    #[test]
    fn a_long_function_is_found() {
        let body = |lines: usize| {
            format!("//! x\nfn long() {{\n{}}}\nfn short() {{}}\n", "    x();\n".repeat(lines))
        };
        assert!(found(&body(LINES_MAX - 2)).is_empty());
        let problems = found(&body(LINES_MAX - 1));
        assert_eq!(
            problems,
            ["crates/a/src/lib.rs:2: `long` has 71 lines, at most 70 are allowed: split it by idea"]
        );
    }

    #[test]
    fn many_arguments_are_found() {
        let text = |n: usize| format!("fn many({}) {{}}\n", "a: Map<u8, u8>, ".repeat(n));
        assert!(found(&text(ARGUMENTS_MAX)).is_empty());
        assert_eq!(
            found(&text(ARGUMENTS_MAX + 1)),
            ["crates/a/src/lib.rs:1: `many` has 8 arguments, at most 7 are allowed: make a parameter struct"]
        );
    }

    #[test]
    fn the_arguments_of_a_foreign_trait_are_not_ours() {
        let text =
            |name: &str| format!("impl {name} for A {{\n    fn many({}) {{}}\n}}\n", "a: u8, ".repeat(8));
        assert!(found(&text("Filesystem")).is_empty());
        assert_eq!(found(&text("Disk")).len(), 1);
    }
}
