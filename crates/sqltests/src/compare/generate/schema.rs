//! Tables: what a case knows about them.

use super::types::{self, Family, Type};
use base::prng::Prng;

/// A column.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Type,
    pub(super) nullable: bool,
    pub(super) default: Option<String>,
    pub(super) auto: bool,
    /// The expression of a generated column, with VIRTUAL or STORED.
    pub(super) generated: Option<String>,
}

/// A column of a key.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) column: String,
    pub(super) prefix: u32,
    pub(super) descending: bool,
}

/// A key. The primary key has the name PRIMARY.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) unique: bool,
    pub(super) parts: Vec<Part>,
}

/// A table.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) columns: Vec<Column>,
    pub(super) keys: Vec<Key>,
    pub(super) partition: Option<String>,
    /// How many columns and keys were ever made: their names are not used again.
    pub(super) made: u32,
}

/// No key part is longer, so that no index is refused for its length.
const MOST_PART_BYTES: u32 = 1100;

impl Table {
    /// Makes a table with columns of all types and some keys.
    pub(super) fn random(rng: &mut Prng, name: &str) -> Table {
        let mut table =
            Table { name: name.to_owned(), columns: Vec::new(), keys: Vec::new(), partition: None, made: 0 };
        for _ in 0..rng.between(2, 8) {
            let column = table.new_column(rng);
            table.columns.push(column);
        }
        table.add_primary(rng);
        for _ in 0..rng.below(5) {
            let unique = rng.one_in(3);
            if let Some(key) = table.new_key(rng, unique) {
                table.keys.push(key);
            }
        }
        if rng.one_in(4) {
            table.add_generated(rng);
        }
        if rng.one_in(8) {
            table.partition = table.new_partition(rng);
        }
        table
    }

    fn number(&mut self) -> u32 {
        self.made += 1;
        self.made
    }

    /// Returns a new column.
    pub(super) fn new_column(&mut self, rng: &mut Prng) -> Column {
        let kind = types::any(rng);
        let nullable = rng.percent(60);
        let timestamp = kind.sql.starts_with("TIMESTAMP") || kind.sql.starts_with("DATETIME");
        let default = match rng.below(6) {
            0 if timestamp => Some(now_of(&kind.sql)),
            1 if timestamp => Some(format!("{0} ON UPDATE {0}", now_of(&kind.sql))),
            0 | 1 if !kind.needs_prefix && !kind.pool[0].starts_with("REPEAT") => Some(kind.pool[0].clone()),
            2 if nullable => Some("NULL".to_owned()),
            _ => None,
        };
        let name = format!("c{}", self.number());
        Column { name, kind, nullable, default, auto: false, generated: None }
    }

    fn add_primary(&mut self, rng: &mut Prng) {
        match rng.below(10) {
            0 | 1 => {}
            2..=6 => {
                let mut kind = types::integer(rng);
                let auto = rng.percent(60);
                if auto {
                    kind.pool.retain(|value| value.len() < 3 && value != "0");
                    kind.pool.extend(["1", "2", "3", "4", "5", "7", "9"].map(str::to_owned));
                }
                let column = Column {
                    name: "id".to_owned(),
                    kind,
                    nullable: false,
                    default: None,
                    auto,
                    generated: None,
                };
                let at = if rng.one_in(4) { self.columns.len() } else { 0 };
                self.columns.insert(at, column);
                let part = Part { column: "id".to_owned(), prefix: 0, descending: !auto && rng.one_in(6) };
                self.keys.push(Key { name: "PRIMARY".to_owned(), unique: true, parts: vec![part] });
            }
            _ => {
                if let Some(mut key) = self.new_key(rng, true) {
                    key.name = "PRIMARY".to_owned();
                    for part in &key.parts {
                        let column = self.columns.iter_mut().find(|c| c.name == part.column);
                        let Some(column) = column else { continue };
                        column.nullable = false;
                        if column.default.as_deref() == Some("NULL") {
                            column.default = None;
                        }
                    }
                    self.keys.push(key);
                }
            }
        }
    }

    /// Returns a new key over some of the columns.
    pub(super) fn new_key(&mut self, rng: &mut Prng, unique: bool) -> Option<Key> {
        let mut parts: Vec<Part> = Vec::new();
        for _ in 0..*rng.pick(&[1, 1, 1, 2, 2, 3]) {
            let column = rng.pick(&self.columns);
            let taken = parts.iter().any(|part| part.column == column.name);
            if taken || column.generated.as_ref().is_some_and(|text| text.ends_with("VIRTUAL")) {
                continue;
            }
            let short = column.kind.prefix > 1 && rng.one_in(3);
            let needed = column.kind.needs_prefix || column.kind.key_bytes > MOST_PART_BYTES;
            let prefix =
                if short || needed { rng.between(1, u64::from(column.kind.prefix)) as u32 } else { 0 };
            parts.push(Part { column: column.name.clone(), prefix, descending: rng.one_in(5) });
        }
        let name = format!("k{}", self.number());
        (!parts.is_empty()).then_some(Key { name, unique, parts })
    }

    fn add_generated(&mut self, rng: &mut Prng) {
        let from = rng.pick(&self.columns).clone();
        if from.auto || from.generated.is_some() {
            return;
        }
        let kind = match from.kind.family {
            Family::Integer => plain_type("BIGINT", Family::Integer, &["0", "1", "5", "128"]),
            Family::Text => plain_type("INT", Family::Integer, &["0", "1", "2", "3"]),
            _ => return,
        };
        let expression = match from.kind.family {
            Family::Integer => format!("({} % 7)", from.name),
            _ => format!("(CHAR_LENGTH({}))", from.name),
        };
        let how = *rng.pick(&["VIRTUAL", "STORED"]);
        let name = format!("g{}", self.number());
        let generated = Some(format!("GENERATED ALWAYS AS {expression} {how}"));
        self.columns.push(Column {
            name: name.clone(),
            kind,
            nullable: true,
            default: None,
            auto: false,
            generated,
        });
        if how == "STORED" && rng.one_in(2) {
            let part = Part { column: name, prefix: 0, descending: false };
            let key = Key { name: format!("k{}", self.number()), unique: false, parts: vec![part] };
            self.keys.push(key);
        }
    }

    /// Returns a partitioning by a column that is in every unique key.
    fn new_partition(&self, rng: &mut Prng) -> Option<String> {
        let fits = |column: &&Column| {
            let everywhere = self
                .keys
                .iter()
                .filter(|key| key.unique)
                .all(|key| key.parts.iter().any(|part| part.column == column.name && part.prefix == 0));
            column.kind.family == Family::Integer && everywhere && column.generated.is_none()
        };
        let column = &self.columns.iter().find(fits)?.name;
        Some(match rng.below(4) {
            0 => format!("PARTITION BY HASH({column}) PARTITIONS 3"),
            1 => format!("PARTITION BY KEY({column}) PARTITIONS 2"),
            2 => format!(
                "PARTITION BY RANGE({column}) (PARTITION p0 VALUES LESS THAN (3), \
                 PARTITION p1 VALUES LESS THAN (100), PARTITION p2 VALUES LESS THAN MAXVALUE)"
            ),
            _ => format!(
                "PARTITION BY LIST({column}) (PARTITION p0 VALUES IN (0,1,2,3), PARTITION p1 DEFAULT)"
            ),
        })
    }

    /// Returns the statement that makes the table.
    pub(super) fn create(&self) -> String {
        let mut parts: Vec<String> = self.columns.iter().map(Column::sql).collect();
        parts.extend(self.keys.iter().map(Key::sql));
        let partition = self.partition.as_ref().map_or_else(String::new, |text| format!(" {text}"));
        format!("CREATE TABLE {} ({}){partition}", self.name, parts.join(", "))
    }

    pub(super) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    pub(super) fn primary(&self) -> Option<&Key> {
        self.keys.iter().find(|key| key.name == "PRIMARY")
    }

    /// Tells whether a unique key, or the partitioning, has the column.
    pub(super) fn is_critical(&self, name: &str) -> bool {
        let in_key = self.keys.iter().any(|k| k.unique && k.parts.iter().any(|part| part.column == name));
        in_key || self.partition.as_ref().is_some_and(|text| text.contains(&format!("({name})")))
    }

    /// Returns the columns of the primary key: ordered by them, rows have one order only.
    pub(super) fn total_order(&self, rng: &mut Prng, alias: &str) -> Option<String> {
        let direction = if rng.one_in(3) { " DESC" } else { "" };
        let parts: Vec<String> =
            self.primary()?.parts.iter().map(|part| format!("{alias}{}{direction}", part.column)).collect();
        Some(parts.join(", "))
    }

    /// Tells whether a generated column is VIRTUAL, or STORED, or either for "".
    pub(super) fn has_generated(&self, how: &str) -> bool {
        self.columns.iter().filter_map(|column| column.generated.as_ref()).any(|text| text.ends_with(how))
    }

    /// Returns the columns that statements can give values to.
    pub(super) fn writable(&self) -> Vec<&Column> {
        self.columns.iter().filter(|column| column.generated.is_none()).collect()
    }
}

impl Column {
    pub(super) fn sql(&self) -> String {
        let mut sql = format!("{} {}", self.name, self.kind.sql);
        if let Some(generated) = &self.generated {
            return format!("{sql} {generated}");
        }
        sql.push_str(if self.nullable { " NULL" } else { " NOT NULL" });
        if self.auto {
            sql.push_str(" AUTO_INCREMENT");
        } else if let Some(default) = &self.default {
            sql.push_str(&format!(" DEFAULT {default}"));
        }
        sql
    }

    /// Tells whether each change of a row gives the column the present time.
    pub(super) fn is_timed(&self) -> bool {
        self.default.as_ref().is_some_and(|default| default.contains(" ON UPDATE "))
    }

    /// Returns a value for the column.
    pub(super) fn value(&self, rng: &mut Prng) -> String {
        match rng.below(40) {
            0..4 if self.nullable => "NULL".to_owned(),
            0..12 if self.auto => "NULL".to_owned(),
            5 => "DEFAULT".to_owned(),
            6 if !self.nullable => "NULL".to_owned(),
            8 if self.kind.family == Family::Temporal => "'2001-09-09 01:46:40.987654'".to_owned(),
            7 => (*rng.pick(&["'abc'", "99999999999999999999", "-1", "''", "'2021-13-45'"])).to_owned(),
            _ => self.known(rng),
        }
    }

    /// Returns a value that rows of the column have.
    pub(super) fn known(&self, rng: &mut Prng) -> String {
        rng.pick(&self.kind.pool).clone()
    }
}

impl Key {
    pub(super) fn sql(&self) -> String {
        let columns: Vec<String> = self.parts.iter().map(Part::sql).collect();
        let columns = columns.join(", ");
        match (self.name.as_str(), self.unique) {
            ("PRIMARY", _) => format!("PRIMARY KEY ({columns})"),
            (name, true) => format!("UNIQUE KEY {name} ({columns})"),
            (name, false) => format!("KEY {name} ({columns})"),
        }
    }
}

impl Part {
    fn sql(&self) -> String {
        let prefix = if self.prefix > 0 { format!("({})", self.prefix) } else { String::new() };
        format!("{}{prefix}{}", self.column, if self.descending { " DESC" } else { "" })
    }
}

fn now_of(sql: &str) -> String {
    match sql.split_once('(') {
        Some((_, precision)) => format!("CURRENT_TIMESTAMP({precision}"),
        None => "CURRENT_TIMESTAMP".to_owned(),
    }
}

fn plain_type(sql: &str, family: Family, pool: &[&str]) -> Type {
    let pool = pool.iter().map(|&value| value.to_owned()).collect();
    Type { sql: sql.to_owned(), family, pool, prefix: 0, needs_prefix: false, key_bytes: 8 }
}
