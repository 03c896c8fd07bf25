//! What all ranks of a group have to agree on before they train together.
//!
//! Ranks of one process do by construction. Those in other processes may have been started with
//! other flags, on other hardware, or from another file of weights.

use std::fmt::Display;

use crate::TrainError;

/// What a rank has, by name: texts in a line each, the same names on every rank of one build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms(Vec<(String, String)>);

impl Terms {
    /// Adds one.
    pub(crate) fn with(mut self, what: &str, value: impl Display) -> Self {
        let line = |text: String| text.replace(['\t', '\n'], " ");
        self.0
            .push((line(what.to_owned()), line(value.to_string())));
        self
    }

    /// As text: a line each.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let lines = self
            .0
            .iter()
            .map(|(what, value)| format!("{what}\t{value}\n"));
        lines.collect::<String>().into_bytes()
    }

    fn decode(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let lines = text.lines().filter_map(|line| line.split_once('\t'));
        Self(
            lines
                .map(|(what, value)| (what.to_owned(), value.to_owned()))
                .collect(),
        )
    }

    /// The first term that `other` has not, or not so: its name and both values.
    fn difference(&self, other: &Self) -> Option<(String, String, String)> {
        let longer = if self.0.len() < other.0.len() {
            other
        } else {
            self
        };
        longer.0.iter().find_map(|(what, _)| {
            let (mine, theirs) = (self.get(what), other.get(what));
            (mine != theirs).then(|| (what.clone(), mine.to_owned(), theirs.to_owned()))
        })
    }

    fn get(&self, what: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| known == what);
        found.map_or("nothing", |(_, value)| value)
    }
}

/// Compares what each rank has with what rank 0 has: the same outcome on every rank.
///
/// # Errors
/// [`TrainError::Disagreement`] for the first rank that differs.
pub(crate) fn compare(ranks: &[Vec<u8>]) -> Result<(), TrainError> {
    let Some((first, others)) = ranks.split_first() else {
        return Ok(());
    };
    let first = Terms::decode(first);
    for (other, rank) in others.iter().zip(1..) {
        if let Some((what, expected, got)) = first.difference(&Terms::decode(other)) {
            return Err(TrainError::Disagreement {
                rank,
                what,
                expected,
                got,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(ranks: &[&Terms]) -> String {
        let ranks: Vec<_> = ranks.iter().map(|terms| terms.encode()).collect();
        compare(&ranks).map_or_else(|error| error.to_string(), |()| "agreed".to_owned())
    }

    fn terms(seed: u64) -> Terms {
        Terms::default().with("virtual nodes", 8).with("seed", seed)
    }

    #[test]
    fn first_rank_that_differs_is_named_with_both_sides() {
        assert_eq!(refused(&[&terms(1), &terms(1), &terms(1)]), "agreed");
        assert_eq!(refused(&[]), "agreed");
        assert_eq!(
            refused(&[&terms(1), &terms(1), &terms(2), &terms(3)]),
            "rank 2 differs from rank 0 in its seed: expected 1, got 2"
        );
    }

    #[test]
    fn term_that_one_rank_has_not_is_named() {
        let more = terms(1).with("clip norm", 0.5);
        let text = "rank 1 differs from rank 0 in its clip norm: expected";
        assert_eq!(
            refused(&[&more, &terms(1)]),
            format!("{text} 0.5, got nothing")
        );
        assert_eq!(
            refused(&[&terms(1), &more]),
            format!("{text} nothing, got 0.5")
        );
    }

    #[test]
    fn bytes_of_another_build_differ_and_are_no_panic() {
        let ranks = [terms(1).encode(), vec![0xff, 0, b'\t', b'\n', 0xfe]];
        assert!(matches!(
            compare(&ranks),
            Err(TrainError::Disagreement { rank: 1, .. })
        ));
    }
}
