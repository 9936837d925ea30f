//! The commands, one in each file.

mod advise;
mod age;
mod background;
mod collect;
mod explain;
mod forecast;
mod plot;
mod record;
mod redo;
mod serve;
mod stalk;
mod top;
mod trace_fsync;

pub use advise::Advise;
pub use age::Age;
pub use collect::Collect;
pub use explain::Explain;
pub use forecast::Forecast;
pub use plot::Plot;
pub use record::Record;
pub use redo::Redo;
pub use serve::Serve;
pub use stalk::Stalk;
pub use top::Top;
pub use trace_fsync::TraceFsync;
