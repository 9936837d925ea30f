//! The flags that choose the law of flow control.

use clap::ValueEnum;
use millpond::{InnodbLaw, Law};
use output::failure::{Failure, Outcome};

/// InnoDB's least and its default `io_capacity`.
const IO_CAPACITY_MIN: u64 = 100;
const IO_CAPACITY: u64 = 200;
/// The least default of `io_capacity_max`.
const IO_CAPACITY_MAX: u64 = 2000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LawFlag {
    Millpond,
    Innodb,
    InnodbMysql,
}

/// InnoDB's capacities. Both are pages a second.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Capacities {
    /// Under InnoDB's law: pages that may be written in the background, a second [default: 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(IO_CAPACITY_MIN..))]
    io_capacity: Option<u64>,
    /// Under InnoDB's law: pages a second where writing has fallen behind [default: twice
    /// --io-capacity, at least 2000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(IO_CAPACITY_MIN..))]
    io_capacity_max: Option<u64>,
    /// Under InnoDB's law: pages written at a time when no frame is free, as in MariaDB 10.6
    /// [default: later versions do otherwise]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    lru_flush_size: Option<u64>,
    /// Under InnoDB's law: free frames that are kept ready [default: 1536; innodb-mysql: 1024]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    lru_scan_depth: Option<u64>,
}

impl Capacities {
    /// Returns `io_capacity` and `io_capacity_max`, with their defaults.
    fn resolved(self) -> (u64, u64) {
        let io = self.io_capacity.unwrap_or(IO_CAPACITY);
        (io, self.io_capacity_max.unwrap_or(io.saturating_mul(2).max(IO_CAPACITY_MAX)))
    }

    /// Returns InnoDB's law with these capacities.
    pub(crate) fn of(self, law: InnodbLaw) -> Outcome<InnodbLaw> {
        let (io, max) = self.resolved();
        if max < io {
            return Err(Failure::misuse(format!("--io-capacity-max {max} is less than --io-capacity {io}")));
        }
        let law = law.io_capacity(io).io_capacity_max(max);
        let law = self.lru_scan_depth.map_or(law, |frames| law.lru_scan_depth(frames));
        Ok(self.lru_flush_size.map_or(law, |pages| law.lru_flush_size(pages)))
    }

    /// Returns them for people.
    pub(crate) fn show(self) -> String {
        let (io, max) = self.resolved();
        let lru = [("lru_flush_size", self.lru_flush_size), ("lru_scan_depth", self.lru_scan_depth)];
        let lru = lru.map(|(name, n)| n.map_or(String::new(), |n| format!(", {name} {n}"))).concat();
        format!("io_capacity {io}, io_capacity_max {max}{lru}")
    }
}

/// The law of a run.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct LawFlags {
    /// Law of flow control: millpond, or InnoDB's as MariaDB 10.11 (innodb) or MySQL 8
    /// (innodb-mysql) has it
    #[arg(long, value_enum, value_name = "LAW", default_value_t = LawFlag::Millpond, hide_possible_values = true)]
    law: LawFlag,
    #[command(flatten)]
    capacities: Capacities,
}

impl LawFlags {
    /// Returns the law.
    pub(crate) fn law(self) -> Outcome<Law> {
        let Capacities { io_capacity, io_capacity_max, lru_flush_size, lru_scan_depth } = self.capacities;
        let innodb = match self.law {
            LawFlag::Innodb => InnodbLaw::mariadb(),
            LawFlag::InnodbMysql => InnodbLaw::mysql(),
            LawFlag::Millpond if io_capacity.is_some() => {
                return Err(Failure::misuse("--io-capacity needs --law innodb"));
            }
            LawFlag::Millpond if io_capacity_max.is_some() => {
                return Err(Failure::misuse("--io-capacity-max needs --law innodb"));
            }
            LawFlag::Millpond if lru_flush_size.is_some() => {
                return Err(Failure::misuse("--lru-flush-size needs --law innodb"));
            }
            LawFlag::Millpond if lru_scan_depth.is_some() => {
                return Err(Failure::misuse("--lru-scan-depth needs --law innodb"));
            }
            LawFlag::Millpond => return Ok(Law::Millpond),
        };
        Ok(Law::Innodb(self.capacities.of(innodb)?))
    }

    /// Returns the law, for people.
    pub(crate) fn show(self) -> String {
        let name = self.law.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned());
        if self.law == LawFlag::Millpond { name } else { format!("{name}, {}", self.capacities.show()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_engine() {
        let none = Capacities {
            io_capacity: None,
            io_capacity_max: None,
            lru_flush_size: None,
            lru_scan_depth: None,
        };
        for law in [InnodbLaw::mariadb(), InnodbLaw::mysql()] {
            assert_eq!(none.of(law).unwrap(), law);
            let some = Capacities { io_capacity: Some(5000), ..none };
            assert_eq!(some.of(law).unwrap(), law.io_capacity(5000));
        }
        let with_size = Capacities { lru_flush_size: Some(2048), ..none };
        assert_eq!(with_size.of(InnodbLaw::mariadb()).unwrap(), InnodbLaw::mariadb().lru_flush_size(2048));
        let flags = LawFlags { law: LawFlag::InnodbMysql, capacities: none };
        assert_eq!(flags.show(), "innodb-mysql, io_capacity 200, io_capacity_max 2000");
        assert_eq!(flags.law().unwrap(), Law::Innodb(InnodbLaw::mysql()));
        let flags = LawFlags { law: LawFlag::Millpond, ..flags };
        assert_eq!((flags.show().as_str(), flags.law().unwrap()), ("millpond", Law::Millpond));
    }
}
