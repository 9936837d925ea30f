//! Changes of rows.

use super::queries::{by_primary, condition};
use super::schema::{Column, Table};
use super::types::Family;
use crate::compare::case::Step;
use base::prng::Prng;

/// Returns a statement that adds rows.
pub(super) fn insert(rng: &mut Prng, session: char, table: &Table) -> Step {
    let mut columns = table.writable();
    if columns.len() > 1 && rng.one_in(4) {
        columns.remove(rng.below(columns.len() as u64) as usize);
    }
    let rows: Vec<String> = (0..*rng.pick(&[1, 1, 1, 2, 3, 8]))
        .map(|_| {
            let values: Vec<String> = columns.iter().map(|column| column.value(rng)).collect();
            format!("({})", values.join(", "))
        })
        .collect();
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let verb = *rng.pick(&["INSERT", "INSERT", "INSERT", "INSERT IGNORE", "REPLACE"]);
    let mut sql = format!("{verb} INTO {} ({}) VALUES {}", table.name, names.join(", "), rows.join(", "));
    if verb != "REPLACE" && rng.one_in(4) {
        sql.push_str(&format!(" ON DUPLICATE KEY UPDATE {}", assignments(rng, table, true, true)));
    } else if rng.one_in(12) {
        sql.push_str(" RETURNING *");
    }
    Step::new(session, sql)
}

/// Returns a statement that copies rows of one table to another, in a given order.
pub(super) fn insert_select(rng: &mut Prng, session: char, to: &Table, from: &Table) -> Option<Step> {
    let order = from.total_order(rng, "")?;
    let mut pairs: Vec<(String, String)> = Vec::new();
    for column in to.writable() {
        let same = from.columns.iter().find(|other| other.kind.family == column.kind.family);
        match same {
            Some(other) if rng.percent(80) => pairs.push((column.name.clone(), other.name.clone())),
            _ => pairs.push((column.name.clone(), column.known(rng))),
        }
    }
    let (names, values): (Vec<String>, Vec<String>) = pairs.into_iter().unzip();
    let verb = *rng.pick(&["INSERT", "INSERT IGNORE", "INSERT IGNORE", "REPLACE"]);
    let sql = format!(
        "{verb} INTO {} ({}) SELECT {} FROM {} WHERE {} ORDER BY {order}",
        to.name,
        names.join(", "),
        values.join(", "),
        from.name,
        condition(rng, from, "")
    );
    // A plan with a temporary table converts the values before it orders the rows.
    Some(Step::new(session, sql).loose())
}

/// Returns assignments of an UPDATE. `critical` tells whether columns of unique keys may change.
fn assignments(rng: &mut Prng, table: &Table, critical: bool, inserts: bool) -> String {
    let mut assigned: Vec<String> = Vec::new();
    for _ in 0..rng.between(1, 2) {
        let columns = table.writable();
        let column = *rng.pick(&columns);
        if !critical && table.is_critical(&column.name) {
            continue;
        }
        // A row that an update moves to another partition does not count there with InnoDB, until
        // the table is opened again; then it hands its number out once more.
        if column.auto && table.partition.is_some() {
            continue;
        }
        // Of two values for a long string the server keeps a pointer to the first.
        let start = format!("{} = ", column.name);
        if assigned.iter().any(|other| other.starts_with(&start)) {
            continue;
        }
        let name = &column.name;
        let number = column.kind.family == Family::Integer;
        let value = match rng.below(10) {
            0 | 1 if number => format!("{name} + {}", rng.pick(&["1", "10", "-1"])),
            2 if column.kind.family == Family::Text => format!("UPPER({name})"),
            3 if inserts => format!("VALUES({name})"),
            _ => column.value(rng),
        };
        assigned.push(format!("{name} = {value}"));
    }
    if assigned.is_empty() {
        // A column that no index has may stay as it is.
        let name = &rng.pick(&table.writable()).name;
        assigned.push(format!("{name} = {name}"));
    }
    assigned.join(", ")
}

/// Returns an ORDER BY with a LIMIT, or nothing where the order would be open.
fn limited(rng: &mut Prng, table: &Table) -> Option<String> {
    let order = table.total_order(rng, "")?;
    let limit = if rng.one_in(3) { format!(" LIMIT {}", rng.below(4)) } else { String::new() };
    Some(format!(" ORDER BY {order}{limit}"))
}

/// Returns an UPDATE of one table.
pub(super) fn update(rng: &mut Prng, session: char, table: &Table) -> Step {
    let order = limited(rng, table);
    let assigned = assignments(rng, table, order.is_some(), false);
    // Each change gives such a column the same time. Which row gets it is open.
    let timed = order.is_none() && table.columns.iter().any(|c| c.is_timed() && table.is_critical(&c.name));
    let ignore = if rng.one_in(6) && !timed { "IGNORE " } else { "" };
    let filter = if rng.one_in(10) { "1".to_owned() } else { condition(rng, table, "") };
    let sql = format!(
        "UPDATE {ignore}{} SET {assigned} WHERE {filter}{}",
        table.name,
        order.clone().unwrap_or_default()
    );
    let step = Step::new(session, sql);
    if order.is_some() { step } else { step.loose() }
}

/// Returns an UPDATE of the row of a key. Without a primary key it may change several rows, in the
/// order of the plan.
pub(super) fn update_one(rng: &mut Prng, session: char, table: &Table) -> Step {
    let assigned = assignments(rng, table, table.primary().is_some(), false);
    let sql = format!("UPDATE {} SET {assigned} WHERE {}", table.name, by_primary(rng, table));
    Step::new(session, sql).loose()
}

/// Returns a DELETE of the row of a key.
pub(super) fn delete_one(rng: &mut Prng, session: char, table: &Table) -> Step {
    let sql = format!("DELETE FROM {} WHERE {}", table.name, by_primary(rng, table));
    Step::new(session, sql).loose()
}

/// Returns a DELETE of one table.
pub(super) fn delete(rng: &mut Prng, session: char, table: &Table) -> Step {
    let order = if rng.one_in(2) { limited(rng, table).unwrap_or_default() } else { String::new() };
    let sql = format!("DELETE FROM {} WHERE {}{order}", table.name, condition(rng, table, ""));
    Step::new(session, sql).loose()
}

/// Returns an UPDATE or a DELETE of one table that reads another. The values are constant: which of
/// several matching rows is read would be open.
pub(super) fn of_two(rng: &mut Prng, session: char, table: &Table, other: &Table) -> Option<Step> {
    let numbers = |table: &Table| -> Vec<Column> {
        table.columns.iter().filter(|column| column.kind.family == Family::Integer).cloned().collect()
    };
    let (left, right) = (numbers(table), numbers(other));
    if left.is_empty() || right.is_empty() {
        return None;
    }
    let on = format!("x.{} = y.{}", rng.pick(&left).name, rng.pick(&right).name);
    let (name, other_name) = (&table.name, &other.name);
    let filter = condition(rng, other, "y.");
    let plain: Vec<&Column> =
        table.writable().into_iter().filter(|column| !table.is_critical(&column.name)).collect();
    let sql = if plain.is_empty() || rng.one_in(2) {
        match rng.below(3) {
            0 => format!("DELETE x FROM {name} x JOIN {other_name} y ON {on} WHERE {filter}"),
            1 => format!("DELETE FROM x USING {name} x LEFT JOIN {other_name} y ON {on} WHERE {filter}"),
            _ => format!(
                "DELETE FROM {name} WHERE {} IN (SELECT {} FROM {other_name} y WHERE {filter})",
                rng.pick(&left).name,
                rng.pick(&right).name
            ),
        }
    } else {
        let column = *rng.pick(&plain);
        let (column, value) = (&column.name, column.value(rng));
        format!("UPDATE {name} x JOIN {other_name} y ON {on} SET x.{column} = {value} WHERE {filter}")
    };
    Some(Step::new(session, sql).loose())
}
