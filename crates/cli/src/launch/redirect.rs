//! Which of a process's two outputs is meant, in torchrun's numbers.

use std::collections::BTreeMap;
use std::str::FromStr;

/// One of the two outputs of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Stdout,
    Stderr,
}

impl Which {
    pub(super) const BOTH: [Self; 2] = [Self::Stdout, Self::Stderr];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }

    fn bit(self) -> u8 {
        match self {
            Self::Stdout => 1,
            Self::Stderr => 2,
        }
    }
}

/// For each local rank, none, one or both of its outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    All(u8),
    /// Ranks that aren't named have none.
    Ranks(BTreeMap<usize, u8>),
}

impl Redirect {
    /// Both outputs of every rank.
    pub(super) fn both() -> Self {
        Self::All(3)
    }

    pub(super) fn has(&self, local_rank: usize, which: Which) -> bool {
        let bits = match self {
            Self::All(bits) => *bits,
            Self::Ranks(ranks) => ranks.get(&local_rank).copied().unwrap_or_default(),
        };
        bits & which.bit() != 0
    }

    /// The ranks that it names.
    pub(super) fn ranks(&self) -> impl Iterator<Item = usize> {
        let ranks = match self {
            Self::All(_) => None,
            Self::Ranks(ranks) => Some(ranks),
        };
        ranks.into_iter().flat_map(BTreeMap::keys).copied()
    }
}

impl Default for Redirect {
    fn default() -> Self {
        Self::All(0)
    }
}

impl FromStr for Redirect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(bits) = bits(text) {
            return Ok(Self::All(bits));
        }
        let mut ranks = BTreeMap::new();
        for part in text.split(',') {
            let (rank, value) = part.split_once(':').ok_or_else(expected)?;
            let rank = rank.trim().parse().map_err(|_| expected())?;
            let bits = bits(value).ok_or_else(expected)?;
            if ranks.insert(rank, bits).is_some() {
                return Err(format!("local rank {rank} is there twice"));
            }
        }
        Ok(Self::Ranks(ranks))
    }
}

fn bits(text: &str) -> Option<u8> {
    text.trim().parse().ok().filter(|bits| *bits <= 3)
}

fn expected() -> String {
    "expected 0, 1, 2 or 3, or LOCAL-RANK:VALUE,..".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<Vec<(bool, bool)>, String> {
        let redirect: Redirect = text.parse()?;
        let of = |rank| Which::BOTH.map(|which| redirect.has(rank, which)).into();
        Ok((0..3).map(of).collect())
    }

    #[test]
    fn values_are_torchruns() {
        let both = [(false, false), (true, false), (false, true), (true, true)];
        for (value, expected) in both.into_iter().enumerate() {
            assert_eq!(shown(&value.to_string()), Ok(vec![expected; 3]));
        }
        let ranks = vec![(true, false), (false, false), (true, true)];
        assert_eq!(shown("2:3, 0:1"), Ok(ranks));
    }

    #[test]
    fn values_that_mean_nothing_are_refused() {
        for text in ["", "4", "-1", "0:", "0:4", ":1", "1,2", "0:1,", "x"] {
            assert_eq!(shown(text), Err(expected()), "{text:?}");
        }
        assert_eq!(shown("1:1,1:2"), Err("local rank 1 is there twice".into()));
    }
}
