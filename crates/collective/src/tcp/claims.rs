//! What a dialer claims to be.

use super::settings::Job;

/// Size of encoded claims. Fixed, so that nothing that was not proven decides how much is read.
pub(super) const BYTES: usize = 512;

/// Drawn by the store each time that all ranks are there: a rank of an earlier try to form the same
/// epoch is a stranger.
pub(super) type Forming = [u8; 16];

/// Whom the dialer means to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// The store.
    Store,
    /// This rank, in this forming.
    Rank(usize, Forming),
}

/// What a dialer claims to be, and whom it believes to talk to.
///
/// On the wire, little-endian, 512 bytes:
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 1 | 1 to the store, 2 to a rank |
/// | 1 | 4 | rank of the dialer |
/// | 5 | 4 | rank that it means to reach, 0 for the store |
/// | 9 | 4 | world size |
/// | 13 | 8 | epoch |
/// | 21 | 16 | forming, 0 for the store |
/// | 37 | 1 + n | length and bytes of the job's id |
/// | 38 + n | 1 + m | length and bytes of the bit probe |
/// | | | zeros to the end |
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claims {
    pub(super) to: To,
    pub(super) rank: usize,
    pub(super) job: Job,
    pub(super) probe: String,
}

impl Claims {
    pub(super) fn encode(&self) -> [u8; BYTES] {
        let (code, to, forming) = match self.to {
            To::Store => (1, 0, [0; 16]),
            To::Rank(rank, forming) => (2, rank, forming),
        };
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.push(code);
        for number in [self.rank, to, self.job.world] {
            bytes.extend_from_slice(&(number as u32).to_le_bytes());
        }
        bytes.extend_from_slice(&self.job.epoch.to_le_bytes());
        bytes.extend_from_slice(&forming);
        for text in [&self.job.id, &self.probe] {
            bytes.push(text.len() as u8);
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes.resize(BYTES, 0);
        let mut claims = [0; BYTES];
        claims.copy_from_slice(&bytes[..BYTES]);
        claims
    }

    pub(super) fn decode(bytes: &[u8; BYTES]) -> Result<Self, String> {
        let mut rest = &bytes[..];
        let [code] = take(&mut rest)?;
        let [rank, to, world] = [number(&mut rest)?, number(&mut rest)?, number(&mut rest)?];
        let epoch = u64::from_le_bytes(take(&mut rest)?);
        let forming = take(&mut rest)?;
        let (id, probe) = (text(&mut rest)?, text(&mut rest)?);
        let to = match code {
            1 => To::Store,
            2 => To::Rank(to, forming),
            code => return Err(format!("unknown code {code} of whom to reach")),
        };
        let job = Job { id, world, epoch };
        Ok(Self {
            to,
            rank,
            job,
            probe,
        })
    }

    /// The first thing about the job in which these claims differ from it.
    pub(super) fn difference(&self, job: &Job) -> Option<String> {
        let got = &self.job;
        let differs = |what: &str, expected: &dyn std::fmt::Debug, got: &dyn std::fmt::Debug| {
            Some(format!("{what}: expected {expected:?}, got {got:?}"))
        };
        if got.id != job.id {
            return differs("job id", &job.id, &got.id);
        }
        if got.world != job.world {
            return differs("world size", &job.world, &got.world);
        }
        if got.epoch != job.epoch {
            return differs("epoch", &job.epoch, &got.epoch);
        }
        if self.rank >= job.world {
            let world = job.world;
            return Some(format!(
                "rank: expected a rank below {world}, got {}",
                self.rank
            ));
        }
        None
    }
}

/// How every refusal of a bit probe reads.
pub(super) fn probe_differs(expected: &str, got: &str) -> String {
    format!("bit probe: expected {expected:?}, got {got:?}")
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], String> {
    let (taken, left) = rest.split_first_chunk().ok_or("claims are cut short")?;
    *rest = left;
    Ok(*taken)
}

fn number(rest: &mut &[u8]) -> Result<usize, String> {
    let number = u32::from_le_bytes(take(rest)?);
    usize::try_from(number).map_err(|fault| fault.to_string())
}

fn text(rest: &mut &[u8]) -> Result<String, String> {
    let [length] = take(rest)?;
    let (taken, left) = rest
        .split_at_checked(length.into())
        .ok_or("claims are cut short")?;
    *rest = left;
    String::from_utf8(taken.to_vec()).map_err(|fault| fault.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claims(to: To, id: &str, probe: &str) -> Claims {
        Claims {
            to,
            rank: 3,
            job: Job {
                id: id.to_owned(),
                world: 4,
                epoch: u64::MAX,
            },
            probe: probe.to_owned(),
        }
    }

    #[test]
    fn claims_round_trip_with_the_longest_texts() {
        let longest = "x".repeat(200);
        for to in [To::Store, To::Rank(u32::MAX as usize, [7; 16])] {
            for (id, probe) in [("", ""), ("job", "ä"), (&longest, &longest)] {
                let claims = claims(to, id, probe);
                assert_eq!(Claims::decode(&claims.encode()), Ok(claims));
            }
        }
    }

    #[test]
    fn difference_names_what_is_not_the_job_s() {
        let claims = claims(To::Store, "job", "");
        let expect = |job: Job, text: &str| {
            let difference = claims.difference(&job);
            assert_eq!(difference.as_deref(), Some(text));
        };
        let same = claims.job.clone();
        assert_eq!(claims.difference(&same), None);
        let id = "other".to_owned();
        expect(
            Job { id, ..same.clone() },
            r#"job id: expected "other", got "job""#,
        );
        expect(
            Job {
                world: 2,
                ..same.clone()
            },
            "world size: expected 2, got 4",
        );
        expect(
            Job {
                epoch: 1,
                ..same.clone()
            },
            "epoch: expected 1, got 18446744073709551615",
        );
        let beyond = Claims {
            rank: 4,
            ..claims.clone()
        };
        let text = "rank: expected a rank below 4, got 4";
        assert_eq!(beyond.difference(&same).as_deref(), Some(text));
    }

    proptest! {
        #[test]
        fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), BYTES)) {
            let mut bytes = [0; BYTES];
            bytes.copy_from_slice(&noise);
            let _ = Claims::decode(&bytes);
        }
    }
}
