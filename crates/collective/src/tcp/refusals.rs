//! Who was refused while a group forms.

/// Refusals that are kept of those who have the token: enough to see what is wrong.
const NOTES: usize = 8;

/// Those with the token have places of their own; others, of which there may be any number, are counted.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    notes: Vec<String>,
    strangers: u64,
    last: String,
}

impl Refusals {
    /// Somebody who has the token; true if it is kept.
    pub(super) fn note(&mut self, note: String) -> bool {
        let kept = self.notes.len() < NOTES;
        if kept {
            self.notes.push(note);
        }
        kept
    }

    /// Somebody who did not prove it.
    pub(super) fn stranger(&mut self, note: String) {
        self.set_strangers(self.strangers.saturating_add(1), note);
    }

    /// So many who did not, and the last of them.
    pub(super) fn set_strangers(&mut self, count: u64, last: String) {
        (self.strangers, self.last) = (count, last);
    }

    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How many strangers there were, and the last of them.
    pub(super) fn strangers(&self) -> (u64, &str) {
        (self.strangers, &self.last)
    }

    /// What to tell of these and of others.
    pub(super) fn list(&self, others: &Self) -> Vec<String> {
        let notes = self.notes.iter().chain(&others.notes).take(NOTES).cloned();
        let count = self.strangers.saturating_add(others.strangers);
        let last = [&self.last, &others.last]
            .into_iter()
            .find(|last| !last.is_empty());
        let strangers = last.map(|last| {
            let connections = match count {
                1 => "connection",
                _ => "connections",
            };
            format!("{count} {connections} that did not prove the token, the last from {last}")
        });
        notes.chain(strangers).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_take_no_place_of_those_who_have_the_token() {
        let (mut there, mut own) = (Refusals::default(), Refusals::default());
        assert!(there.list(&own).is_empty());
        for port in 0..1000 {
            there.stranger(format!("[::1]:{port}: version"));
        }
        own.stranger("[::1]:1: token".to_owned());
        assert!(own.note("rank 1: world size".to_owned()));
        let strangers =
            "1001 connections that did not prove the token, the last from [::1]:999: version";
        assert_eq!(there.list(&own), ["rank 1: world size", strangers]);
        let alone = "1 connection that did not prove the token, the last from [::1]:1: token";
        assert_eq!(
            Refusals::default().list(&own),
            ["rank 1: world size", alone]
        );
    }

    #[test]
    fn few_refusals_are_kept_however_many_there_are() {
        let mut refusals = Refusals::default();
        let kept = (0..100).filter(|rank| refusals.note(format!("rank {rank}")));
        assert_eq!(kept.count(), NOTES);
        assert_eq!(refusals.list(&Refusals::default()).len(), NOTES);
    }
}
