//! What `top` shows of a moment in the past.

use super::state::State;
use crate::past;
use crate::plot::{Window, load_part};
use crate::sources::is_of_schema;
use output::failure::{Failure, Outcome};
use std::path::Path;

/// So much of the past before the moment is shown, seconds.
const BEFORE: u64 = 400;
/// A recording that ends longer before the moment says nothing of it, seconds.
const NEAR: f64 = 60.0;

/// Reads what a directory has recorded of a moment and of the minutes before.
pub(super) fn state_at(dir: &Path, at_us: u64) -> Outcome<State> {
    let window = Window { from_us: Some(at_us.saturating_sub(BEFORE * 1_000_000)), until_us: Some(at_us) };
    let input = load_part(dir, window, 0.0, &|name, _| is_of_schema(name))?;
    let (samples, began) = (&input.samples, input.began);
    if at_us as f64 / 1e6 - (began + samples.end()) > NEAR {
        return Err(Failure::misuse(format!("{} has no samples of that minute", dir.display())));
    }
    let mut state = State::new(input.target.clone(), input.version.clone());
    past::samples(&input, f64::NEG_INFINITY).for_each(|sample| state.take(sample));
    Ok(state)
}
