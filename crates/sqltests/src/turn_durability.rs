//! How durable commits are in a turn of kills: each turn has the next value of the setting.

use super::server::Server;
use super::sql;

/// How durable commits are in a turn: a value of `millpond_flush_log_at_trx_commit`.
#[derive(Clone, Copy)]
pub(super) struct TurnDurability(u32);

impl TurnDurability {
    /// Sets the one of this turn: all values, one after the other.
    pub(super) fn set(server: &Server, turn: u32) -> Result<TurnDurability, String> {
        let durability = TurnDurability(turn % 4);
        sql(server, &format!("SET GLOBAL {durability}"))?;
        Ok(durability)
    }

    /// Whether a killed server keeps what it has acknowledged.
    pub(super) fn outlives_the_process(self) -> bool {
        self.0 != 0
    }
}

impl std::fmt::Display for TurnDurability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "millpond_flush_log_at_trx_commit={}", self.0)
    }
}
