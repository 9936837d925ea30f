//! The plans of TPC-H's 22 queries, over the same data in both engines: the optimizer has to choose
//! for Millpond what it chooses for InnoDB, and both have to give the same rows.
//!
//! Data and queries come from the crate `tpchgen`. The schema has the primary keys and an index for
//! each foreign key.

use crate::compare::answer::{Answer, Order, Outcome, Row, equal, text_of};
use crate::compare::case::Step;
use crate::compare::world::World;
use std::fmt::Display;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen::q_and_a::queries;

/// What is compared.
pub(crate) struct Plan {
    pub(crate) socket: PathBuf,
    /// TPC-H's scale factor: 1 is about 1 GB.
    pub(crate) scale: f64,
    /// Where the rows are written for the server to read.
    pub(crate) dir: PathBuf,
}

/// A table, and its columns and indexes.
const TABLES: [(&str, &str); 8] = [
    ("region", "r_regionkey INT PRIMARY KEY, r_name CHAR(25) NOT NULL, r_comment VARCHAR(152)"),
    (
        "nation",
        "n_nationkey INT PRIMARY KEY, n_name CHAR(25) NOT NULL, n_regionkey INT NOT NULL, n_comment VARCHAR(152), \
         KEY region (n_regionkey)",
    ),
    (
        "part",
        "p_partkey INT PRIMARY KEY, p_name VARCHAR(55) NOT NULL, p_mfgr CHAR(25) NOT NULL, p_brand CHAR(10) NOT NULL, \
         p_type VARCHAR(25) NOT NULL, p_size INT NOT NULL, p_container CHAR(10) NOT NULL, \
         p_retailprice DECIMAL(15, 2) NOT NULL, p_comment VARCHAR(23) NOT NULL",
    ),
    (
        "supplier",
        "s_suppkey INT PRIMARY KEY, s_name CHAR(25) NOT NULL, s_address VARCHAR(40) NOT NULL, s_nationkey INT NOT NULL, \
         s_phone CHAR(15) NOT NULL, s_acctbal DECIMAL(15, 2) NOT NULL, s_comment VARCHAR(101) NOT NULL, \
         KEY nation (s_nationkey)",
    ),
    (
        "partsupp",
        "ps_partkey INT, ps_suppkey INT, ps_availqty INT NOT NULL, ps_supplycost DECIMAL(15, 2) NOT NULL, \
         ps_comment VARCHAR(199) NOT NULL, PRIMARY KEY (ps_partkey, ps_suppkey), KEY supplier (ps_suppkey)",
    ),
    (
        "customer",
        "c_custkey INT PRIMARY KEY, c_name VARCHAR(25) NOT NULL, c_address VARCHAR(40) NOT NULL, \
         c_nationkey INT NOT NULL, c_phone CHAR(15) NOT NULL, c_acctbal DECIMAL(15, 2) NOT NULL, \
         c_mktsegment CHAR(10) NOT NULL, c_comment VARCHAR(117) NOT NULL, KEY nation (c_nationkey)",
    ),
    (
        "orders",
        "o_orderkey BIGINT PRIMARY KEY, o_custkey INT NOT NULL, o_orderstatus CHAR(1) NOT NULL, \
         o_totalprice DECIMAL(15, 2) NOT NULL, o_orderdate DATE NOT NULL, o_orderpriority CHAR(15) NOT NULL, \
         o_clerk CHAR(15) NOT NULL, o_shippriority INT NOT NULL, o_comment VARCHAR(79) NOT NULL, \
         KEY customer (o_custkey), KEY day (o_orderdate)",
    ),
    (
        "lineitem",
        "l_orderkey BIGINT, l_partkey INT NOT NULL, l_suppkey INT NOT NULL, l_linenumber INT, \
         l_quantity DECIMAL(15, 2) NOT NULL, l_extendedprice DECIMAL(15, 2) NOT NULL, \
         l_discount DECIMAL(15, 2) NOT NULL, l_tax DECIMAL(15, 2) NOT NULL, l_returnflag CHAR(1) NOT NULL, \
         l_linestatus CHAR(1) NOT NULL, l_shipdate DATE NOT NULL, l_commitdate DATE NOT NULL, \
         l_receiptdate DATE NOT NULL, l_shipinstruct CHAR(25) NOT NULL, l_shipmode CHAR(10) NOT NULL, \
         l_comment VARCHAR(44) NOT NULL, PRIMARY KEY (l_orderkey, l_linenumber), KEY supplier (l_suppkey), \
         KEY part_supplier (l_partkey, l_suppkey), KEY shipped (l_shipdate)",
    ),
];

/// The parameters of each query: those with which TPC validates answers.
const PARAMETERS: [&[&str]; 22] = [
    &["90"],
    &["15", "BRASS", "EUROPE"],
    &["BUILDING", "1995-03-15"],
    &["1993-07-01"],
    &["ASIA", "1994-01-01"],
    &["1994-01-01", "0.06", "24"],
    &["FRANCE", "GERMANY"],
    &["BRAZIL", "AMERICA", "ECONOMY ANODIZED STEEL"],
    &["green"],
    &["1993-10-01"],
    // The fraction is 0.0001 over the scale factor.
    &["GERMANY", "FRACTION"],
    &["MAIL", "SHIP", "1994-01-01"],
    &["special", "requests"],
    &["1995-09-01"],
    &["1996-01-01"],
    &["Brand#45", "MEDIUM POLISHED", "49", "14", "23", "45", "19", "3", "36", "9"],
    &["Brand#23", "MED BOX"],
    &["300"],
    &["Brand#12", "Brand#23", "Brand#34", "1", "10", "20"],
    &["forest", "1994-01-01", "CANADA"],
    &["SAUDI ARABIA"],
    &["13", "31", "23", "29", "30", "18", "17"],
];

/// A plan may hang on the last digit of a statistic, and InnoDB's statistics are those of pages
/// that it draws: a plan is another one if it is with each of so many draws.
const SAMPLES: usize = 8;

/// Columns of EXPLAIN that are estimates: the number of rows.
const ESTIMATES: [&str; 2] = ["rows", "filtered"];

/// Compares plans and rows of all queries.
pub(crate) fn run(plan: &Plan) -> Result<(), String> {
    let mut world = World::new(&plan.socket).map_err(|e| e.to_string())?;
    // InnoDB's statistics are a sample; of all pages they would say that an index has one leaf, and
    // its costs follow from that.
    done(&mut world, "SET GLOBAL innodb_stats_persistent_sample_pages = 100")?;
    done(&mut world, "SET sql_mode = ''")?;
    for (table, columns) in TABLES {
        let began = Instant::now();
        let file = plan.dir.join(format!("{table}.tbl"));
        write_rows(table, plan.scale, &file).map_err(|e| format!("cannot write {}: {e}", file.display()))?;
        done(&mut world, &format!("CREATE TABLE {table} ({columns})"))?;
        let load =
            format!("LOAD DATA INFILE '{}' INTO TABLE {table} FIELDS TERMINATED BY '|'", file.display());
        let rows = done(&mut world, &load)?;
        done(&mut world, &format!("ANALYZE TABLE {table}"))?;
        let _ = std::fs::remove_file(&file);
        println!("{table}: {rows} rows in {:.1} s", began.elapsed().as_secs_f64());
    }
    let mut differ = Vec::new();
    for number in 1..=22 {
        let began = Instant::now();
        let mut outcome = compare(&mut world, number, plan.scale)?;
        for _ in 1..SAMPLES {
            if outcome == SAME {
                break;
            }
            TABLES
                .iter()
                .try_for_each(|(table, _)| done(&mut world, &format!("ANALYZE TABLE {table}")).map(drop))?;
            outcome = compare(&mut world, number, plan.scale)?;
        }
        println!("query {number}: {outcome} in {:.1} s", began.elapsed().as_secs_f64());
        if outcome != SAME {
            differ.push(number.to_string());
        }
    }
    if differ.is_empty() { Ok(()) } else { Err(format!("queries that differ: {}", differ.join(", "))) }
}

/// Runs a statement that must succeed on both sides. Returns how many rows it affects.
fn done(world: &mut World, sql: &str) -> Result<u64, String> {
    let outcomes = world.run(&Step::new('a', sql)).map_err(|e| format!("{sql}: {e}"))?;
    for outcome in &outcomes {
        if outcome.answer.code().is_some() {
            return Err(format!("{sql}:\n{outcome}"));
        }
    }
    let [_, Outcome { answer, .. }] = outcomes;
    Ok(if let Answer::Done { affected, .. } = answer { affected } else { 0 })
}

/// Writes the rows of a table, a line each.
fn write_rows(table: &str, scale: f64, file: &Path) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(file)?);
    match table {
        "region" => all(&mut out, RegionGenerator::new(scale, 1, 1).iter()),
        "nation" => all(&mut out, NationGenerator::new(scale, 1, 1).iter()),
        "part" => all(&mut out, PartGenerator::new(scale, 1, 1).iter()),
        "supplier" => all(&mut out, SupplierGenerator::new(scale, 1, 1).iter()),
        "partsupp" => all(&mut out, PartSuppGenerator::new(scale, 1, 1).iter()),
        "customer" => all(&mut out, CustomerGenerator::new(scale, 1, 1).iter()),
        "orders" => all(&mut out, OrderGenerator::new(scale, 1, 1).iter()),
        _ => all(&mut out, LineItemGenerator::new(scale, 1, 1).iter()),
    }?;
    out.flush()
}

fn all(out: &mut impl Write, mut rows: impl Iterator<Item = impl Display>) -> std::io::Result<()> {
    rows.try_for_each(|row| writeln!(out, "{row}"))
}

const SAME: &str = "same plan, same rows";

/// Compares plan and rows of a query.
fn compare(world: &mut World, number: usize, scale: f64) -> Result<String, String> {
    let mut found = SAME.to_owned();
    for statement in query(number, scale) {
        if !statement.starts_with("select") {
            done(world, &statement)?;
            continue;
        }
        let mut run = |sql: &str| world.run(&Step::new('a', sql)).map_err(|e| format!("{sql}: {e}"));
        let plans = run(&format!("EXPLAIN {statement}"))?;
        let rows = run(&statement)?;
        if let Some(failed) = plans.iter().chain(&rows).find(|outcome| outcome.answer.code().is_some()) {
            return Err(format!("{statement}:\n{failed}"));
        }
        let [theirs, ours] = plans.map(|plan| plan.answer);
        if without_estimates(&theirs) != without_estimates(&ours) {
            found = format!(
                "other plans\n  InnoDB:\n{}  Millpond:\n{}",
                lines(theirs.rows()),
                lines(ours.rows())
            );
        }
        if !equal(&rows[0], &rows[1], Order::Open) {
            found += &format!("\n  other rows\n  InnoDB:\n{}  Millpond:\n{}", rows[0], rows[1]);
        }
    }
    Ok(found)
}

/// Returns the statements of a query.
fn query(number: usize, scale: f64) -> Vec<String> {
    let mut text = queries::query(number as i32).unwrap_or_default().to_owned();
    // From the last one on, as ":10" begins with ":1".
    for (at, parameter) in PARAMETERS[number - 1].iter().enumerate().rev() {
        let value =
            if *parameter == "FRACTION" { format!("{}", 0.0001 / scale) } else { (*parameter).to_owned() };
        text = text.replace(&format!(":{}", at + 1), &value);
    }
    // What this server writes in another way.
    text = text.replace("day (3)", "day").replace(":s", "_of_stream");
    text = text.replace("count(o_orderkey)\n", "count(o_orderkey) as c_count\n");
    text = text.replace("as c_orders (c_custkey, c_count)", "as c_orders");
    text.split(';').map(|statement| statement.trim().to_owned()).filter(|text| !text.is_empty()).collect()
}

/// Returns the rows of EXPLAIN without its estimates.
fn without_estimates(answer: &Answer) -> Vec<Row> {
    let Answer::Rows { columns, rows, .. } = answer else { return Vec::new() };
    let kept = |row: &Row| {
        let of_columns = columns.iter().zip(row);
        of_columns
            .filter(|(column, _)| !ESTIMATES.contains(&column.name.as_str()))
            .map(|(_, v)| v.clone())
            .collect()
    };
    rows.iter().map(kept).collect()
}

fn lines(rows: &[Row]) -> String {
    rows.iter().map(|row| format!("    {}\n", text_of(row))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_query_has_a_parameter_left() {
        for number in 1..=22 {
            let statements = query(number, 0.1);
            assert_eq!(statements.len(), if number == 15 { 3 } else { 1 });
            for statement in statements {
                assert!(!statement.contains(':'), "{statement}");
            }
        }
        assert!(query(16, 0.1)[0].contains("(49, 14, 23, 45, 19, 3, 36, 9)"));
    }

    #[test]
    fn each_table_has_the_rows_of_its_scale() {
        let file = std::env::temp_dir().join(format!("millpond-tpch-{}", std::process::id()));
        let rows = |table| {
            write_rows(table, 0.001, &file).unwrap();
            std::fs::read_to_string(&file).unwrap()
        };
        let counts: Vec<usize> = TABLES.iter().map(|(table, _)| rows(table).lines().count()).collect();
        assert_eq!(counts, [5, 25, 200, 10, 800, 150, 1500, 6005]);
        // As many fields as the table has columns.
        assert_eq!(rows("nation").lines().next().unwrap().matches('|').count(), 4);
        std::fs::remove_file(&file).unwrap();
    }
}
