//! The fields of an encoded change of a page: varints, versions, and the last byte string.

use super::node::Version;
use base::TxnId;
use base::codec::{Put, Reader, Truncated};

/// Appends a tag and the numbers after it.
pub(super) fn put_tagged(out: &mut Vec<u8>, tag: u8, numbers: &[u64]) {
    out.put_u8(tag);
    for &n in numbers {
        out.put_varint(n);
    }
}

/// Appends a version, as two numbers.
pub(super) fn put_version(out: &mut Vec<u8>, v: Version) {
    out.put_varint(v.txn.0);
    out.put_varint(v.undo_at);
}

/// Reads a version. Numbers that no version has give `Truncated` too.
#[inline(always)]
pub(super) fn version(r: &mut Reader<'_>) -> Result<Version, Truncated> {
    let (txn, undo_at) = (r.varint()?, r.varint()?);
    if txn >> 48 != 0 || undo_at >> 40 != 0 {
        return Err(Truncated);
    }
    Ok(Version { txn: TxnId(txn), undo_at })
}

/// Reads a number. One that is too great gives `Truncated` too.
#[inline(always)]
pub(super) fn number<T: TryFrom<u64>>(r: &mut Reader<'_>) -> Result<T, Truncated> {
    T::try_from(r.varint()?).map_err(|_| Truncated)
}

/// Reads the last byte string of an op, which ends with the record.
pub(super) fn rest<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], Truncated> {
    r.bytes(r.rest().len())
}
