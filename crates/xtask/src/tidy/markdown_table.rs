//! A table of a page: the names in its first column.

/// A row of a table.
pub(super) struct Row<'t> {
    /// Its line of the page, from 1.
    pub(super) line: usize,
    /// What its first cell has in backquotes.
    pub(super) names: Vec<&'t str>,
}

/// Returns the rows of the tables under a heading.
pub(super) fn rows<'t>(text: &'t str, heading: &str) -> impl Iterator<Item = Row<'t>> {
    let lines = text.lines().enumerate().skip_while(move |(_, line)| *line != heading).skip(1);
    let section = lines.take_while(|(_, line)| !line.starts_with("## "));
    let cells = section.filter_map(|(n, line)| Some((n + 1, line.strip_prefix("| ")?.split(" | ").next()?)));
    cells.map(|(line, cell)| Row { line, names: cell.split('`').skip(1).step_by(2).collect() })
}
