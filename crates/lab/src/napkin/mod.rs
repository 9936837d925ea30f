//! `millpond napkin --reference`: this machine's basic speeds beside the published ones of the
//! project napkin-math.
//!
//! `operation` is the published table. `memory`, `processor`, `two_threads` and `files` measure,
//! each operation for about as long as `timing` says; `comparison` is the result.

mod comparison;
mod files;
mod memory;
mod operation;
mod processor;
mod timing;
mod two_threads;

use crate::block_device::BlockDevice;
use crate::mount::{check_room, is_memory};
use crate::others::Others;
use crate::report::machine_facts;
use crate::run_dir::RunDir;
use comparison::{Reference, Row};
use files::{BLOCK_BYTES, FILE_BYTES, Files};
use memory::{IN_ORDER_BYTES, Memory};
use operation::Operation;
use output::failure::{Failure, Outcome};
use processor::SORTED_BYTES;
use std::io;
use std::path::Path;

/// Measures everything, with a file in `dir` that is removed.
pub(crate) fn measure(dir: &Path) -> Outcome<Reference> {
    check_room(dir, FILE_BYTES, "name another directory by --dir")?;
    let durable = !is_memory(dir);
    let work = RunDir::fresh_in(dir)?;
    let failed =
        |error: io::Error| Failure::failed(format!("the measurement in {} failed: {error}", dir.display()));
    let device = BlockDevice::below(dir).filter(|_| durable);
    let others = Others::watch(device.as_ref());
    let mut files = Files::make(&work.dir().join("file"), durable).map_err(failed)?;
    let mut memory = Memory::new();
    let mut rows = Vec::new();
    for operation in Operation::ALL {
        let taken = match ns(operation, &mut memory, &mut files) {
            Err(error) if uses_the_disk(operation) => return Err(failed(error)),
            taken => taken.map_err(|error| error.to_string()),
        };
        rows.push(Row::of(operation, taken, bytes(operation)));
    }
    Ok(Reference::new(machine_facts(Some(dir), durable), others, rows))
}

/// Returns the nanoseconds of an operation.
fn ns(operation: Operation, memory: &mut Memory, files: &mut Files) -> io::Result<f64> {
    match operation {
        Operation::SequentialMemory => memory.in_order(),
        Operation::SequentialMemoryAllCores => memory.in_order_by_all(),
        Operation::RandomMemory => memory.at_random(),
        Operation::Crc32c => processor::crc(),
        Operation::SipHash => processor::sip_hash(),
        Operation::Mutex => processor::mutex(),
        Operation::SystemCall => processor::system_call(),
        Operation::ContextSwitch => two_threads::context_switch(),
        Operation::TcpEcho => two_threads::tcp_echo(),
        Operation::Sort => processor::sort(),
        Operation::SequentialRead => files.read_in_order(),
        Operation::RandomRead => files.read_at_random(),
        Operation::Write => files.write_in_order(),
        Operation::WriteFsync => files.write_and_fsync(),
    }
}

/// Returns how many bytes an operation has whose rate is shown; 0 of one whose time is shown.
fn bytes(operation: Operation) -> u64 {
    match operation {
        Operation::SequentialMemory | Operation::SequentialMemoryAllCores => IN_ORDER_BYTES,
        Operation::Sort => SORTED_BYTES,
        Operation::SequentialRead | Operation::Write => BLOCK_BYTES as u64,
        _ => 0,
    }
}

/// Whether an error of the operation is one of the disk.
fn uses_the_disk(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::SequentialRead | Operation::RandomRead | Operation::Write | Operation::WriteFsync
    )
}
