//! What is compared: InnoDB, Millpond in the process, and Millpond in a server of the same kind.

use super::finding::Row;

/// Something of each side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sides<T> {
    pub(super) innodb: T,
    pub(super) millpond: T,
    /// Millpond as an engine of the server; `None` without `--plugin`.
    pub(super) in_server: Option<T>,
}

impl<T> Sides<T> {
    /// Makes something of each side's.
    pub(super) fn map<'t, U>(&'t self, of: impl Fn(&'t T) -> U) -> Sides<U> {
        Sides {
            innodb: of(&self.innodb),
            millpond: of(&self.millpond),
            in_server: self.in_server.as_ref().map(of),
        }
    }

    /// Joins two things of each side.
    pub(super) fn with<U, V>(self, other: Sides<U>, join: impl Fn(T, U) -> V) -> Sides<V> {
        Sides {
            innodb: join(self.innodb, other.innodb),
            millpond: join(self.millpond, other.millpond),
            in_server: self.in_server.zip(other.in_server).map(|(own, other)| join(own, other)),
        }
    }

    /// Returns those that are there.
    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        [&self.innodb, &self.millpond].into_iter().chain(&self.in_server)
    }

    /// Returns a figure of each side as a row; `None` where it does not exist.
    pub(super) fn row(
        &self,
        what: &str,
        published: Option<&str>,
        unit: &str,
        of: impl Fn(&T) -> Option<f64>,
    ) -> Row {
        Row {
            millpond_in_server: self.in_server.as_ref().and_then(&of),
            ..Row::new(what, published, of(&self.innodb), of(&self.millpond), unit)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_what_each_side_has() {
        let sides = Sides { innodb: None, millpond: Some(3.0), in_server: None };
        let row = sides.row("rate", Some("5"), "a second", |rate| *rate);
        assert_eq!((row.innodb, row.millpond, row.millpond_in_server), (None, Some(3.0), None));
        let sides = Sides { innodb: 1.0, millpond: 3.0, in_server: Some(4.0) };
        let row = sides.row("rate", None, "a second", |rate| Some(*rate));
        assert_eq!((row.innodb, row.millpond_in_server), (Some(1.0), Some(4.0)));
        assert_eq!(sides.all().count(), 3);
    }
}
