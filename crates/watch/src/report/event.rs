//! The page of an event of `stalk`: the views on one axis with the moment marked, who blocked whom,
//! and the texts.

use super::views;
use crate::plot::Input;
use output::report::page::Page;
use output::report::svg;

/// A text of an event.
#[derive(Debug)]
pub(crate) struct Noted<'e> {
    pub(crate) title: String,
    /// The file that has it too.
    pub(crate) file: String,
    /// The text, or why there is none.
    pub(crate) text: Result<&'e str, &'e str>,
}

/// The data of the page.
#[derive(Debug)]
pub(crate) struct EventReport<'e> {
    pub(crate) input: &'e Input,
    /// The moment, seconds from the first sample.
    pub(crate) at: f64,
    /// The same for people.
    pub(crate) when: String,
    /// The figure, or what happened.
    pub(crate) cause: &'e str,
    pub(crate) why: &'e str,
    /// Who blocked whom, in sentences.
    pub(crate) findings: &'e [String],
    /// What happened after the moment: seconds, and a sentence.
    pub(crate) also: &'e [(u64, String)],
    pub(crate) texts: &'e [Noted<'e>],
}

impl EventReport<'_> {
    /// Returns the page. It needs no other file.
    pub(crate) fn page(&self) -> String {
        let Input { target, version, samples, .. } = self.input;
        let title = format!("{}: {target}, {}", self.cause, self.when);
        let lead = format!("{}. {version}, {} samples.", self.why, samples.seconds.len());
        let mut page = Page::new(&title, &lead);
        page.section("Who blocks whom");
        match self.findings {
            [] => page.paragraph("What the target has said names nobody who waits for a lock."),
            found => found.iter().for_each(|said| page.paragraph(said)),
        }
        if !self.also.is_empty() {
            page.section("Afterwards");
            self.also.iter().for_each(|(at, said)| page.paragraph(&format!("{at} s after: {said}")));
        }
        page.section("Over time");
        for drawn in views::views(std::slice::from_ref(self.input)) {
            let mut chart = drawn.chart.thinned(svg::POINTS);
            chart.moment = Some((self.at.clamp(0.0, chart.end), self.cause.to_owned()));
            page.chart(&chart);
        }
        page.section("Texts");
        for noted in self.texts {
            match noted.text {
                Ok(text) => page.folded(&noted.title, text),
                Err(why) => page.paragraph(&format!("{}: not there: {why}.", noted.title)),
            }
        }
        self.files(&mut page);
        page.finish(concat!("Millpond ", env!("CARGO_PKG_VERSION"), "."))
    }

    fn files(&self, page: &mut Page) {
        page.section("Files");
        let there = self.texts.iter().filter(|noted| noted.text.is_ok()).map(|noted| noted.file.clone());
        let own = ["stats.jsonl", "figures.txt", "configuration.txt"].map(str::to_owned);
        page.files("Beside this page:", &own.into_iter().chain(there).collect::<Vec<_>>());
        page.paragraph("millpond plot DIRECTORY --out PLOTS draws the samples again, and more of them.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::tests::input;

    #[test]
    fn the_page_marks_the_moment_and_escapes_what_a_server_says() {
        let texts = [
            Noted { title: "List".into(), file: "list-00s.txt".into(), text: Ok("SELECT '<b>'") },
            Noted { title: "Locks".into(), file: "locks-00s.txt".into(), text: Err("no answer") },
        ];
        let report = EventReport {
            input: &input("a", 1.0),
            at: 1.0,
            when: "2026-11-30T03:31:05Z".into(),
            cause: "tps",
            why: "tps is below 100/s",
            findings: &["connection 5 <root> blocks 2 connections.".to_owned()],
            also: &[(7, "gone: no answer".to_owned())],
            texts: &texts,
        };
        let page = report.page();
        for wanted in [
            "tps: mysql://db/, 2026-11-30T03:31:05Z",
            "connection 5 &lt;root&gt; blocks 2 connections.",
            "7 s after: gone: no answer",
            "SELECT &#39;&lt;b&gt;&#39;",
            "Locks: not there: no answer.",
            "href=\"list-00s.txt\"",
        ] {
            assert!(page.contains(wanted), "{wanted}: {page}");
        }
        assert!(!page.contains("href=\"locks-00s.txt\""));
        let (moments, plots) = (page.matches("class=\"moment\"").count(), page.matches("<figure").count());
        assert_eq!(moments, 2 * plots, "each plot is drawn in two widths");
    }
}
