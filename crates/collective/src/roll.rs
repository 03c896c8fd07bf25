//! Who takes part in a call, as far as one rank knows.

/// What a rank knows about the others in one call. Two things tell that a rank has entered it: any
/// message of the call, and the notice that a rank sends to all once it has waited for a while.
#[derive(Debug, Default)]
pub(crate) struct Roll {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    /// A message of the call was received from it.
    entered: bool,
    /// It said that it waits.
    waits: bool,
    /// It was told that this rank waits.
    told: bool,
}

/// What the transport has from a rank that was not received yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    Nothing,
    OfThisCall,
    OfLaterCall,
}

impl Roll {
    /// Forgets what it knew; a new call begins.
    pub(crate) fn begin(&mut self, world: usize) {
        self.entries.clear();
        self.entries.resize(world, Entry::default());
    }

    pub(crate) fn note_entered(&mut self, rank: usize) {
        self.entries[rank].entered = true;
    }

    pub(crate) fn note_waits(&mut self, rank: usize) {
        self.entries[rank].waits = true;
    }

    pub(crate) fn note_told(&mut self, rank: usize) {
        self.entries[rank].told = true;
    }

    pub(crate) fn is_told(&self, rank: usize) -> bool {
        self.entries[rank].told
    }

    /// Whether some other rank waits, for long enough to have said so.
    pub(crate) fn someone_waits(&self) -> bool {
        self.entries.iter().any(|entry| entry.waits)
    }

    /// Whether a rank is what the others wait for. One that waits itself is not, nor is one that has
    /// finished the call. One that has entered is, if it is the one that this rank waits for.
    pub(crate) fn is_missing(&self, rank: usize, is_awaited: bool, arrived: Arrived) -> bool {
        let entry = &self.entries[rank];
        match arrived {
            Arrived::OfLaterCall => false,
            _ if entry.waits => false,
            Arrived::OfThisCall => is_awaited,
            Arrived::Nothing => is_awaited || !entry.entered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_is_missing_unless_it_waits_or_went_on() {
        let mut roll = Roll::default();
        roll.begin(3);
        roll.note_entered(1);
        roll.note_waits(2);
        let missing = |is_awaited, arrived| {
            let ranks = 0..3;
            let missing = ranks.filter(|&rank| roll.is_missing(rank, is_awaited, arrived));
            missing.collect::<Vec<usize>>()
        };
        assert_eq!(missing(false, Arrived::Nothing), [0]);
        assert_eq!(missing(true, Arrived::Nothing), [0, 1]);
        assert_eq!(missing(false, Arrived::OfThisCall), []);
        assert_eq!(missing(true, Arrived::OfThisCall), [0, 1]);
        assert_eq!(missing(true, Arrived::OfLaterCall), []);
    }

    #[test]
    fn nothing_is_known_when_a_call_begins() {
        let mut roll = Roll::default();
        for _ in 0..2 {
            roll.begin(2);
            assert!(!roll.someone_waits() && !roll.is_told(1));
            assert!(roll.is_missing(1, false, Arrived::Nothing));
            roll.note_entered(1);
            roll.note_waits(1);
            roll.note_told(1);
            assert!(roll.someone_waits() && roll.is_told(1));
        }
    }
}
