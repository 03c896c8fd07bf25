//! How the parts that ranks bring to an all-reduce are combined.

use std::fmt;
use std::str::FromStr;

use crate::Algorithm;

/// How the parts of the ranks are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reduce {
    /// Along the tree over virtual nodes: the same bits for every placement.
    #[default]
    Ordered,
    /// Each rank's own first, then around a ring: the fewest bytes for every placement, and bits that
    /// depend on it.
    Ring,
    /// Each rank's own first, then by halving and doubling; the same caveat.
    HalvingDoubling,
}

impl Reduce {
    const ALL: [Self; 3] = [Self::Ordered, Self::Ring, Self::HalvingDoubling];

    /// How vectors are summed over ranks, where that is not along the tree.
    pub(crate) fn algorithm(self) -> Option<Algorithm> {
        match self {
            Self::Ordered => None,
            Self::Ring => Some(Algorithm::Ring),
            Self::HalvingDoubling => Some(Algorithm::HalvingDoubling),
        }
    }
}

impl fmt::Display for Reduce {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.algorithm() {
            None => formatter.write_str("ordered"),
            Some(algorithm) => algorithm.fmt(formatter),
        }
    }
}

impl FromStr for Reduce {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL
            .into_iter()
            .find(|reduce| reduce.to_string() == text);
        known.ok_or_else(|| format!("expected ordered, ring or halving-doubling, got '{text}'"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_refused() {
        for reduce in Reduce::ALL {
            assert_eq!(reduce.to_string().parse(), Ok(reduce));
        }
        let refused = "tree".parse::<Reduce>().unwrap_err();
        assert_eq!(
            refused,
            "expected ordered, ring or halving-doubling, got 'tree'"
        );
    }
}
