//! Numbers in few characters, for tables with many of them.

/// Returns a rate in at most five characters: `7.3`, `980`, `12.3k`, `1.23M`.
pub(super) fn short_rate(per_second: f64) -> String {
    match per_second {
        n if n < 9.95 => format!("{n:.1}"),
        n if n < 999.5 => format!("{n:.0}"),
        n if n < 9_995.0 => format!("{:.2}k", n / 1e3),
        n if n < 99_950.0 => format!("{:.1}k", n / 1e3),
        n if n < 999_500.0 => format!("{:.0}k", n / 1e3),
        n => format!("{:.2}M", n / 1e6),
    }
}

/// Returns a time in at most five characters: `3.2µs`, `80µs`, `1.2ms`, `640ms`, `1.5s`.
pub(super) fn short_micros(us: f64) -> String {
    match us {
        n if n < 9.95 => format!("{n:.1}µs"),
        n if n < 999.5 => format!("{n:.0}µs"),
        n if n < 9_950.0 => format!("{:.1}ms", n / 1e3),
        n if n < 999_500.0 => format!("{:.0}ms", n / 1e3),
        n => format!("{:.1}s", n / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_one_unit() {
        for (n, shown) in [
            (0.04, "0.0"),
            (7.31, "7.3"),
            (9.97, "10"),
            (980.4, "980"),
            (999.7, "1.00k"),
            (9_996.0, "10.0k"),
            (12_345.0, "12.3k"),
            (123_456.0, "123k"),
            (999_900.0, "1.00M"),
        ] {
            assert_eq!(short_rate(n), shown);
        }
        for (us, shown) in [
            (0.44, "0.4µs"),
            (9.96, "10µs"),
            (80.2, "80µs"),
            (999.9, "1.0ms"),
            (1234.0, "1.2ms"),
            (12_345.0, "12ms"),
            (999_900.0, "1.0s"),
        ] {
            assert_eq!(short_micros(us), shown);
        }
    }
}
