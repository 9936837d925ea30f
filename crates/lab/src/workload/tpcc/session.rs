//! One thread of the workload: which transaction comes next, with which input.

use super::inputs::{Choices, Deck, Input, Kind, Place, pause};
use super::scale::{DISTRICTS, Scale};
use super::setup::TpccSetup;
use super::transactions::{Statements, run};
use crate::workload::params::thread_seed;
use crate::workload::{AttemptError, Session};
use base::prng::Prng;
use std::time::Duration;

/// One thread of the workload.
pub(crate) struct TpccSession<S> {
    statements: S,
    choices: Choices,
    /// The terminal of a user who thinks. Without pauses a thread is not one terminal: it works for
    /// all warehouses in turn, at random.
    terminal: Option<Place>,
    deck: Deck,
    rng: Prng,
    drawn: Option<Input>,
    last: Option<Kind>,
    committed: bool,
}

impl<S: Statements> TpccSession<S> {
    /// Makes the session of thread `thread` (from 0), which runs `statements`.
    pub(crate) fn new(setup: TpccSetup, seed: u64, thread: u32, statements: S) -> TpccSession<S> {
        TpccSession {
            statements,
            choices: Choices::new(setup.scale, seed),
            terminal: setup.think.then(|| terminal(setup.scale, thread)),
            deck: Deck::default(),
            rng: Prng::new(thread_seed(seed, thread)),
            drawn: None,
            last: None,
            committed: true,
        }
    }
}

/// Returns the terminal of a thread. The first threads are in different warehouses.
fn terminal(scale: Scale, thread: u32) -> Place {
    let warehouses = u32::from(scale.warehouses);
    let (w, d) = (thread % warehouses, thread / warehouses % u32::from(DISTRICTS));
    Place { w: w as u16 + 1, d: d as u8 + 1 }
}

impl<S: Statements> Session for TpccSession<S> {
    fn draw(&mut self) -> bool {
        self.last = self.drawn.as_ref().map(Input::kind);
        let kind = self.deck.next(&mut self.rng);
        let home = self.terminal.unwrap_or_else(|| Place {
            w: self.choices.warehouse(&mut self.rng),
            d: self.rng.between(1, DISTRICTS.into()) as u8,
        });
        self.drawn = Some(self.choices.input(kind, home, &mut self.rng));
        true
    }

    fn pause(&mut self) -> Duration {
        match (self.terminal, &self.drawn) {
            (Some(_), Some(input)) => pause(self.last, input.kind(), &mut self.rng),
            _ => Duration::ZERO,
        }
    }

    fn attempt(&mut self) -> Result<u64, AttemptError> {
        let Some(input) = &self.drawn else { return Ok(0) };
        let done = run(&mut self.statements, input)?;
        self.committed = done.committed;
        Ok(done.row_changes)
    }

    fn kind(&self) -> Option<&'static str> {
        self.drawn.as_ref().map(|input| input.kind().name())
    }

    fn has_committed(&self) -> bool {
        self.committed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_warehouse_has_ten_terminals() {
        let scale = Scale { warehouses: 3, part: 1 };
        let all: std::collections::BTreeSet<Place> = (0..30).map(|n| terminal(scale, n)).collect();
        assert_eq!(all.len(), 30);
        assert_eq!(terminal(scale, 0), Place { w: 1, d: 1 });
        assert_eq!(terminal(scale, 1), Place { w: 2, d: 1 });
        assert_eq!(terminal(scale, 30), terminal(scale, 0));
    }
}
