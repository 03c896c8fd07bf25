//! Sums as bytes. Writing and reading stand side by side.

use std::ops::Range;

use burn_virtual_plan::Partial;

// Values are copied as they lie in memory, and the wire is little-endian.
const _: () = assert!(
    cfg!(target_endian = "little"),
    "the wire needs a little-endian target"
);

/// Writes what a slice of a sum consists of: presence words, sums and flag words in full, then the
/// values in `range` of the flat vector. An absent sum is one byte, 0; a present one starts with 1.
pub(crate) fn write_sum(out: &mut Vec<u8>, sum: Option<&Partial>, range: &Range<usize>) {
    out.push(u8::from(sum.is_some()));
    if let Some(sum) = sum {
        out.extend_from_slice(bytemuck::cast_slice(sum.present().as_words()));
        out.extend_from_slice(bytemuck::cast_slice(sum.sums()));
        out.extend_from_slice(bytemuck::cast_slice(sum.flags().as_words()));
        write_values(out, &sum.values()[range.clone()]);
    }
}

/// Reads what [`write_sum`] wrote into a buffer of the slice's layout, which `buffer` makes if the
/// sum is present.
pub(crate) fn read_sum(
    bytes: &mut &[u8],
    buffer: impl FnOnce() -> Partial,
) -> Result<Option<Partial>, String> {
    match take(bytes, 1)? {
        [0] => return Ok(None),
        [1] => {}
        other => return Err(format!("expected a mark of presence, got {other:?}")),
    }
    let mut sum = buffer();
    let words = take(bytes, sum.present().as_words().len() * 8)?;
    sum.present_mut().copy_words(read_words(words));
    let size = size_of_val(sum.sums());
    bytemuck::cast_slice_mut(sum.sums_mut()).copy_from_slice(take(bytes, size)?);
    let words = take(bytes, sum.flags().as_words().len() * 8)?;
    sum.flags_mut().copy_words(read_words(words));
    read_values(bytes, sum.values_mut())?;
    Ok(Some(sum))
}

/// Writes values as they lie in memory, 4 bytes each.
pub(crate) fn write_values(out: &mut Vec<u8>, values: &[f32]) {
    out.extend_from_slice(bytemuck::cast_slice(values));
}

/// Fills `values` with what [`write_values`] wrote.
pub(crate) fn read_values(bytes: &mut &[u8], values: &mut [f32]) -> Result<(), String> {
    let size = size_of_val(values);
    bytemuck::cast_slice_mut(values).copy_from_slice(take(bytes, size)?);
    Ok(())
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
        for range in [0..6, 0..0, 2..5, 6..6] {
            let mut bytes = vec![];
            write_sum(&mut bytes, Some(&sum), &range);
            let slice = layout.slice(range.clone());
            let mut rest = &bytes[..];
            let read = read_sum(&mut rest, || Partial::empty(&slice))
                .unwrap()
                .unwrap();
            finish(rest).unwrap();
            let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(read.values()), bits(&sum.values()[range]));
            assert_eq!((read.present(), read.flags()), (sum.present(), sum.flags()));
            assert_eq!(read.sums(), sum.sums());
        }
    }

    #[test]
    fn read_refused_when_bytes_are_cut_short_or_left_over() {
        let layout = Layout::new([3, 1, 2], 1, 2);
        let mut bytes = vec![];
        write_sum(&mut bytes, Some(&sum(&layout)), &(0..6));
        for length in 0..bytes.len() {
            assert!(read_sum(&mut &bytes[..length], || Partial::empty(&layout)).is_err());
        }
        bytes[0] = 2;
        assert!(read_sum(&mut &bytes[..], || Partial::empty(&layout)).is_err());
        assert!(finish(&[0]).is_err());
    }

    #[test]
    fn absent_sum_is_one_byte() {
        let mut bytes = vec![];
        write_sum(&mut bytes, None, &(0..0));
        assert_eq!(bytes, [0]);
        let layout = Layout::new([], 0, 0);
        assert!(
            read_sum(&mut &bytes[..], || Partial::empty(&layout))
                .unwrap()
                .is_none()
        );
    }
}
