//! A block of a result: a statement and what it answered, and in which ways two answers may differ.

/// First words of lines that begin a block.
const STATEMENTS: &str = "alter analyze begin call change change_user check checksum commit connect \
    connection create deallocate declare delete desc describe disconnect do drop end execute explain \
    flush grant handler insert kill load lock optimize prepare purge release rename repair replace \
    reset revoke rollback savepoint select set show shutdown start truncate unlock update use values \
    with xa";

/// Beginnings of lines that go on with an ALTER TABLE, although a statement could begin with their
/// first word.
const CONTINUATIONS: [&str; 8] = [
    "lock=",
    "lock =",
    "drop column ",
    "drop primary ",
    "drop foreign ",
    "drop constraint ",
    "drop key ",
    "drop partition ",
];

/// Parts of names of counters that count what a plan does, or what it costs.
const PLAN_COUNTERS: [&str; 6] = ["handler_", "last_query_cost", "sort_", "sort%", "select_", "created_tmp"];

/// Words behind EXPLAIN and its synonyms that ask for a plan, or their beginnings.
const QUERIES: [&str; 11] = [
    "select",
    "insert",
    "update",
    "delete",
    "replace",
    "extended",
    "partitions",
    "format",
    "with",
    "for",
    "(",
];

/// Words behind ANALYZE that ask for statistics.
const TABLE_WORDS: [&str; 4] = ["table", "tables", "local", "no_write_to_binlog"];

/// Tells whether a word begins a query, or says how its plan is shown.
fn begins_query(word: &str) -> bool {
    QUERIES.iter().any(|begin| word.starts_with(begin))
}

/// A statement and what it answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block<'a> {
    pub(super) lines: Vec<&'a str>,
}

/// Tells whether a line begins a statement, or is a comment of the test. A row may begin with a
/// column that the test has replaced by the sign of a comment. A statement that the test keeps in a
/// variable is shown by the variable's name.
fn is_statement(line: &str) -> bool {
    let word: String = line.chars().take_while(|c| c.is_ascii_alphabetic() || *c == '_').collect();
    let word = word.to_ascii_lowercase();
    let start: String = line.chars().take(20).collect::<String>().to_ascii_lowercase();
    if CONTINUATIONS.iter().any(|begin| start.starts_with(begin)) {
        return false;
    }
    line.starts_with('$') && line.ends_with(';')
        || line.starts_with('#') && !line.starts_with("#\t")
        || !word.is_empty() && STATEMENTS.split_whitespace().any(|known| known == word)
}

/// Cuts a result into blocks.
pub(super) fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    for line in text.lines() {
        match blocks.last_mut() {
            Some(block) if !is_statement(line) => block.lines.push(line),
            _ => blocks.push(Block { lines: vec![line] }),
        }
    }
    blocks
}

impl Block<'_> {
    pub(super) fn head(&self) -> &str {
        self.lines[0]
    }

    /// Tells whether the answer is a plan, or counts the work of one.
    pub(super) fn is_plan(&self) -> bool {
        let head = self.head().to_ascii_lowercase();
        let words: Vec<&str> = head.split_whitespace().collect();
        match words.first() {
            // Behind these words the name of a table asks for its columns or its statistics.
            Some(&("explain" | "desc" | "describe")) => words.get(1).is_none_or(|word| begins_query(word)),
            Some(&"analyze") => !words.get(1).is_some_and(|word| TABLE_WORDS.contains(word)),
            Some(&"show") => PLAN_COUNTERS.iter().any(|name| head.contains(name)),
            Some(&"select") if head.contains("optimizer_trace") || head.contains("@trace") => true,
            // How far a query comes that may examine so many rows only depends on its plan.
            Some(&"select")
                if self.selects_counters() || self.lines.join(" ").contains("LIMIT ROWS EXAMINED") =>
            {
                true
            }
            _ => self.lines.iter().any(|line| line.starts_with("id\tselect_type\t")),
        }
    }

    /// Tells whether the statement reads counters of a plan's work from INFORMATION_SCHEMA.
    fn selects_counters(&self) -> bool {
        let text = self.lines.join(" ").to_ascii_lowercase();
        text.contains("information_schema.session_status")
            && PLAN_COUNTERS.iter().any(|name| text.contains(name))
    }

    /// Tells whether only numbers of different keys differ, which are estimates of SHOW KEYS.
    pub(super) fn has_other_cardinalities(&self, other: &Block<'_>) -> bool {
        let head = self.head().to_ascii_lowercase();
        let shows = ["show keys", "show index"].iter().any(|begin| head.starts_with(begin));
        let column = |name: &&str| *name == "Cardinality";
        let place = self.lines.iter().find_map(|line| line.split('\t').position(|name| column(&name)));
        let (Some(at), true) = (place, shows) else { return false };
        let bare = |block: &Block<'_>| -> Vec<Vec<String>> {
            let others = |line: &str| {
                line.split('\t').enumerate().filter(|(n, _)| *n != at).map(|(_, c)| c.to_owned()).collect()
            };
            block.lines.iter().map(|line| others(line)).collect()
        };
        bare(self) == bare(other)
    }

    /// Tells whether only warnings differ of values that a condition could not compute: a plan
    /// decides for which rows the condition is evaluated, and how often.
    pub(super) fn warns_otherwise(&self, other: &Block<'_>) -> bool {
        let of_condition = |line: &str| {
            ["Warning\t1292\tTruncated incorrect", "Warning\t1365\tDivision by 0"]
                .iter()
                .any(|begin| line.starts_with(begin))
        };
        let rest = |block: &Block<'_>| -> Vec<String> {
            let kept = block.lines.iter().filter(|line| !of_condition(line) && **line != "Warnings:");
            kept.map(|line| (*line).to_owned()).collect()
        };
        let head = self.head().to_ascii_lowercase();
        let reads = ["select", "delete", "update", "(select"].iter().any(|word| head.starts_with(word));
        reads && rest(self) == rest(other)
    }

    /// Tells whether a statement with LIMIT has as many rows in both blocks, and they have the same
    /// values in the columns that ORDER BY names: of rows that it does not tell apart any may be
    /// within the limit.
    pub(super) fn is_limited_differently(&self, other: &Block<'_>) -> bool {
        let text = self.lines.join(" ").to_ascii_lowercase();
        let same_head = self.lines.len() == other.lines.len() && self.lines.get(1) == other.lines.get(1);
        let fails = |block: &Block<'_>| block.lines.iter().any(|line| line.starts_with("ERROR"));
        if !text.starts_with("select")
            || !text.contains(" limit ")
            || !same_head
            || fails(self)
            || fails(other)
        {
            return false;
        }
        match (self.ordered_columns(), other.ordered_columns()) {
            (Some(one), Some(two)) => one == two,
            _ => false,
        }
    }

    /// Returns the rows in the order of `lines`, each with the columns that ORDER BY names, or
    /// `None` if the statement orders by something that is no column of its answer. Without ORDER
    /// BY a row has no such columns.
    fn ordered_columns(&self) -> Option<Vec<Vec<&str>>> {
        let text = self.lines.join("\n").to_ascii_lowercase();
        let Some(at) = text.rfind("order by") else { return Some(Vec::new()) };
        let clause = &text[at + "order by".len()..];
        let clause = clause.split([';', '\n']).next().unwrap_or("");
        let clause = clause.split(" limit ").next().unwrap_or("");
        let start = text[..at].matches('\n').count() + 1;
        let header: Vec<String> = self.lines.get(start)?.split('\t').map(str::to_ascii_lowercase).collect();
        let place = |part: &str| {
            let name = part.split_whitespace().next()?;
            let name = name.rsplit('.').next()?.trim_matches('`');
            // An alias comes before a column of the same name, and stands behind it in tests.
            header.iter().rposition(|column| column == name)
        };
        let places: Vec<usize> = clause.split(',').map(place).collect::<Option<_>>()?;
        Some(self.lines[start..].iter().map(|line| columns(line, &places)).collect())
    }

    /// Tells whether the same rows come, but DISTINCT shows others of the strings that are equal in
    /// capital and small letters.
    pub(super) fn shows_others_of_equals(&self, other: &Block<'_>) -> bool {
        let head = self.head().to_ascii_lowercase();
        let rows = self.lines.iter().zip(&other.lines);
        head.starts_with("select distinct ")
            && self.lines.len() == other.lines.len()
            && rows.clone().all(|(one, two)| one.eq_ignore_ascii_case(two))
    }

    fn sorted(&self) -> Vec<&str> {
        let mut lines = self.lines.clone();
        lines.sort_unstable();
        lines
    }

    /// Tells whether the blocks have the same rows, and the order that the statement asks for is
    /// the same: rows that ORDER BY does not tell apart may change places.
    pub(super) fn is_reordered(&self, other: &Block<'_>) -> bool {
        if self.sorted() != other.sorted() {
            return false;
        }
        match (self.ordered_columns(), other.ordered_columns()) {
            (Some(one), Some(two)) => one == two,
            _ => false,
        }
    }
}

/// Returns the columns of a row at the given places; a line that is no row has fewer.
fn columns<'a>(line: &'a str, places: &[usize]) -> Vec<&'a str> {
    let columns: Vec<&str> = line.split('\t').collect();
    places.iter().filter_map(|&at| columns.get(at).copied()).collect()
}
