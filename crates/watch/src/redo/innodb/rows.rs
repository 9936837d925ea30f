//! Names for what was counted: tables and indexes. Pure, but for the look for a file's name.

use super::page::Owner;
use super::record::Kind;
use super::server::Names;
use super::tally::{Account, Tally};
use crate::redo::table::{Row, Rows};
use std::collections::BTreeMap;

/// Indexes with a lower number are those of the dictionary itself.
const FIRST_INDEX: u64 = 11;
/// The top of the number of the change buffer's index.
const CHANGE_BUFFER: u64 = 0xffff_ffff_0000_0000;

/// Returns the rows of what was counted. `path` looks for the file of a tablespace.
pub(super) fn rows(tally: &Tally, names: &Names, mut path: impl FnMut(u32) -> Option<String>) -> Rows {
    let mut tables: BTreeMap<u32, String> = BTreeMap::new();
    let mut rows = Rows::default();
    for (account, kind, count) in tally.counts() {
        let (table, index) = match account {
            Account::Log => ("(log)".to_owned(), of_log(kind).to_owned()),
            Account::Space(space, owner) => {
                let table = tables.entry(space).or_insert_with(|| table(space, tally, names, &mut path));
                of_space(table, owner, names)
            }
        };
        let row = Row { table, index, record: kind.name().to_owned() };
        rows.add(row, count);
    }
    rows
}

fn of_log(kind: Kind) -> &'static str {
    match kind {
        Kind::End => "(ends of mini-transactions)",
        Kind::Checkpoint => "(checkpoints)",
        Kind::Padding => "(padding)",
        _ => "(unknown records)",
    }
}

/// Returns the name of a tablespace: `shop.orders`.
fn table(space: u32, tally: &Tally, names: &Names, path: &mut impl FnMut(u32) -> Option<String>) -> String {
    if space == 0 {
        return "(system tablespace)".into();
    }
    if let Some(name) = names.spaces.get(&space) {
        return dotted(name);
    }
    if let Some(file) = tally.files.get(&space) {
        let dropped = if file.deleted { " (dropped)" } else { "" };
        return format!("{}{dropped}", dotted(&file.name));
    }
    match path(space) {
        Some(file) if file.ends_with(".ibd") => dotted(&file),
        Some(file) => format!("(undo tablespace {file})"),
        None => format!("(tablespace {space})"),
    }
}

/// Makes `shop.orders` of `./shop/orders.ibd` and of `shop/orders`.
fn dotted(name: &str) -> String {
    let name = name.strip_suffix(".ibd").unwrap_or(name);
    let mut parts = name.rsplit('/');
    match (parts.next(), parts.next()) {
        (Some(table), Some(database)) if !database.is_empty() && database != "." => {
            format!("{database}.{table}")
        }
        _ => name.to_owned(),
    }
}

/// Returns the two names of what an owner has in a tablespace. The table of an index is known
/// better by the index, if several tables share a tablespace.
fn of_space(table: &str, owner: Owner, names: &Names) -> (String, String) {
    let index = match owner {
        Owner::Index(index) => match names.indexes.get(&index) {
            Some((table, name)) => return (dotted(table), name.clone()),
            None if index >= CHANGE_BUFFER => "(change buffer)".to_owned(),
            None if index < FIRST_INDEX => "(dictionary)".to_owned(),
            None => format!("index {index}"),
        },
        Owner::UndoOf(number) => {
            let named = names.tables.get(&number).map(|name| dotted(name));
            let dictionary = (number < FIRST_INDEX).then(|| "(dictionary)".to_owned());
            return (named.or(dictionary).unwrap_or(format!("(table {number})")), "(undo)".to_owned());
        }
        Owner::Undo => "(undo pages)".to_owned(),
        Owner::Blob => "(BLOBs)".to_owned(),
        Owner::Allocation => "(allocation of pages)".to_owned(),
        Owner::ChangeBuffer => "(change buffer)".to_owned(),
        Owner::System => "(transaction system)".to_owned(),
        Owner::Allocated => "(pages without a kind)".to_owned(),
        Owner::Hidden => "(unknown: compressed or encrypted pages)".to_owned(),
        Owner::Unknown => "(unknown: pages not in the file)".to_owned(),
        Owner::File => "(names of files)".to_owned(),
    };
    (table.to_owned(), index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tables_come_from_paths_and_from_the_server() {
        for (name, shown) in [
            ("./shop/orders.ibd", "shop.orders"),
            ("shop/orders", "shop.orders"),
            ("shop/orders#P#p0", "shop.orders#P#p0"),
            ("/elsewhere/shop/orders.ibd", "shop.orders"),
            ("undo001", "undo001"),
            ("./x.ibd", "./x"),
        ] {
            assert_eq!(dotted(name), shown);
        }
        let mut names = Names::default();
        names.indexes.insert(30, ("shop/old".into(), "by_day".into()));
        for (owner, shown) in [
            (Owner::Index(30), ("shop.old", "by_day")),
            (Owner::Index(31), ("t", "index 31")),
            (Owner::Index(3), ("t", "(dictionary)")),
            (Owner::Index(0xffff_ffff_0000_0000), ("t", "(change buffer)")),
            (Owner::Blob, ("t", "(BLOBs)")),
        ] {
            let (table, index) = of_space("t", owner, &names);
            assert_eq!((table.as_str(), index.as_str()), shown);
        }
    }
}
