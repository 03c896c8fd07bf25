//! Sums as bytes. Writing and reading stand side by side.

use std::ops::Range;

use burn_virtual_plan::Partial;
use bytemuck::Pod;

// Values are copied as they lie in memory, and the wire is little-endian.
const _: () = assert!(
    cfg!(target_endian = "little"),
    "the wire needs a little-endian target"
);

/// Writes what a slice of a sum consists of: presence words, sums and flag words in full, then the
/// values in `range` of the flat vector. An absent sum is one word, 0; a present one starts with 1.
/// A word, not a byte, so that the values lie where they can be added from.
pub(crate) fn write_sum(out: &mut Vec<u8>, sum: Option<&Partial>, range: &Range<usize>) {
    out.extend_from_slice(&u64::from(sum.is_some()).to_le_bytes());
    if let Some(sum) = sum {
        out.extend_from_slice(bytemuck::cast_slice(sum.present().as_words()));
        out.extend_from_slice(bytemuck::cast_slice(sum.sums()));
        out.extend_from_slice(bytemuck::cast_slice(sum.flags().as_words()));
        out.extend_from_slice(bytemuck::cast_slice(&sum.values()[range.clone()]));
    }
}

/// Reads what [`write_sum`] wrote, up to the values, into `beside`; whether the sum is present, so
/// that values follow.
pub(crate) fn read_beside(bytes: &mut &[u8], beside: &mut Partial) -> Result<bool, String> {
    let present = read_mark(bytes)?;
    if present {
        let words = take(bytes, beside.present().as_words().len() * 8)?;
        beside.present_mut().copy_words(read_words(words));
        let size = size_of_val(beside.sums());
        bytemuck::cast_slice_mut(beside.sums_mut()).copy_from_slice(take(bytes, size)?);
        let words = take(bytes, beside.flags().as_words().len() * 8)?;
        beside.flags_mut().copy_words(read_words(words));
    }
    Ok(present)
}

fn read_mark(bytes: &mut &[u8]) -> Result<bool, String> {
    match take(bytes, 8)? {
        [0, 0, 0, 0, 0, 0, 0, 0] => Ok(false),
        [1, 0, 0, 0, 0, 0, 0, 0] => Ok(true),
        other => Err(format!("expected a mark of presence, got {other:?}")),
    }
}

/// Room for values that lie in a message where they cannot be read in place.
#[derive(Debug, Default)]
pub(crate) struct Aligned(Vec<u64>);

/// Takes `count` values off the front of a message: in place where their type allows it, else
/// copied to `room`.
pub(crate) fn take_values<'a, 'b: 'a, T: Pod>(
    bytes: &mut &'b [u8],
    count: usize,
    room: &'a mut Aligned,
) -> Result<&'a [T], String> {
    let taken = take(bytes, count.saturating_mul(size_of::<T>()))?;
    if let Ok(values) = bytemuck::try_cast_slice(taken) {
        return Ok(values);
    }
    room.0.resize(taken.len().div_ceil(8), 0);
    let copy = &mut bytemuck::cast_slice_mut(&mut room.0)[..taken.len()];
    copy.copy_from_slice(taken);
    Ok(bytemuck::cast_slice(copy))
}

/// Refuses what is left over once everything expected was read.
pub(crate) fn finish(bytes: &[u8]) -> Result<(), String> {
    match bytes.len() {
        0 => Ok(()),
        left => Err(format!("{left} bytes too many")),
    }
}

fn read_words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes
        .as_chunks::<8>()
        .0
        .iter()
        .map(|word| u64::from_le_bytes(*word))
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], String> {
    let missing = || format!("expected {count} more bytes, got {}", bytes.len());
    let (taken, rest) = bytes.split_at_checked(count).ok_or_else(missing)?;
    *bytes = rest;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use burn_virtual_plan::Layout;

    use super::*;

    fn sum(layout: &Layout) -> Partial {
        let mut sum = Partial::empty(layout);
        sum.set_segment(0, &[1.0, f32::NAN, -0.0]).unwrap();
        sum.set_segment(2, &[f32::MIN_POSITIVE, 2.0]).unwrap();
        sum.sums_mut()[0] = 1e-300;
        sum.flags_mut().set(1);
        sum
    }

    #[test]
    fn slice_round_trips_wherever_it_is_cut() {
        let layout = Layout::new([3, 1, 2], 1, 2);
        let sum = sum(&layout);
        let (mut read, mut room) = (Partial::empty(&layout.slice(0..0)), Aligned::default());
        for range in [0..6, 0..0, 2..5, 6..6] {
            let mut bytes = vec![];
            write_sum(&mut bytes, Some(&sum), &range);
            let mut rest = &bytes[..];
            assert_eq!(read_beside(&mut rest, &mut read), Ok(true));
            let values: &[f32] = take_values(&mut rest, range.len(), &mut room).unwrap();
            finish(rest).unwrap();
            let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(values), bits(&sum.values()[range]));
            assert_eq!((read.present(), read.flags()), (sum.present(), sum.flags()));
            assert_eq!(read.sums(), sum.sums());
        }
    }

    #[test]
    fn read_refused_when_bytes_are_cut_short_or_left_over() {
        let layout = Layout::new([3, 1, 2], 1, 2);
        let mut bytes = vec![];
        write_sum(&mut bytes, Some(&sum(&layout)), &(0..6));
        let mut read = Partial::empty(&layout.slice(0..0));
        for length in 0..bytes.len() - 6 * 4 {
            assert!(read_beside(&mut &bytes[..length], &mut read).is_err());
        }
        bytes[0] = 2;
        assert!(read_beside(&mut &bytes[..], &mut read).is_err());
        assert!(finish(&[0]).is_err());
    }

    #[test]
    fn values_are_the_same_wherever_they_lie_in_a_message() {
        let values = [1.5, f64::NEG_INFINITY, -0.0];
        let mut room = Aligned::default();
        for offset in 0..9 {
            let mut bytes = vec![7; offset];
            bytes.extend_from_slice(bytemuck::cast_slice(&values));
            bytes.push(9);
            let mut rest = &bytes[offset..];
            let read: &[f64] = take_values(&mut rest, 3, &mut room).unwrap();
            assert_eq!((read, rest), (&values[..], &[9][..]));
            assert!(take_values::<f64>(&mut &bytes[offset..], 4, &mut room).is_err());
        }
        assert!(take_values::<f64>(&mut &[][..], usize::MAX, &mut room).is_err());
    }

    #[test]
    fn absent_sum_is_one_word() {
        let mut bytes = vec![];
        write_sum(&mut bytes, None, &(0..0));
        assert_eq!(bytes, [0; 8]);
        let mut beside = Partial::empty(&Layout::new([], 0, 0));
        assert_eq!(read_beside(&mut &bytes[..], &mut beside), Ok(false));
    }
}
