//! Who keeps whom waiting in a call, as far as one rank knows: a wait-for graph.

/// What a rank waits for: said to all others in a notice, once it has waited for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    /// The rank that it waits for.
    pub(crate) on: usize,
    /// Whether it has had a message of the call from that one.
    pub(crate) met: bool,
}

impl Wait {
    /// The contents of a notice: both as 32-bit numbers, little-endian.
    pub(crate) fn encode(self) -> [u8; 8] {
        let words = self.on as u64 | u64::from(self.met) << 32;
        words.to_le_bytes()
    }

    /// Reads a notice from one of `world` ranks; `None` if it makes no sense.
    pub(crate) fn decode(bytes: &[u8], world: usize) -> Option<Self> {
        let word = u64::from_le_bytes(bytes.try_into().ok()?);
        let (on, met) = ((word & u64::from(u32::MAX)) as usize, word >> 32);
        (on < world && met < 2).then_some(Self { on, met: met == 1 })
    }
}

/// What a rank knows about the others in one call.
#[derive(Debug, Default)]
pub(crate) struct Roll {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    /// A message of the call was received from it.
    met: bool,
    /// What it said last that it waits for.
    waits: Option<Wait>,
    /// What it was told last that this rank waits for.
    told: Option<Wait>,
}

impl Roll {
    /// Forgets what it knew; a new call begins.
    pub(crate) fn begin(&mut self, world: usize) {
        self.entries.clear();
        self.entries.resize(world, Entry::default());
    }

    pub(crate) fn note_met(&mut self, rank: usize) {
        self.entries[rank].met = true;
    }

    pub(crate) fn is_met(&self, rank: usize) -> bool {
        self.entries[rank].met
    }

    pub(crate) fn note_waits(&mut self, rank: usize, wait: Wait) {
        self.entries[rank].waits = Some(wait);
    }

    /// Whether some other rank waits, for long enough to have said so.
    pub(crate) fn someone_waits(&self) -> bool {
        self.entries.iter().any(|entry| entry.waits.is_some())
    }

    pub(crate) fn note_told(&mut self, rank: usize, wait: Wait) {
        self.entries[rank].told = Some(wait);
    }

    pub(crate) fn is_told(&self, rank: usize, wait: Wait) -> bool {
        self.entries[rank].told == Some(wait)
    }

    /// The ranks that keep rank `own` waiting, which are never none; `has_sent` are those of which a
    /// message of the call, or of a later one, is there.
    pub(crate) fn missing(
        &self,
        own: usize,
        wait: Wait,
        has_sent: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let Some(last) = self.follow(own, wait) else {
            return vec![wait.on];
        };
        if last.met {
            return vec![last.on]; // it has entered the call, and stopped
        }
        // No rank can finish a call that another one has not entered. So those who are in it wait, and
        // have said so.
        let is_missing = |&rank: &usize| {
            let entry = &self.entries[rank];
            let gave_sign = entry.met || entry.waits.is_some() || has_sent(rank);
            rank == last.on || (rank != own && !gave_sign)
        };
        (0..self.entries.len()).filter(is_missing).collect()
    }

    /// From a rank that waits to the one that it waits for, and on, up to one that doesn't wait. None if
    /// that leads around in a circle: a message is on the way, or a rank stopped after it had said that
    /// it waits.
    fn follow(&self, own: usize, mut wait: Wait) -> Option<Wait> {
        for _ in &self.entries {
            if wait.on == own {
                return None;
            }
            match self.entries[wait.on].waits {
                Some(next) => wait = next,
                None => return Some(wait),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(on: usize, met: bool) -> Wait {
        Wait { on, met }
    }

    fn roll(waits: &[(usize, Wait)]) -> Roll {
        let mut roll = Roll::default();
        roll.begin(5);
        for &(rank, wait) in waits {
            roll.note_waits(rank, wait);
        }
        roll
    }

    #[test]
    fn notice_round_trips_and_others_make_no_sense() {
        for wait in [wait(0, false), wait(4, true)] {
            assert_eq!(Wait::decode(&wait.encode(), 5), Some(wait));
        }
        for bytes in [
            &[][..],
            &[0; 7],
            &[0; 9],
            &[5, 0, 0, 0, 0, 0, 0, 0],
            &[0, 0, 0, 0, 2, 0, 0, 0],
        ] {
            assert_eq!(Wait::decode(bytes, 5), None);
        }
    }

    #[test]
    fn all_who_gave_no_sign_are_missing_when_the_last_one_has_not_entered() {
        let mut roll = roll(&[(3, wait(2, false))]);
        let missing = |roll: &Roll, on| roll.missing(0, wait(on, false), |rank| rank == 4);
        assert_eq!(missing(&roll, 3), [1, 2]);
        assert_eq!(missing(&roll, 2), [1, 2]);
        roll.note_met(1);
        assert_eq!(missing(&roll, 3), [2]);
    }

    #[test]
    fn only_the_last_one_is_missing_when_it_stopped_in_the_call() {
        let roll = roll(&[(4, wait(3, false)), (3, wait(2, true))]);
        assert_eq!(roll.missing(0, wait(4, true), |_| false), [2]);
        assert_eq!(roll.missing(0, wait(1, true), |_| false), [1]);
    }

    #[test]
    fn next_one_is_missing_when_ranks_wait_in_a_circle() {
        let roll = roll(&[(1, wait(0, true)), (3, wait(4, true)), (4, wait(3, true))]);
        assert_eq!(roll.missing(0, wait(1, true), |_| false), [1]);
        assert_eq!(roll.missing(0, wait(3, false), |_| false), [3]);
    }

    #[test]
    fn nothing_is_known_when_a_call_begins() {
        let mut roll = Roll::default();
        let on = wait(1, true);
        for _ in 0..2 {
            roll.begin(2);
            assert!(!roll.is_met(1) && !roll.someone_waits() && !roll.is_told(1, on));
            roll.note_met(1);
            roll.note_waits(1, on);
            roll.note_told(1, on);
            assert!(roll.is_met(1) && roll.someone_waits() && roll.is_told(1, on));
            assert!(!roll.is_told(1, wait(1, false)));
        }
    }
}
