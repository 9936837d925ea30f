//! The values of columns as bytes: those of keys sort like the values, those of rows are short.

use output::units::now_us;
use std::fmt;

/// An amount of money, in cents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cents(pub(crate) i64);

/// A tax or a discount, in ten-thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate(pub(crate) u32);

/// A time, in seconds since 1970, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) u64);

impl Moment {
    /// Reads the clock.
    pub(crate) fn now() -> Moment {
        Moment(now_us() / 1_000_000)
    }
}

impl fmt::Display for Cents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(f, "{sign}{}.{:02}", self.0.unsigned_abs() / 100, self.0.unsigned_abs() % 100)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:04}", self.0 / 10_000, self.0 % 10_000)
    }
}

impl std::iter::Sum for Cents {
    fn sum<I: Iterator<Item = Cents>>(all: I) -> Cents {
        Cents(all.map(|cents| cents.0).sum())
    }
}

/// A value of a column, as a server is told it.
#[cfg(feature = "watch")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell<'a> {
    /// A number, or an amount with its point.
    Number(String),
    /// Letters, digits and spaces.
    Text(&'a [u8]),
    /// A time.
    Time(Moment),
    /// NULL.
    Null,
}

/// A column of a row.
pub(crate) trait Field: Sized {
    /// Appends the value.
    fn put(&self, out: &mut Vec<u8>);
    /// Takes a value from the front; `None` if none can have been written there.
    fn take(from: &mut &[u8]) -> Option<Self>;
    /// Returns the value for a server.
    #[cfg(feature = "watch")]
    fn cell(&self) -> Cell<'_>;
}

/// A column of a key: its bytes sort like its values.
pub(crate) trait KeyField: Sized {
    /// Appends the value.
    fn put_in_order(&self, out: &mut Vec<u8>);
    /// Takes a value from the front.
    fn take_in_order(from: &mut &[u8]) -> Option<Self>;
}

/// Takes so many bytes from the front.
fn take_array<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (front, rest) = from.split_first_chunk::<N>()?;
    *from = rest;
    Some(*front)
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Field for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut &[u8]) -> Option<$number> {
                take_array(from).map(<$number>::from_le_bytes)
            }

            #[cfg(feature = "watch")]
            fn cell(&self) -> Cell<'_> {
                Cell::Number(self.to_string())
            }
        }

        impl KeyField for $number {
            fn put_in_order(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }

            fn take_in_order(from: &mut &[u8]) -> Option<$number> {
                take_array(from).map(<$number>::from_be_bytes)
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64);

impl Field for Cents {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes());
    }

    fn take(from: &mut &[u8]) -> Option<Cents> {
        take_array(from).map(i64::from_le_bytes).map(Cents)
    }

    #[cfg(feature = "watch")]
    fn cell(&self) -> Cell<'_> {
        Cell::Number(self.to_string())
    }
}

impl Field for Rate {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Rate> {
        Field::take(from).map(Rate)
    }

    #[cfg(feature = "watch")]
    fn cell(&self) -> Cell<'_> {
        Cell::Number(self.to_string())
    }
}

impl Field for Moment {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Moment> {
        Field::take(from).map(Moment)
    }

    #[cfg(feature = "watch")]
    fn cell(&self) -> Cell<'_> {
        Cell::Time(*self)
    }
}

/// A text of at most 65,535 bytes, with its length in front.
impl Field for String {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u16).put(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn take(from: &mut &[u8]) -> Option<String> {
        let length = u16::take(from)?;
        let (text, rest) = from.split_at_checked(length.into())?;
        *from = rest;
        String::from_utf8(text.to_vec()).ok()
    }

    #[cfg(feature = "watch")]
    fn cell(&self) -> Cell<'_> {
        Cell::Text(self.as_bytes())
    }
}

impl<const N: usize> Field for [u8; N] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn take(from: &mut &[u8]) -> Option<[u8; N]> {
        take_array(from)
    }

    #[cfg(feature = "watch")]
    fn cell(&self) -> Cell<'_> {
        Cell::Text(self)
    }
}

impl<F: Field> Field for Option<F> {
    fn put(&self, out: &mut Vec<u8>) {
        u8::from(self.is_some()).put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(from: &mut &[u8]) -> Option<Option<F>> {
        match u8::take(from)? {
            0 => Some(None),
            1 => F::take(from).map(Some),
            _ => None,
        }
    }

    #[cfg(feature = "watch")]
    fn cell(&self) -> Cell<'_> {
        self.as_ref().map_or(Cell::Null, Field::cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round<F: Field + PartialEq + std::fmt::Debug>(value: &F) {
        let mut bytes = Vec::new();
        value.put(&mut bytes);
        let mut rest = &bytes[..];
        assert_eq!(F::take(&mut rest).as_ref(), Some(value));
        assert!(rest.is_empty());
        for cut in 0..bytes.len() {
            assert_eq!(F::take(&mut &bytes[..cut]), None, "{value:?} cut at {cut}");
        }
    }

    #[test]
    fn values_survive_encoding() {
        round(&7u8);
        round(&70_000u32);
        round(&Cents(-1000));
        round(&Rate(2000));
        round(&Moment(1 << 40));
        round(&"BARBARBAR".to_owned());
        round(b"GC");
        round(&Some(3u8));
        round::<Option<u8>>(&None);
        assert_eq!(<Option<u8> as Field>::take(&mut &[2, 0][..]), None);
    }

    #[test]
    fn amounts_and_rates_have_a_point() {
        assert_eq!(Cents(-1005).to_string(), "-10.05");
        assert_eq!(Cents(-5).to_string(), "-0.05");
        assert_eq!(Cents(30_000_000).to_string(), "300000.00");
        assert_eq!(Rate(2000).to_string(), "0.2000");
        assert_eq!(Rate(5).to_string(), "0.0005");
    }
}
