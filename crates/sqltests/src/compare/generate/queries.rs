//! Queries: conditions, one table, joins, groups, subqueries, HANDLER.

use super::schema::{Column, Key, Table};
use super::types::Family;
use crate::compare::case::Step;
use base::prng::Prng;

/// Returns a condition over the columns of a table. `alias` stands before each column.
pub(super) fn condition(rng: &mut Prng, table: &Table, alias: &str) -> String {
    let one = simple(rng, table, alias);
    match rng.below(6) {
        0 => format!("{one} AND {}", simple(rng, table, alias)),
        1 => format!("({one} OR {})", simple(rng, table, alias)),
        2 if rng.one_in(3) => format!("NOT ({one})"),
        _ => one,
    }
}

/// Returns a column, more often one that a key begins with.
fn likely_column<'a>(rng: &mut Prng, table: &'a Table) -> &'a Column {
    if rng.percent(60) && !table.keys.is_empty() {
        let first = &rng.pick(&table.keys).parts[0].column;
        if let Some(column) = table.column(first) {
            return column;
        }
    }
    rng.pick(&table.columns)
}

fn simple(rng: &mut Prng, table: &Table, alias: &str) -> String {
    let column = likely_column(rng, table);
    let name = format!("{alias}{}", column.name);
    let mut value = || column.known(rng);
    let (a, b, c) = (value(), value(), value());
    match rng.below(16) {
        0..4 => format!("{name} = {a}"),
        4 => format!("{name} <> {a}"),
        5 => format!("{name} < {a}"),
        6 => format!("{name} >= {a}"),
        7 => format!("{name} > {a} AND {name} <= {b}"),
        8 => format!("{name} BETWEEN {a} AND {b}"),
        9 => format!("{name} IN ({a}, {b}, {c})"),
        10 => format!("{name} NOT IN ({a}, {b})"),
        11 => format!("{name} IS NULL"),
        12 => format!("{name} IS NOT NULL"),
        13 => format!("{name} <=> {a}"),
        14 if column.kind.family == Family::Text => {
            let pattern = *rng.pick(&["a%", "%a", "_", "a_b", "%", "A%", "ab%", "é%", "", " %", "a\\\\_b"]);
            format!("{name} LIKE '{pattern}'")
        }
        _ => format!("{name} <= {a}"),
    }
}

/// Returns an index hint, or nothing.
fn hint(rng: &mut Prng, table: &Table) -> String {
    if table.keys.is_empty() || rng.one_in(2) {
        return String::new();
    }
    let key = &rng.pick(&table.keys).name;
    format!(" {} INDEX ({key})", rng.pick(&["FORCE", "FORCE", "USE", "IGNORE"]))
}

/// Returns the order of the rows with its LIMIT, and whether it is total.
fn ordering(rng: &mut Prng, table: &Table, alias: &str) -> (String, bool) {
    let Some(total) = table.total_order(rng, alias) else { return (String::new(), false) };
    if rng.one_in(3) {
        return (String::new(), false);
    }
    let mut first = String::new();
    if let Some(key) = (!table.keys.is_empty() && rng.percent(60)).then(|| rng.pick(&table.keys)) {
        let backward = rng.one_in(2);
        for part in &key.parts {
            let descending = part.descending != backward;
            first.push_str(&format!("{alias}{}{}, ", part.column, if descending { " DESC" } else { "" }));
        }
    }
    let limit = match rng.below(4) {
        0 => format!(" LIMIT {}", rng.below(6)),
        1 => format!(" LIMIT {} OFFSET {}", rng.between(1, 5), rng.below(4)),
        _ => String::new(),
    };
    (format!(" ORDER BY {first}{total}{limit}"), true)
}

fn selected(rng: &mut Prng, table: &Table, alias: &str) -> String {
    let all: Vec<String> = table.columns.iter().map(|c| format!("{alias}{}", c.name)).collect();
    match rng.below(4) {
        0 => all.join(", "),
        1 => "*".to_owned(),
        // Only columns of one key, so that the index alone can answer.
        2 if !table.keys.is_empty() => {
            let key = rng.pick(&table.keys);
            let names: Vec<String> = key.parts.iter().map(|part| format!("{alias}{}", part.column)).collect();
            names.join(", ")
        }
        _ => rng.pick(&all).clone(),
    }
}

/// Returns a query of one table. `suffix` is nothing, or how it locks rows.
pub(super) fn select(rng: &mut Prng, session: char, table: &Table, suffix: &str) -> Step {
    let columns = selected(rng, table, "");
    let filter = if rng.one_in(6) { String::new() } else { format!(" WHERE {}", condition(rng, table, "")) };
    let (order, total) = ordering(rng, table, "");
    let sql = format!("SELECT {columns} FROM {}{}{filter}{order}{suffix}", table.name, hint(rng, table));
    let step = Step::new(session, sql);
    if total { step } else { step.open() }
}

/// Returns a query that locks the row of a key. Which rows other locking queries lock depends on
/// their plans.
pub(super) fn locking(rng: &mut Prng, session: char, table: &Table) -> Step {
    let lock = *rng.pick(&[
        "FOR UPDATE",
        "LOCK IN SHARE MODE",
        "FOR UPDATE NOWAIT",
        "FOR UPDATE SKIP LOCKED",
        "LOCK IN SHARE MODE SKIP LOCKED",
    ]);
    let sql = format!("SELECT * FROM {} WHERE {} {lock}", table.name, by_primary(rng, table));
    Step::new(session, sql).open()
}

/// Returns a condition that one row can fit: by its primary key, if the table has one.
pub(super) fn by_primary(rng: &mut Prng, table: &Table) -> String {
    let Some(primary) = table.primary() else { return condition(rng, table, "") };
    let columns = primary.parts.iter().filter_map(|part| table.column(&part.column));
    let parts: Vec<String> =
        columns.map(|column| format!("{} = {}", column.name, column.known(rng))).collect();
    parts.join(" AND ")
}

/// Returns a query that sums rows up. Where strings are equal but have other bytes, which of them
/// is shown is open: strings are only counted.
pub(super) fn aggregate(rng: &mut Prng, session: char, table: &Table) -> Step {
    let column = likely_column(rng, table);
    let name = &column.name;
    // The least BIT is a number or bytes, as the plan has it.
    let least = !matches!(column.kind.family, Family::Text | Family::Real | Family::Bits);
    let exact = !matches!(column.kind.family, Family::Text | Family::Real);
    let sums = matches!(column.kind.family, Family::Integer | Family::Decimal);
    let what = match rng.below(6) {
        0 => "COUNT(*)".to_owned(),
        1 => format!("COUNT({name})"),
        2 => format!("COUNT(DISTINCT {name})"),
        3 if least => format!("MIN({name}), MAX({name})"),
        4 if sums => format!("SUM({name}), AVG({name})"),
        5 if column.kind.family == Family::Integer => {
            format!("BIT_XOR({name}), GROUP_CONCAT({name} ORDER BY {name})")
        }
        _ => format!("COUNT({name}), COUNT(*)"),
    };
    let filter = if rng.one_in(2) { String::new() } else { format!(" WHERE {}", condition(rng, table, "")) };
    let from = format!("FROM {}{}{filter}", table.name, hint(rng, table));
    let by = likely_column(rng, table);
    let shown = if matches!(by.kind.family, Family::Text) { String::new() } else { format!("{}, ", by.name) };
    let sql = match rng.below(4) {
        0 => format!("SELECT {shown}{what} {from} GROUP BY {}", by.name),
        1 => format!("SELECT {shown}COUNT(*) AS n {from} GROUP BY {} HAVING n > 1", by.name),
        2 if exact => format!("SELECT DISTINCT {name} {from}"),
        _ => format!("SELECT {what} {from}"),
    };
    Step::new(session, sql).open()
}

/// Returns pairs of columns of two tables that can be compared without a warning.
fn matching<'a>(left: &'a Table, right: &'a Table) -> Vec<(&'a Column, &'a Column)> {
    let fits = |a: &Column, b: &Column| {
        let (a, b) = (&a.kind, &b.kind);
        let numbers = a.family == Family::Integer && b.family == Family::Integer;
        numbers || a.sql == b.sql
    };
    let pairs = left.columns.iter().flat_map(|a| right.columns.iter().map(move |b| (a, b)));
    pairs.filter(|(a, b)| fits(a, b)).collect()
}

/// Returns a query of two tables.
pub(super) fn join(rng: &mut Prng, session: char, left: &Table, right: &Table) -> Option<Step> {
    let pairs = matching(left, right);
    if pairs.is_empty() {
        return None;
    }
    let (a, b) = *rng.pick(&pairs);
    let (left_name, right_name) = (&left.name, &right.name);
    let sql = match rng.below(8) {
        0 => format!(
            "SELECT * FROM {left_name} x WHERE x.{} IN (SELECT y.{} FROM {right_name} y WHERE {})",
            a.name,
            b.name,
            condition(rng, right, "y.")
        ),
        1 => format!(
            "SELECT x.{} FROM {left_name} x WHERE {}EXISTS (SELECT 1 FROM {right_name} y WHERE y.{} = x.{})",
            rng.pick(&left.columns).name,
            rng.pick(&["", "NOT "]),
            b.name,
            a.name
        ),
        2 => format!(
            "SELECT x.{}, (SELECT COUNT(*) FROM {right_name} y WHERE y.{} = x.{}) AS n FROM {left_name} x",
            rng.pick(&left.columns).name,
            b.name,
            a.name
        ),
        3 => format!(
            "SELECT {0} FROM {left_name} UNION ALL SELECT {1} FROM {right_name} WHERE {2}",
            a.name,
            b.name,
            condition(rng, right, "")
        ),
        4 => format!(
            "WITH d AS (SELECT {0} AS v FROM {right_name}{1} WHERE {2}) \
             SELECT x.{3}, d.v FROM {left_name} x JOIN d ON x.{3} = d.v",
            b.name,
            hint(rng, right),
            condition(rng, right, ""),
            a.name
        ),
        _ => format!(
            "SELECT {} FROM {left_name} x{} {} {right_name} y{} ON x.{} = y.{} WHERE {}",
            rng.pick(&["x.*, y.*", "COUNT(*)", "x.*"]),
            hint(rng, left),
            rng.pick(&["JOIN", "JOIN", "LEFT JOIN", "STRAIGHT_JOIN", "RIGHT JOIN"]),
            hint(rng, right),
            a.name,
            b.name,
            condition(rng, left, "x.")
        ),
    };
    Some(Step::new(session, sql).open())
}

/// Returns a walk over an index by HANDLER. Rows with equal keys are ordered by the primary key.
pub(super) fn handler(rng: &mut Prng, session: char, table: &Table) -> Vec<Step> {
    let name = &table.name;
    let mut steps = vec![Step::new(session, format!("HANDLER {name} OPEN"))];
    for _ in 0..rng.between(1, 3) {
        let key = (!table.keys.is_empty() && rng.percent(80)).then(|| rng.pick(&table.keys));
        // A walk begins with a read that finds its place: InnoDB cannot step from nowhere.
        let begin = match key {
            None => "FIRST".to_owned(),
            Some(key) if rng.one_in(2) => format!("`{}` {}", key.name, rng.pick(&["FIRST", "LAST"])),
            Some(key) => {
                let compare = *rng.pick(&["=", "=", ">", ">=", "<", "<="]);
                format!("`{}` {compare} ({})", key.name, key_values(rng, table, key))
            }
        };
        let mut reads = vec![begin];
        for _ in 0..rng.below(5) {
            reads.push(match key {
                None => "NEXT".to_owned(),
                Some(key) => format!("`{}` {}", key.name, rng.pick(&["NEXT", "PREV"])),
            });
        }
        for read in reads {
            let filter =
                if rng.one_in(5) { format!(" WHERE {}", condition(rng, table, "")) } else { String::new() };
            let limit = if rng.one_in(2) { format!(" LIMIT {}", rng.between(1, 4)) } else { String::new() };
            steps.push(Step::new(session, format!("HANDLER {name} READ {read}{filter}{limit}")));
        }
    }
    steps.push(Step::new(session, format!("HANDLER {name} CLOSE")));
    steps
}

fn key_values(rng: &mut Prng, table: &Table, key: &Key) -> String {
    let count = rng.between(1, key.parts.len() as u64) as usize;
    let values: Vec<String> = key.parts[..count]
        .iter()
        .filter_map(|part| table.column(&part.column))
        .map(|column| if column.nullable && rng.one_in(6) { "NULL".to_owned() } else { column.known(rng) })
        .collect();
    values.join(", ")
}

/// Returns reads of everything: the rows, and each index in both directions.
pub(super) fn whole(session: char, table: &Table) -> Vec<Step> {
    let name = &table.name;
    let mut steps = vec![
        Step::new(session, format!("SELECT * FROM {name}")).open(),
        Step::new(session, format!("CHECK TABLE {name} EXTENDED")),
        Step::new(session, format!("SHOW CREATE TABLE {name}")),
    ];
    for key in &table.keys {
        for backward in [false, true] {
            let direction = |descending: bool| if descending != backward { " DESC" } else { "" };
            let mut order: Vec<String> = key
                .parts
                .iter()
                .map(|part| format!("{}{}", part.column, direction(part.descending)))
                .collect();
            // Entries with equal columns are ordered by the primary key.
            let primary = table.primary().filter(|_| key.name != "PRIMARY" && table.partition.is_none());
            for part in primary.iter().flat_map(|primary| &primary.parts) {
                if !key.parts.iter().any(|own| own.column == part.column) {
                    order.push(format!("{}{}", part.column, direction(part.descending)));
                }
            }
            let sql =
                format!("SELECT * FROM {name} FORCE INDEX ({}) ORDER BY {}", key.name, order.join(", "));
            let total = table.primary().is_some() && (table.partition.is_none() || key.name == "PRIMARY");
            let step = Step::new(session, sql);
            steps.push(if total { step } else { step.open() });
        }
    }
    steps
}
