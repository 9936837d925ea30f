//! The book: what experiments have found, each kept in a file of its own as soon as it is known. So
//! a book grows over several runs, and a run that is ended loses one experiment at most.

use super::bars::Bars;
use super::finding::{Finding, Record};
use crate::report::of_this_machine;
use crate::result::to_json;
use output::failure::{Failure, Outcome};
use output::report::page::{Page, Table};
use output::report::plot::Plot;
use output::report::{self, PAGE};
use output::units::show_date;
use output::write_json;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const TITLE: &str = "Experiments, repeated";
const LEAD: &str =
    "Published figures beside those of this machine: InnoDB, Millpond, and the bound by first principles.";
/// The same as the page for those who read files.
const MARKDOWN: &str = "book.md";

/// What one experiment has found, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Chapter {
    #[serde(flatten)]
    record: Record,
    command: String,
    /// When it ended.
    date: String,
    machine: Vec<(String, String)>,
}

/// A directory with the findings of one run or of several.
#[derive(Debug)]
pub(crate) struct Book<'a> {
    dir: &'a Path,
    /// All experiments in their order.
    ids: &'a [&'static str],
}

impl<'a> Book<'a> {
    /// Returns the book of a directory, which may be new. Fails if it has a page of somebody else,
    /// or a finding that cannot be read.
    pub(crate) fn open(dir: &'a Path, ids: &'a [&'static str]) -> Outcome<Book<'a>> {
        let cannot = |e: io::Error| Failure::misuse(format!("cannot make {}: {e}", dir.display()));
        fs::create_dir_all(dir).map_err(cannot)?;
        let book = Book { dir, ids };
        report::claim_for(dir, &book.pages()?)?;
        Ok(book)
    }

    /// Keeps a finding, instead of an older one of the same experiment, and makes the pages anew.
    /// Returns the path of the page.
    pub(crate) fn add(&self, record: &Record, now_us: u64) -> Outcome<String> {
        let machine = of_this_machine().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let (command, date) = (report::command(), show_date(now_us));
        self.keep(&Chapter { record: record.clone(), command, date, machine })?;
        let pages = self.pages()?;
        report::write(report::claim_for(self.dir, &pages)?, &pages)
    }

    /// Writes a finding under another name first: a run that is ended leaves the older one whole.
    fn keep(&self, chapter: &Chapter) -> Outcome {
        let path = self.path(&chapter.record.id);
        let new = path.with_extension("new");
        write_json(&new, &to_json(chapter))?;
        fs::rename(&new, &path).map_err(|e| Failure::failed(format!("cannot write {}: {e}", path.display())))
    }

    fn path(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.finding.json"))
    }

    /// Reads what was found, in the order of the experiments.
    fn chapters(&self) -> Outcome<Vec<Chapter>> {
        let mut chapters = Vec::new();
        for id in self.ids {
            let path = self.path(id);
            let text = match fs::read_to_string(&path) {
                Ok(text) => text,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(Failure::misuse(format!("cannot read {}: {e}", path.display()))),
            };
            chapters.push(serde_json::from_str(&text).map_err(|e| {
                let path = path.display();
                Failure::misuse(format!("{path} is damaged: {e}. Remove it, and run {id} again"))
            })?);
        }
        Ok(chapters)
    }

    /// Returns the pages and the pictures of the book, with their names.
    fn pages(&self) -> Outcome<Vec<(String, String)>> {
        let chapters = self.chapters()?;
        let mut files: Vec<(String, String)> =
            chapters.iter().map(|chapter| chapter.record.picture().file()).collect();
        files.push((MARKDOWN.to_owned(), markdown(&chapters)));
        files.push((PAGE.to_owned(), self.page(&chapters)));
        Ok(files)
    }

    fn page(&self, chapters: &[Chapter]) -> String {
        let mut page = Page::new(TITLE, LEAD);
        for chapter in chapters {
            let Record { id, article, claim, finding } = &chapter.record;
            page.section(&format!("{id}: {article}"));
            page.paragraph(&format!("The article: {claim}."));
            page.still(&chapter.record.picture());
            page.table(&finding.table());
            page.facts(&chapter.facts());
            page.command(&chapter.command);
            let runs = self.reports(id);
            if !runs.is_empty() {
                page.files("Its runs:", &runs);
            }
        }
        page.finish(concat!("Millpond ", env!("CARGO_PKG_VERSION"), "."))
    }

    /// Returns the pages of an experiment's runs.
    fn reports(&self, id: &str) -> Vec<String> {
        let entries = fs::read_dir(self.dir).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let own = names.filter(|name| name.strip_prefix(id).is_some_and(|rest| rest.starts_with('-')));
        let pages = own.map(|name| format!("{name}/{PAGE}"));
        let mut pages: Vec<String> = pages.filter(|page| self.dir.join(page).exists()).collect();
        pages.sort();
        pages
    }
}

impl Record {
    fn picture(&self) -> Bars<'_> {
        Bars { id: &self.id, claim: &self.claim, finding: &self.finding }
    }
}

impl Chapter {
    fn facts(&self) -> [(&'static str, String); 5] {
        let Finding { holds, scaled, seconds, check, .. } = &self.record.finding;
        let machine: Vec<&str> = self.machine.iter().map(|(_, value)| value.as_str()).collect();
        [
            ("here", holds.clone()),
            ("scaled", scaled.clone()),
            ("took", format!("{seconds:.0} s, until {}", self.date)),
            ("machine", machine.join("; ")),
            ("check", check.clone()),
        ]
    }
}

/// Returns all chapters as Markdown.
fn markdown(chapters: &[Chapter]) -> String {
    let mut out = format!("# {TITLE}\n\n{LEAD}\n");
    for chapter in chapters {
        let Record { id, article, claim, finding } = &chapter.record;
        let _ = writeln!(out, "\n## {id}\n\n{article}: *{claim}.*\n\n![{id}]({id}.svg)\n");
        out += &markdown_table(&finding.table());
        out.push('\n');
        for (name, text) in chapter.facts() {
            let _ = writeln!(out, "- {name}: {text}");
        }
        let _ = writeln!(out, "\n```\n{}\n```", chapter.command);
    }
    out
}

fn markdown_table(table: &Table) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | ").replace('\n', " "));
    let rule: Vec<String> = table.columns.iter().map(|_| "---".to_owned()).collect();
    let rows = table.rows.iter().map(|row| line(row));
    [line(&table.columns), line(&rule)].into_iter().chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::super::about::About;
    use super::super::finding::Row;
    use super::*;
    use crate::scratch::Scratch;

    const IDS: [&str; 2] = ["D2.B19", "D3.B13"];

    fn record(id: &'static str, rate: f64) -> Record {
        let about = About { id, with: &[], article: "Somebody", claim: "It is fast" };
        let finding = Finding {
            rows: vec![Row::new("rate", Some("5 300"), Some(rate), Some(4.0 * rate), "a second")],
            holds: "It holds.".to_owned(),
            scaled: "Nothing.".to_owned(),
            seconds: 3.5,
            check: "ok".to_owned(),
        };
        Record::new(&about, finding)
    }

    #[test]
    fn a_book_grows_over_several_runs() {
        let scratch = Scratch::new("book");
        let dir = scratch.0.join("deep/book");
        Book::open(&dir, &IDS).unwrap().add(&record("D3.B13", 7.0), 0).unwrap();
        fs::create_dir_all(dir.join("D3.B13-innodb")).unwrap();
        fs::write(dir.join("D3.B13-innodb").join(PAGE), "").unwrap();
        let book = Book::open(&dir, &IDS).unwrap();
        book.add(&record("D2.B19", 250.0), 0).unwrap();
        book.add(&record("D2.B19", 251.0), 0).unwrap();
        let page = fs::read_to_string(dir.join(PAGE)).unwrap();
        let (first, second) = (page.find("D2.B19: Somebody"), page.find("D3.B13: Somebody"));
        assert!(first.is_some() && first < second, "the order is that of the experiments");
        assert!(page.contains(">251<") && !page.contains(">250<"), "the newer finding counts");
        assert!(page.contains("href=\"D3.B13-innodb/index.html\""));
        assert!(dir.join("D2.B19.svg").exists() && dir.join("D3.B13.svg").exists());
        let text = fs::read_to_string(dir.join(MARKDOWN)).unwrap();
        assert!(text.contains("| rate | 5 300 | 251 | 1004 | - | - | a second |"), "{text}");
        assert!(text.contains("- took: 4 s, until 1970-01-01T00:00:00Z"), "{text}");
    }

    #[test]
    fn a_damaged_finding_and_a_page_of_somebody_else_are_named() {
        let scratch = Scratch::new("no-book");
        let refused = || Book::open(&scratch.0, &IDS).unwrap_err().to_string();
        fs::write(scratch.0.join("D2.B19.finding.json"), "{\"id\": 3}").unwrap();
        let damaged = refused();
        assert!(damaged.contains("D2.B19.finding.json is damaged"), "{damaged}");
        assert!(damaged.ends_with("Remove it, and run D2.B19 again"), "{damaged}");
        fs::remove_file(scratch.0.join("D2.B19.finding.json")).unwrap();
        fs::write(scratch.0.join(PAGE), "<html>").unwrap();
        assert!(refused().contains(PAGE));
    }
}
