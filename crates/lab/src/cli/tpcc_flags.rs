//! The flags of `millpond run tpcc`.

use crate::workload::WorkloadKind;
use crate::workload::tpcc::{PART_MAX, Scale, TpccSetup, WAREHOUSES_MAX};
use output::failure::{Failure, Outcome};

/// The flags of TPC-C.
#[derive(Debug, clap::Args)]
pub(crate) struct TpccFlags {
    /// Warehouses of tpcc [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(WAREHOUSES_MAX)))]
    warehouses: Option<u16>,
    /// A part of TPC-C's items, customers and orders, as 1/100, for tests [default: all]
    #[arg(long, value_name = "1/N", value_parser = parse_part)]
    scale: Option<u32>,
    /// Wait as TPC-C's users do, who type and think; ten threads are a warehouse's users
    #[arg(long, conflicts_with = "rate")]
    think: bool,
    /// Make TPC-C's foreign keys, with --target
    #[arg(long)]
    foreign_keys: bool,
}

impl TpccFlags {
    /// Returns what the run is asked for.
    pub(super) fn setup(&self) -> TpccSetup {
        TpccSetup {
            scale: Scale { warehouses: self.warehouses.unwrap_or(1), part: self.scale.unwrap_or(1) },
            think: self.think,
            foreign_keys: self.foreign_keys,
        }
    }

    /// Refuses the flags where they would do nothing.
    pub(super) fn check(&self, workload: WorkloadKind, on_server: bool) -> Outcome {
        let given = [
            ("--warehouses", self.warehouses.is_some()),
            ("--scale", self.scale.is_some()),
            ("--think", self.think),
            ("--foreign-keys", self.foreign_keys),
        ];
        if let Some((flag, _)) = given.iter().find(|(_, given)| *given)
            && workload != WorkloadKind::Tpcc
        {
            let name = workload.name();
            return Err(Failure::misuse(format!("{flag} is for the workload tpcc, not for {name}")));
        }
        if self.foreign_keys && !on_server {
            return Err(Failure::misuse("--foreign-keys needs --target: only a server has them"));
        }
        Ok(())
    }
}

/// Reads a part, 1/N.
fn parse_part(text: &str) -> Result<u32, String> {
    let part = text.strip_prefix("1/").and_then(|part| part.parse().ok());
    part.filter(|part| (1..=PART_MAX).contains(part))
        .ok_or_else(|| format!("write 1/N with N from 1 to {PART_MAX}, as 1/100"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_a_fraction() {
        assert_eq!(parse_part("1/100"), Ok(100));
        for text in ["100", "1/0", "1/301", "2/3", "1/x"] {
            assert!(parse_part(text).is_err(), "{text}");
        }
    }
}
