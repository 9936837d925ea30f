//! The error of a failed write names the pages.

use std::io;
use vfs::WriteOp;
use vfs::descriptor_cache::no_descriptor;
use vfs::fail_stop::is_full;

/// The most runs of pages that an error names.
const RUNS_MAX: usize = 3;

/// Returns the error with the pages that were to be written. One that may pass stays as it is.
pub(super) fn with_pages(error: io::Error, writes: &[WriteOp<'_>], page_bytes: usize) -> io::Error {
    if is_full(&error) || no_descriptor(&error) {
        return error;
    }
    let runs: Vec<(u64, u64)> = writes
        .iter()
        .map(|write| (write.offset / page_bytes as u64, (write.bytes.len() / page_bytes) as u64))
        .collect();
    io::Error::new(error.kind(), format!("{}: {error}", named(&runs)))
}

/// Names runs of pages: the first page of each, and how many there are.
fn named(runs: &[(u64, u64)]) -> String {
    let run = |&(first, pages): &(u64, u64)| match pages {
        1 => first.to_string(),
        _ => format!("{first} to {}", first + pages - 1),
    };
    let mut names: Vec<String> = runs.iter().take(RUNS_MAX).map(run).collect();
    if runs.len() > RUNS_MAX {
        names.push(format!("{} more runs", runs.len() - RUNS_MAX));
    }
    let what = if matches!(runs, [(_, 1)]) { "page" } else { "one of the pages" };
    format!("{what} {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_page_or_some_of_the_pages() {
        let table: [(&[(u64, u64)], &str); 4] = [
            (&[(7, 1)], "page 7"),
            (&[(7, 3)], "one of the pages 7 to 9"),
            (&[(7, 2), (20, 1)], "one of the pages 7 to 8, 20"),
            (&[(1, 1), (3, 1), (5, 1), (7, 1), (9, 4)], "one of the pages 1, 3, 5, 2 more runs"),
        ];
        for (runs, wanted) in table {
            assert_eq!(named(runs), wanted);
        }
    }

    /// A full disk is an error that may pass, and what tells it from others must stay.
    #[test]
    fn an_error_that_may_pass_stays_as_it_is() {
        let bytes = [0; 8192];
        let writes = [WriteOp { offset: 4096, bytes: &bytes }];
        let kept = |errno| with_pages(io::Error::from_raw_os_error(errno), &writes, 4096);
        let (io, full, files) = (5, 28, 24);
        assert_eq!([kept(full), kept(files)].map(|error| error.raw_os_error()), [Some(full), Some(files)]);
        let text = kept(io).to_string();
        assert!(text.starts_with("one of the pages 1 to 2: "), "{text}");
        assert!(text.ends_with("(os error 5)"), "{text}");
    }
}
