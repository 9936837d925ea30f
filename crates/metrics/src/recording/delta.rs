//! What changed between two samples: for each changed cell how far it is from the one before, and
//! its difference. Both are small numbers, so they take a byte or two each.

use base::codec::{Put, Reader};

/// Appends the cells of `now` that differ from `then`.
pub(super) fn encode(then: &[u64], now: &[u64], out: &mut Vec<u8>) {
    let mut next = 0;
    for (i, (then, now)) in then.iter().zip(now).enumerate() {
        if then != now {
            out.put_varint((i - next) as u64);
            out.put_varint(zigzag(now.wrapping_sub(*then)));
            next = i + 1;
        }
    }
}

/// Applies changes to `cells`. `None` if the bytes are not such changes.
pub(super) fn apply(cells: &mut [u64], changes: &mut Reader<'_>) -> Option<()> {
    let mut next = 0_usize;
    while !changes.is_empty() {
        let i = next.checked_add(usize::try_from(changes.varint().ok()?).ok()?)?;
        let cell = cells.get_mut(i)?;
        *cell = cell.wrapping_add(unzigzag(changes.varint().ok()?));
        next = i + 1;
    }
    Some(())
}

/// Makes small differences, up or down, small numbers.
fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ (difference.cast_signed() >> 63).cast_unsigned()
}

fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_lead_from_one_state_to_the_next() {
        let states = [vec![0; 5], vec![1, 0, u64::MAX, 0, 300], vec![0, 0, 3, 1 << 63, 299]];
        for pair in states.windows(2) {
            let mut bytes = Vec::new();
            encode(&pair[0], &pair[1], &mut bytes);
            let mut cells = pair[0].clone();
            apply(&mut cells, &mut Reader::new(&bytes)).unwrap();
            assert_eq!(cells, pair[1]);
        }
        for difference in [0, 1, 2, u64::MAX, 1 << 63, (1 << 63) - 1] {
            assert_eq!(unzigzag(zigzag(difference)), difference);
        }
        assert_eq!((zigzag(1), zigzag(u64::MAX)), (2, 1));
    }

    #[test]
    fn changes_of_cells_that_are_not_there_are_refused() {
        for bytes in [&[5_u8, 2][..], &[0], &[255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 2]] {
            assert_eq!(apply(&mut [0; 5], &mut Reader::new(bytes)), None, "{bytes:?}");
        }
    }
}
