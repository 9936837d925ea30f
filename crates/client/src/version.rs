//! Which server it is, from what it says of itself.

use std::fmt;

/// Whose server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// MySQL, and what behaves like it.
    MySql,
    /// Percona Server.
    Percona,
    /// MariaDB.
    MariaDb,
}

/// A server's maker and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Whose it is.
    pub maker: Maker,
    /// Major, minor and patch.
    pub number: (u32, u32, u32),
}

impl Version {
    /// Reads `SELECT @@version, @@version_comment`.
    pub fn parse(version: &str, comment: &str) -> Version {
        let both = format!("{version} {comment}").to_lowercase();
        let maker = match &both {
            text if text.contains("mariadb") => Maker::MariaDb,
            text if text.contains("percona") => Maker::Percona,
            _ => Maker::MySql,
        };
        // MariaDB behind some proxies: 5.5.5-10.11.2-MariaDB.
        let version = version.strip_prefix("5.5.5-").unwrap_or(version);
        let mut numbers = version
            .split(['.', '-'])
            .map(|part| part.chars().take_while(char::is_ascii_digit).collect::<String>())
            .map_while(|digits| digits.parse().ok());
        let mut next = || numbers.next().unwrap_or(0);
        Version { maker, number: (next(), next(), next()) }
    }

    /// Whether it is MariaDB.
    pub fn is_mariadb(self) -> bool {
        self.maker == Maker::MariaDb
    }

    /// Whether it is at least this one.
    pub fn from(self, number: (u32, u32, u32)) -> bool {
        self.number >= number
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.maker {
            Maker::MySql => "MySQL",
            Maker::Percona => "Percona Server",
            Maker::MariaDb => "MariaDB",
        };
        let (major, minor, patch) = self.number;
        write!(f, "{name} {major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for (version, comment, shown) in [
            ("10.11.19-MariaDB-0+deb12u1", "Debian 12", "MariaDB 10.11.19"),
            ("5.5.5-10.3.8-MariaDB-log", "", "MariaDB 10.3.8"),
            ("11.4.2", "MariaDB Server", "MariaDB 11.4.2"),
            ("5.7.44-log", "MySQL Community Server (GPL)", "MySQL 5.7.44"),
            ("8.0.36-28", "Percona Server (GPL), Release 28", "Percona Server 8.0.36"),
            ("9.1.0", "MySQL Community Server - GPL", "MySQL 9.1.0"),
            ("8.4", "", "MySQL 8.4.0"),
            ("", "", "MySQL 0.0.0"),
        ] {
            assert_eq!(Version::parse(version, comment).to_string(), shown);
        }
        assert!(Version::parse("8.0.30", "").from((8, 0, 30)));
        assert!(!Version::parse("8.0.29", "").from((8, 0, 30)));
    }

    /// The series of MySQL after 9.x is 26.x. What holds from 8.0.30 or 9.0 on holds there too.
    #[test]
    fn numbers_of_two_digits_come_after_those_of_one() {
        let next = Version::parse("26.1.0", "MySQL Community Server - GPL");
        assert_eq!(next.to_string(), "MySQL 26.1.0");
        for older in [(5, 7, 44), (8, 0, 30), (9, 7, 0), (9, 99, 99)] {
            assert!(next.from(older), "{older:?}");
        }
        assert!(!Version::parse("9.7.0", "").from(next.number));
    }
}
