//! Compares what a test printed with InnoDB and with Millpond.
//!
//! A result is cut into blocks: a statement and what it answered. Blocks of the two results are
//! brought together by their statements. So a difference has a statement, which tells whether only
//! the order of rows differs that no ORDER BY fixes, or only what the optimizer estimated.

use super::absent::Absent;
use super::block::{Block, blocks};
use crate::differences::Permitted;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// How the results of a test relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Relation {
    /// They are the same.
    Same,
    /// Rows whose order the statement does not fix come in another order.
    Order,
    /// What the optimizer estimated and chose differs: EXPLAIN, and counters of its work.
    Plan,
    /// What the guide says of the engine explains the difference.
    Explained,
    /// Something else differs.
    Different,
}

/// The comparison of a test's results.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) relation: Relation,
    /// What explains differences.
    pub(super) explained: BTreeSet<Permitted>,
    /// The blocks that differ in another way: InnoDB's lines with a minus, Millpond's with a plus.
    pub(super) text: String,
}

/// Returns how two blocks of the same statement relate. A plan that is shown over several lines
/// (EXPLAIN before SELECT) counts by its first word; `in_plan` tells that the block before was one
/// without an answer.
fn relation(left: &Block<'_>, right: &Block<'_>, in_plan: bool) -> Relation {
    if left == right {
        Relation::Same
    } else if in_plan || left.is_plan() || left.has_other_cardinalities(right) || left.warns_otherwise(right)
    {
        Relation::Plan
    } else if left.is_reordered(right)
        || left.is_limited_differently(right)
        || left.shows_others_of_equals(right)
    {
        Relation::Order
    } else {
        Relation::Different
    }
}

/// Pairs blocks with the same statement, by a longest common subsequence of the statements.
fn pairs(left: &[Block<'_>], right: &[Block<'_>]) -> Vec<(usize, usize)> {
    let mut start = 0;
    while start < left.len().min(right.len()) && left[start].head() == right[start].head() {
        start += 1;
    }
    let (rows, columns) = (left.len() - start, right.len() - start);
    let mut longest = vec![vec![0u32; columns + 1]; rows + 1];
    for i in (0..rows).rev() {
        for j in (0..columns).rev() {
            longest[i][j] = if left[start + i].head() == right[start + j].head() {
                longest[i + 1][j + 1] + 1
            } else {
                longest[i + 1][j].max(longest[i][j + 1])
            };
        }
    }
    let mut pairs: Vec<(usize, usize)> = (0..start).map(|at| (at, at)).collect();
    let (mut i, mut j) = (0, 0);
    while i < rows && j < columns {
        if left[start + i].head() == right[start + j].head() {
            pairs.push((start + i, start + j));
            i += 1;
            j += 1;
        } else if longest[i + 1][j] >= longest[i][j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

/// Compares two masked results.
pub(super) fn compare(innodb: &str, millpond: &str) -> Comparison {
    let (left, right) = (blocks(innodb), blocks(millpond));
    let mut comparison =
        Comparison { relation: Relation::Same, explained: BTreeSet::new(), text: String::new() };
    let mut absent = Absent::default();
    let (mut i, mut j) = (0, 0);
    let mut pairs = pairs(&left, &right);
    pairs.push((left.len(), right.len()));
    let mut in_plan = false;
    for (to_i, to_j) in pairs {
        if i < to_i || j < to_j {
            comparison.relation = Relation::Different;
            show(&mut comparison.text, &left[i..to_i], &right[j..to_j]);
        }
        if to_i < left.len() {
            let mut found = relation(&left[to_i], &right[to_j], in_plan);
            if let Some(words) = absent.explain(&left[to_i], &right[to_j])
                && found == Relation::Different
            {
                found = Relation::Explained;
                comparison.explained.insert(words);
            }
            comparison.relation = comparison.relation.max(found);
            if found == Relation::Different {
                show(&mut comparison.text, &left[to_i..=to_i], &right[to_j..=to_j]);
            }
            in_plan = left[to_i].is_plan() && left[to_i].lines.len() == 1;
        }
        (i, j) = (to_i + 1, to_j + 1);
    }
    comparison
}

/// Appends lines that differ, with those around them.
fn show(out: &mut String, left: &[Block<'_>], right: &[Block<'_>]) {
    let lines = |blocks: &[Block<'_>]| -> Vec<String> {
        blocks.iter().flat_map(|block| block.lines.iter().map(|line| (*line).to_owned())).collect()
    };
    let (left, right) = (lines(left), lines(right));
    let same = left.iter().zip(&right).take_while(|(a, b)| a == b).count();
    let rest = left.len().min(right.len()) - same;
    let tail = left.iter().rev().zip(right.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    for line in &left[same.saturating_sub(8)..same] {
        let _ = writeln!(out, " {line}");
    }
    for line in &left[same..left.len() - tail] {
        let _ = writeln!(out, "-{line}");
    }
    for line in &right[same..right.len() - tail] {
        let _ = writeln!(out, "+{line}");
    }
    out.push_str("@@\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_in_another_order_differ_only_where_order_by_is_absent() {
        let found = compare("SELECT a FROM t;\na\n1\n2\n", "SELECT a FROM t;\na\n2\n1\n");
        assert_eq!((found.relation, found.text.as_str()), (Relation::Order, ""));
        let found =
            compare("SELECT a FROM t\nORDER BY a;\na\n1\n2\n", "SELECT a FROM t\nORDER BY a;\na\n2\n1\n");
        assert_eq!(found.relation, Relation::Different);
    }

    #[test]
    fn rows_that_order_by_does_not_tell_apart_may_change_places() {
        let head = "SELECT a, b FROM t ORDER BY t.a DESC LIMIT 3;\na\tb\n";
        let found = compare(&format!("{head}2\tx\n1\ty\n1\tz\n"), &format!("{head}2\tx\n1\tz\n1\ty\n"));
        assert_eq!(found.relation, Relation::Order);
        let found = compare(&format!("{head}2\tx\n1\ty\n1\tz\n"), &format!("{head}1\ty\n2\tx\n1\tz\n"));
        assert_eq!(found.relation, Relation::Different);
    }

    #[test]
    fn any_of_the_rows_that_order_by_does_not_tell_apart_may_be_within_a_limit() {
        let head = "SELECT a, b FROM t ORDER BY a LIMIT 2;\na\tb\n";
        let relation =
            |one: &str, two: &str| compare(&format!("{head}{one}"), &format!("{head}{two}")).relation;
        assert_eq!(relation("1\tx\n2\ty\n", "1\tx\n2\tz\n"), Relation::Order);
        assert_eq!(relation("1\tx\n2\ty\n", "1\tx\n3\tz\n"), Relation::Different);
        assert_eq!(relation("1\tx\n2\ty\n", "1\tx\n"), Relation::Different);
        let found = compare("SELECT a FROM t LIMIT 1;\na\n1\n", "SELECT a FROM t LIMIT 1;\na\n2\n");
        assert_eq!(found.relation, Relation::Order);
        let found = compare("SELECT a FROM t;\na\n1\n", "SELECT a FROM t;\na\n2\n");
        assert_eq!(found.relation, Relation::Different);
    }

    #[test]
    fn how_often_a_condition_warns_follows_from_the_plan() {
        let warning = "Warning\t1292\tTruncated incorrect DECIMAL value: 'a'\n";
        let one = "SELECT a FROM t WHERE a > 'a';\na\n1\n";
        let relation = |one: &str, two: &str| compare(one, two).relation;
        let warned = format!("{one}Warnings:\n{warning}");
        assert_eq!(relation(one, &warned), Relation::Plan);
        assert_eq!(relation(&warned, &format!("{warned}{warning}")), Relation::Plan);
        assert_eq!(relation(&warned, &format!("{one}2\nWarnings:\n{warning}")), Relation::Different);
        assert_eq!(relation(one, &format!("{one}Warnings:\nWarning\t1\tother\n")), Relation::Different);
    }

    #[test]
    fn numbers_of_different_keys_are_estimates() {
        let head = "show keys from t;\nTable\tKey_name\tCardinality\tNull\n";
        let relation =
            |one: &str, two: &str| compare(&format!("{head}{one}"), &format!("{head}{two}")).relation;
        assert_eq!(relation("t\ta\t4\tYES\n", "t\ta\t9\tYES\n"), Relation::Plan);
        assert_eq!(relation("t\ta\t4\tYES\n", "t\tb\t4\tYES\n"), Relation::Different);
    }

    #[test]
    fn distinct_may_show_any_of_equal_strings() {
        let relation = |head: &str, one: &str, two: &str| {
            compare(&format!("{head};\na\n{one}\n"), &format!("{head};\na\n{two}\n")).relation
        };
        assert_eq!(relation("SELECT DISTINCT a FROM t", "Abr", "abr"), Relation::Order);
        assert_eq!(relation("SELECT DISTINCT a FROM t", "Abr", "abs"), Relation::Different);
        assert_eq!(relation("SELECT a FROM t", "Abr", "abr"), Relation::Different);
    }

    #[test]
    fn a_statement_goes_on_with_lines_that_only_alter_table_has() {
        let found = compare(
            "ALTER TABLE t\nDROP COLUMN a,\nLOCK=NONE;\na\n",
            "ALTER TABLE t\nDROP COLUMN a,\nLOCK=NONE;\nb\n",
        );
        assert!(found.text.starts_with(" ALTER TABLE t\n DROP COLUMN a,\n LOCK=NONE;\n"), "{}", found.text);
    }

    #[test]
    fn a_missing_row_is_a_difference() {
        let found = compare("SELECT a FROM t;\na\n1\n2\n", "SELECT a FROM t;\na\n1\n");
        assert_eq!(found.relation, Relation::Different);
        assert_eq!(found.text, " SELECT a FROM t;\n a\n 1\n-2\n@@\n");
    }

    #[test]
    fn plans_differ_without_being_a_difference_of_rows() {
        let one = "EXPLAIN SELECT 1;\nid\trows\n1\t5\nSELECT 1;\n1\n1\n";
        let other = "EXPLAIN SELECT 1;\nid\trows\n1\t6\nSELECT 1;\n1\n1\n";
        assert_eq!(compare(one, other).relation, Relation::Plan);
        let several = ["EXPLAIN\nSELECT 1;\n1\t5\n", "EXPLAIN\nSELECT 1;\n1\t6\n"];
        assert_eq!(compare(several[0], several[1]).relation, Relation::Plan);
    }

    #[test]
    fn a_row_with_replaced_columns_belongs_to_its_plan() {
        let head = "EXPLAIN SELECT 1;\nid\trows\n#\t";
        assert_eq!(compare(&format!("{head}5\n"), &format!("{head}6\n")).relation, Relation::Plan);
    }

    #[test]
    fn the_columns_of_a_table_are_no_plan() {
        let found = compare("DESC t1;\nField\tNull\na\tYES\n", "DESC t1;\nField\tNull\na\tNO\n");
        assert_eq!(found.relation, Relation::Different);
        let found = compare("analyze table t1;\nstatus\tOK\n", "analyze table t1;\nstatus\tBad\n");
        assert_eq!(found.relation, Relation::Different);
        let found = compare("ANALYZE FORMAT=JSON SELECT 1;\n1\n", "ANALYZE FORMAT=JSON SELECT 1;\n2\n");
        assert_eq!(found.relation, Relation::Plan);
    }

    #[test]
    fn statements_behind_a_missing_one_are_still_compared() {
        let found = compare("DROP TABLE t;\nSELECT 1;\n1\n", "SELECT 1;\n1\n");
        assert_eq!(found.text, "-DROP TABLE t;\n@@\n");
        assert_eq!(found.relation, Relation::Different);
    }
}
