//! Changes of tables.

use super::schema::Table;
use super::types;
use crate::compare::case::Step;
use base::prng::Prng;

/// Returns a change of a table, and makes it in what the case knows of the table.
pub(super) fn alter(rng: &mut Prng, session: char, table: &mut Table) -> Step {
    let name = table.name.clone();
    let change = match rng.below(12) {
        0 | 1 => add_column(rng, table),
        2 => drop_column(rng, table),
        3 | 4 => add_key(rng, table),
        5 => drop_key(rng, table),
        6 => modify(rng, table),
        7 => rename_column(rng, table),
        8 => Some(format!("AUTO_INCREMENT = {}", rng.below(300))),
        9 => Some("FORCE".to_owned()),
        10 => Some(format!("CONVERT TO CHARACTER SET {}", rng.pick(&["utf8mb4", "latin1", "utf8mb3"]))),
        _ => None,
    };
    let sql = match change {
        Some(change) => {
            // InnoDB loses rows where IGNORE leaves one out for its duplicate.
            let unique = change.contains("UNIQUE") || table.keys.iter().any(|key| key.unique);
            let ignore = if !unique && rng.one_in(4) { "IGNORE " } else { "" };
            // In place, InnoDB hands out other numbers afterwards than after a copy, and puts a
            // unique key behind the others: that one finds its duplicates last.
            let auto = table.columns.iter().any(|column| column.auto);
            // It also leaves an index over the beginning of a text in the order of the old
            // collation.
            let prefix = table.keys.iter().any(|key| key.parts.iter().any(|part| part.prefix > 0));
            let copied = auto || change.contains("ADD UNIQUE") || prefix && change.starts_with("CONVERT ");
            format!("ALTER {ignore}TABLE {name} {change}{}", if copied { ", ALGORITHM=COPY" } else { "" })
        }
        None => {
            // InnoDB does not count stored generated columns in, and NULL bits of virtual ones by
            // what the row before had.
            let words = if table.has_generated("") {
                &["TRUNCATE TABLE", "SHOW CREATE TABLE"][..]
            } else {
                &["TRUNCATE TABLE", "CHECKSUM TABLE", "SHOW CREATE TABLE"]
            };
            format!("{} {name}", rng.pick::<&str>(words))
        }
    };
    // Which row fails first is open where rows are copied in another order.
    Step::new(session, sql).loose()
}

fn add_column(rng: &mut Prng, table: &mut Table) -> Option<String> {
    let column = table.new_column(rng);
    let place = match rng.below(3) {
        0 => " FIRST".to_owned(),
        1 => format!(" AFTER {}", rng.pick(&table.columns).name),
        _ => String::new(),
    };
    let at = match place.strip_prefix(" AFTER ") {
        Some(name) => table.columns.iter().position(|other| other.name == name)? + 1,
        None if place.is_empty() => table.columns.len(),
        None => 0,
    };
    let sql = format!("ADD COLUMN {}{place}", column.sql());
    table.columns.insert(at, column);
    Some(sql)
}

/// Returns the position of a column that no key, no partitioning and no expression needs.
fn free_column(rng: &mut Prng, table: &Table) -> Option<usize> {
    if table.columns.len() < 3 {
        return None;
    }
    let at = rng.below(table.columns.len() as u64) as usize;
    let name = &table.columns[at].name;
    let in_key = table.keys.iter().any(|key| key.parts.iter().any(|part| &part.column == name));
    let word = format!("({name}");
    let in_text = |text: &Option<String>| text.as_ref().is_some_and(|text| text.contains(&word));
    let used = in_text(&table.partition) || table.columns.iter().any(|column| in_text(&column.generated));
    (!in_key && !used && !table.columns[at].auto && table.columns[at].generated.is_none()).then_some(at)
}

fn drop_column(rng: &mut Prng, table: &mut Table) -> Option<String> {
    let at = free_column(rng, table)?;
    let column = table.columns.remove(at);
    Some(format!("DROP COLUMN {}", column.name))
}

fn rename_column(rng: &mut Prng, table: &mut Table) -> Option<String> {
    let at = free_column(rng, table)?;
    table.made += 1;
    let new = format!("r{}", table.made);
    let old = std::mem::replace(&mut table.columns[at].name, new.clone());
    Some(format!("RENAME COLUMN {old} TO {new}"))
}

fn add_key(rng: &mut Prng, table: &mut Table) -> Option<String> {
    if table.keys.len() > 8 {
        return None;
    }
    let unique = rng.one_in(5);
    let key = table.new_key(rng, unique)?;
    let sql = format!("ADD {}", key.sql());
    // A unique key may find duplicates; then the statement fails, and hints that name it fail.
    if !unique {
        table.keys.push(key);
    }
    Some(sql)
}

fn drop_key(rng: &mut Prng, table: &mut Table) -> Option<String> {
    let at = table.keys.iter().position(|key| key.name != "PRIMARY")?;
    let key = table.keys.remove(at);
    if rng.one_in(3) {
        let again = key.sql();
        let name = key.name.clone();
        table.keys.push(key);
        return Some(format!("DROP KEY {name}, ADD {again}"));
    }
    Some(format!("DROP KEY {}", key.name))
}

/// Gives a column another type. Values that do not fit make the statement fail, or give warnings.
fn modify(rng: &mut Prng, table: &mut Table) -> Option<String> {
    let at = free_column(rng, table)?;
    let column = &mut table.columns[at];
    column.kind = types::any(rng);
    column.default = None;
    column.nullable = column.nullable || rng.one_in(2);
    Some(format!("MODIFY COLUMN {}", column.sql()))
}
