//! How figures are written in advice.

use output::units::{show_count, show_size};

const MIB: f64 = 1_048_576.0;
const GIB: f64 = 1024.0 * MIB;
/// Seconds for a GiB of redo in a recovery of InnoDB: 2 minutes in one published test with a large
/// log; 5 minutes are a rule that is often cited.
const RECOVERY_S: (f64, f64) = (120.0, 300.0);

/// Writes a part of the seconds that were watched: `27 of 30 s`.
pub(super) fn part_of(share: f64, seconds: f64) -> String {
    format!("{:.0} of {seconds:.0} s", (share * seconds).ceil())
}

/// Writes a time: `12 s`, `4 min`, `2.5 h`.
pub(super) fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => "less than 1 s".to_owned(),
        s if s < 180.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// Writes how long InnoDB takes for so much redo, after published figures.
pub(super) fn recovery(bytes: f64) -> String {
    let (least, most) = (RECOVERY_S.0 * bytes / GIB, RECOVERY_S.1 * bytes / GIB);
    if most < 1.0 { "less than 1 s".to_owned() } else { format!("{} to {}", time(least), time(most)) }
}

/// Writes bytes in a statement, so that a reader knows them again: `256*1024*1024`.
pub(super) fn statement_bytes(bytes: f64) -> String {
    let mib = bytes / MIB;
    if mib >= 1.0 && mib.fract() == 0.0 { format!("{mib:.0}*1024*1024") } else { format!("{bytes:.0}") }
}

/// Writes bytes in an option file: `256M`.
pub(super) fn option_bytes(bytes: f64) -> String {
    let mib = bytes / MIB;
    if mib >= 1.0 && mib.fract() == 0.0 { format!("{mib:.0}M") } else { format!("{bytes:.0}") }
}

/// Writes how many times a figure is another: `2.5 times`, `20 times`.
pub(super) fn times(figure: f64, of: f64) -> String {
    match figure / of.max(1.0) {
        ratio if ratio < 10.0 => format!("{ratio:.1} times"),
        ratio => format!("{} times", show_count(ratio)),
    }
}

/// Writes a size a second.
pub(super) fn rate(bytes: f64) -> String {
    format!("{}/s", show_size(bytes))
}

/// Returns the least power of two of MiB that is no less.
pub(super) fn round_size(bytes: f64) -> f64 {
    let mut size = MIB;
    while size < bytes {
        size *= 2.0;
    }
    size
}

/// Rounds up to two digits.
pub(super) fn round_up(number: f64) -> f64 {
    let step = 10f64.powf((number.max(1.0).log10().floor() - 1.0).max(0.0));
    (number / step).ceil() * step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_as_they_are_written() {
        assert_eq!(part_of(0.9, 30.0), "27 of 30 s");
        assert_eq!([0.2, 12.0, 200.0, 9000.0].map(time), ["less than 1 s", "12 s", "3 min", "2.5 h"]);
        assert_eq!(recovery(1e6), "less than 1 s");
        assert_eq!(recovery(GIB), "120 s to 5 min");
        assert_eq!(
            (statement_bytes(8.0 * MIB), statement_bytes(5000.0)),
            ("8*1024*1024".into(), "5000".into())
        );
        assert_eq!((option_bytes(8.0 * MIB), option_bytes(5000.0)), ("8M".into(), "5000".into()));
        assert_eq!((times(5.0, 2.0), times(5000.0, 2.0)), ("2.5 times".into(), "2 500 times".into()));
        assert_eq!((round_size(1.0), round_size(65.0 * MIB)), (MIB, 128.0 * MIB));
        assert_eq!([0.0, 7.2, 1234.0].map(round_up), [0.0, 8.0, 1300.0]);
    }
}
