//! The digits archive: gzip of comma-separated lines, see `data/README.md`.

use std::io::Read;

use flate2::read::GzDecoder;

use super::digit::SIDE;
use super::{Digit, DigitsError};

const PIXELS: usize = SIDE * SIDE;
const MAX_PIXEL: u8 = 16;
const MAX_LABEL: u8 = 9;

/// Reads every sample of a gzip archive, in the order of the file.
pub(super) fn archive(bytes: &[u8]) -> Result<Vec<Digit>, DigitsError> {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text)?;
    lines(&text)
}

fn lines(text: &str) -> Result<Vec<Digit>, DigitsError> {
    let numbered = text.lines().zip(1..);
    numbered.map(|(text, line)| sample(text, line)).collect()
}

fn sample(text: &str, line: usize) -> Result<Digit, DigitsError> {
    let cells: Vec<&str> = text.split(',').collect();
    if cells.len() != PIXELS + 1 {
        return Err(DigitsError::Columns {
            line,
            expected: PIXELS + 1,
            found: cells.len(),
        });
    }
    let mut pixels = [0.0; PIXELS];
    for (index, pixel) in pixels.iter_mut().enumerate() {
        // Divided by a power of two: exact, so that no machine rounds it differently.
        *pixel = f32::from(value(cells[index], line, index + 1, MAX_PIXEL)?) / f32::from(MAX_PIXEL);
    }
    let label = value(cells[PIXELS], line, PIXELS + 1, MAX_LABEL)?;
    Ok(Digit { pixels, label })
}

fn value(cell: &str, line: usize, column: usize, max: u8) -> Result<u8, DigitsError> {
    let parsed = cell.parse().ok().filter(|value| *value <= max);
    parsed.ok_or_else(|| DigitsError::Value {
        line,
        column,
        max,
        found: cell.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_with(column: usize, cell: &str) -> String {
        let mut cells = ["0"; PIXELS + 1];
        cells[column - 1] = cell;
        cells.join(",")
    }

    fn message(text: &str) -> String {
        lines(text).unwrap_err().to_string()
    }

    #[test]
    fn sample_scales_pixels_and_keeps_the_label() {
        let text = format!("{}\n{}\n", line_with(2, "16"), line_with(65, "9"));
        let digits = lines(&text).unwrap();
        assert_eq!(digits.len(), 2);
        assert_eq!(digits[0].pixels[..3], [0.0, 1.0, 0.0]);
        assert_eq!(digits[1].label, 9);
    }

    #[test]
    fn error_names_line_and_column_when_a_value_is_wrong() {
        for (column, cell, max) in [(1, "17", 16), (3, "x", 16), (64, "-1", 16), (65, "10", 9)] {
            let text = format!("{}\n{}\n", line_with(1, "0"), line_with(column, cell));
            let expected = format!("line 2, column {column}: expected 0 to {max}, found {cell:?}");
            assert_eq!(message(&text), expected);
        }
    }

    #[test]
    fn error_names_the_line_when_columns_are_missing_or_too_many() {
        assert_eq!(message("1,2,3"), "line 1: expected 65 columns, found 3");
        let long = format!("{},0", line_with(1, "0"));
        assert_eq!(message(&long), "line 1: expected 65 columns, found 66");
    }

    #[test]
    fn archive_is_refused_when_cut_short() {
        let whole = include_bytes!("../../data/digits.csv.gz");
        let cut = &whole[..whole.len() / 2];
        assert!(matches!(archive(cut), Err(DigitsError::Archive(_))));
    }
}
