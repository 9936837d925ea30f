//! The points of a sweep, and the order in which they are measured.

use base::prng::Prng;

/// A setting, and the values that it should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    pub(crate) name: String,
    pub(crate) values: Vec<String>,
}

/// The value of each setting.
pub(crate) type Point = Vec<(String, String)>;

impl Axis {
    /// Reads `NAME=V1,V2,…`.
    pub(crate) fn parse(text: &str) -> Result<Axis, String> {
        let wrong = || format!("{text:?} is not NAME=VALUE,VALUE,…");
        let (name, values) = text.split_once('=').ok_or_else(wrong)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || !name.chars().all(plain) {
            return Err(wrong());
        }
        let values: Vec<String> = values.split(',').map(str::to_owned).collect();
        let written = |c: char| c.is_ascii_alphanumeric() || "_-.:+".contains(c);
        if values.iter().any(|value| value.is_empty() || !value.chars().all(written)) {
            return Err(wrong());
        }
        let twice = values.iter().enumerate().find(|(i, value)| values[..*i].contains(value));
        if let Some((_, value)) = twice {
            return Err(format!("{name} has the value {value} twice"));
        }
        Ok(Axis { name: name.to_owned(), values })
    }
}

/// Returns all combinations; the last setting changes first.
pub(crate) fn points(axes: &[Axis]) -> Vec<Point> {
    let mut points: Vec<Point> = vec![Vec::new()];
    for axis in axes {
        let with = |point: &Point, value: &String| {
            let mut point = point.clone();
            point.push((axis.name.clone(), value.clone()));
            point
        };
        points =
            points.iter().flat_map(|point| axis.values.iter().map(move |value| with(point, value))).collect();
    }
    points
}

/// Returns the order of the points in a round: shuffled, so a slow hour of the machine does not
/// meet neighbours, and the same each time, so a sweep can go on where it was stopped.
pub(crate) fn order(points: usize, round: u32) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points).collect();
    let mut rng = Prng::new(u64::from(round) + 1);
    for i in (1..points).rev() {
        order.swap(i, (rng.next_u64() % (i as u64 + 1)) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read() {
        let axis = Axis::parse("innodb_io_capacity=200,2000").unwrap();
        assert_eq!((axis.name.as_str(), axis.values.len()), ("innodb_io_capacity", 2));
        for bad in ["", "a", "=1", "a=", "a=1,", "a b=1", "a=1;DROP", "a=x'", "a=1,1"] {
            assert!(Axis::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn all_combinations_are_there_once() {
        let axes = [Axis::parse("a=1,2").unwrap(), Axis::parse("b=x,y,z").unwrap()];
        let points = points(&axes);
        assert_eq!(points.len(), 6);
        assert_eq!(points[1], [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "y".to_owned())]);
        for round in 0..3 {
            let mut order = order(6, round);
            assert_eq!(order, super::order(6, round), "a sweep that goes on has the same order");
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2, 3, 4, 5]);
        }
        assert_ne!(order(6, 0), order(6, 1));
    }
}
