//! Which statement or table changes the most rows while the age rises. A server is asked only when
//! a forecast begins, and once more after some seconds: what has changed between is the answer. If
//! none stands out, or the server does not count it, nothing is said.

use crate::sources::RowChanges;

/// The time between both questions, seconds.
const BETWEEN_S: f64 = 2.0;
/// The least part of all changed rows that the first one must have to be named.
const LEAST_PART: f64 = 0.5;
/// The least number of changed rows.
const LEAST_ROWS: f64 = 100.0;
/// The longest name that is shown, characters.
const NAME: usize = 80;

/// Where the questions stand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Driver {
    is_foretold: bool,
    /// The first answer, and when it came.
    first: Option<(f64, RowChanges)>,
}

impl Driver {
    /// Takes whether there is a forecast at this second. Returns who drives it, when that is known.
    pub(crate) fn take(
        &mut self,
        is_foretold: bool,
        seconds: f64,
        ask: impl FnOnce() -> Option<RowChanges>,
    ) -> Option<String> {
        let begins = is_foretold && !self.is_foretold;
        self.is_foretold = is_foretold;
        if !is_foretold {
            self.first = None;
        }
        if begins {
            self.first = ask().map(|answer| (seconds, answer));
            return None;
        }
        let (_, first) = self.first.take_if(|(asked, _)| seconds - *asked >= BETWEEN_S)?;
        most_changes(&first, &ask()?)
    }
}

/// Names what has changed the most rows between two answers.
fn most_changes(first: &RowChanges, second: &RowChanges) -> Option<String> {
    let grown = |(name, rows): (&String, &f64)| {
        let before = first.rows.get(name)?;
        Some((name.clone(), (rows - before).max(0.0)))
    };
    let grown: Vec<(String, f64)> = second.rows.iter().filter_map(grown).collect();
    let all: f64 = grown.iter().map(|(_, rows)| rows).sum();
    let (name, most) = grown.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    if most < LEAST_ROWS || most < LEAST_PART * all {
        return None;
    }
    let cut: String = name.chars().take(NAME).collect();
    let more = if name.chars().count() > NAME { "…" } else { "" };
    let what = if second.by_table { "the table " } else { "" };
    Some(format!("{what}{cut}{more} ({:.0} % of the changed rows)", 100.0 * most / all))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(rows: &[(&str, f64)]) -> Option<RowChanges> {
        let rows = rows.iter().map(|(name, rows)| ((*name).to_owned(), *rows)).collect();
        Some(RowChanges { by_table: false, rows })
    }

    #[test]
    fn a_server_is_asked_twice_for_a_forecast_and_the_fastest_statement_is_named() {
        let mut driver = Driver::default();
        let never = || panic!("it is asked");
        assert_eq!(driver.take(false, 0.0, never), None);
        assert_eq!(driver.take(true, 1.0, || answer(&[("UPDATE t", 50.0), ("INSERT u", 9000.0)])), None);
        assert_eq!(driver.take(true, 2.0, never), None);
        let second = [("UPDATE t", 950.0), ("INSERT u", 9100.0), ("DELETE v", 1e6)];
        let said = driver.take(true, 3.0, || answer(&second));
        assert_eq!(said.as_deref(), Some("UPDATE t (90 % of the changed rows)"));
        assert_eq!(driver.take(true, 4.0, never), None);
        assert_eq!(driver.take(false, 5.0, never), None);
        // The next forecast begins anew; a server that does not tell is asked once.
        assert_eq!(driver.take(true, 6.0, || None), None);
        assert_eq!(driver.take(true, 9.0, never), None);
    }

    #[test]
    fn nothing_is_named_that_does_not_stand_out() {
        let between = |second: &[(&str, f64)]| {
            let first = answer(&[("a", 0.0), ("b", 0.0), ("c", 0.0)]);
            most_changes(&first.unwrap(), &answer(second).unwrap())
        };
        assert_eq!(between(&[("a", 400.0), ("b", 400.0), ("c", 400.0)]), None);
        assert_eq!(between(&[("a", 40.0), ("b", 1.0)]), None);
        assert_eq!(between(&[]), None);
        let mut table = answer(&[("s.t", 500.0)]).unwrap();
        table.by_table = true;
        let said = most_changes(&answer(&[("s.t", 0.0)]).unwrap(), &table);
        assert_eq!(said.as_deref(), Some("the table s.t (100 % of the changed rows)"));
    }
}
