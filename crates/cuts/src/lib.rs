//! A file system that loses what was not synced: power cuts for programs that run on it.
//!
//! It shows a backing directory. What a program writes, cuts off, creates, renames or removes is
//! in memory until a sync (fsync, fdatasync, msync; of a directory for its names); then it is in
//! the backing directory. After a cut every operation fails with EIO, until the program is killed
//! and the file system unmounted ([`Mounted::finish`]). Then of what was not synced a part is put
//! into the backing directory, chosen by a seed, and the program can start again:
//!
//! - Each block of 4 KiB that was written is there or not; a block that was written many times as
//!   it was last. A file that grew has any length up to the last one. A file that was cut off is as
//!   before or cut off.
//! - Of the changes of each directory a prefix is there. Directories have no order between them,
//!   but for a rename from one to the other.
//! - A new file that was synced has its name too, and so have the directories above it, as on ext4,
//!   XFS and btrfs; with [`NewFiles::NeedTheirDirectory`] it has not until its directory is synced,
//!   which POSIX allows.
//!
//! Changes of owner, rights and times are durable at once. There are no links and no special files.
//! What the backing directory's own file system and device lose is not part of it: cuts are cuts of
//! this file system.
//!
//! `blocks` and `names` know what is durable and decide what a cut leaves, `power` when it
//! comes; they touch no file. `model` joins them with the `backing` directory, `glue` answers
//! the kernel.

mod backing;
mod blocks;
mod glue;
mod model;
mod mount;
mod names;
mod power;

pub use model::{Left, NewFiles, Policy, Syncs};
pub use mount::{Mounted, unavailable};
pub use power::Moment;
