//! What ranks and the store say to each other once the token is proved.

use super::claims::Forming;

/// Bytes of text in a message; longer ones are cut.
const TEXT_BYTES: usize = 1000;

/// How far the forming of a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Ranks register.
    Gathering,
    /// Ranks connect to each other.
    Linking,
}

/// One message. The store writes those that begin with what it knows, a rank the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// A rank listens at this address.
    Register(String),
    /// A rank has all its links.
    Linked,
    /// A rank gives up: it misses these ranks, or says another reason.
    GiveUp(Vec<usize>, String),
    /// These ranks have come as far as the phase asks.
    Here(Phase, Vec<usize>),
    /// Somebody with the token was refused.
    Note(String),
    /// So many connections since the forming began did not prove the token: the last of them, and why.
    Strangers(u64, String),
    /// All are there: the forming, and the addresses in rank order.
    Roster(Forming, Vec<String>),
    /// All have their links.
    Go,
    /// A rank, or the store if it is none, gave up: the missing ranks, or another reason.
    Failed(Option<usize>, Vec<usize>, String),
    /// The rank that reads this is refused after all.
    Refused(String),
}

/// Bytes that any message of a world may have.
pub(super) fn limit(world: usize) -> u64 {
    // A roster has an address for each rank; names of hosts have up to 255 bytes.
    4096 + 300 * world as u64
}

impl Message {
    /// Code and payload.
    ///
    /// | code | message | payload, little-endian; a list or text starts with its length in 4 bytes |
    /// |---|---|---|
    /// | 16 | register | text |
    /// | 17 | linked | |
    /// | 18 | give up | list of ranks, 4 bytes each; text |
    /// | 19 | here | phase in 1 byte, list of ranks |
    /// | 20 | note | text |
    /// | 21 | roster | forming in 16 bytes, list of texts |
    /// | 22 | go | |
    /// | 23 | failed | rank or all ones in 4 bytes, list of ranks, text |
    /// | 24 | refused | text |
    /// | 25 | strangers | number in 8 bytes, text |
    pub(super) fn encode(&self) -> (u8, Vec<u8>) {
        let mut out = Vec::new();
        let code = match self {
            Self::Register(address) => put(16, || put_text(&mut out, address)),
            Self::Linked => 17,
            Self::GiveUp(missing, reason) => put(18, || {
                put_ranks(&mut out, missing);
                put_text(&mut out, reason);
            }),
            Self::Here(phase, ranks) => put(19, || {
                out.push(*phase as u8);
                put_ranks(&mut out, ranks);
            }),
            Self::Note(text) => put(20, || put_text(&mut out, text)),
            Self::Roster(forming, addresses) => put(21, || {
                out.extend_from_slice(forming);
                put_number(&mut out, addresses.len());
                addresses.iter().for_each(|text| put_text(&mut out, text));
            }),
            Self::Go => 22,
            Self::Failed(by, missing, reason) => put(23, || {
                put_number(&mut out, by.unwrap_or(u32::MAX as usize));
                put_ranks(&mut out, missing);
                put_text(&mut out, reason);
            }),
            Self::Refused(reason) => put(24, || put_text(&mut out, reason)),
            Self::Strangers(count, last) => put(25, || {
                out.extend_from_slice(&count.to_le_bytes());
                put_text(&mut out, last);
            }),
        };
        (code, out)
    }

    pub(super) fn decode(code: u8, payload: &[u8]) -> Result<Self, String> {
        let mut rest = payload;
        let message = match code {
            16 => Self::Register(text(&mut rest)?),
            17 => Self::Linked,
            18 => Self::GiveUp(ranks(&mut rest)?, text(&mut rest)?),
            19 => Self::Here(phase(&mut rest)?, ranks(&mut rest)?),
            20 => Self::Note(text(&mut rest)?),
            21 => Self::Roster(*take(&mut rest)?, list(&mut rest, text)?),
            22 => Self::Go,
            23 => {
                let by = Some(number(&mut rest)?).filter(|&by| by != u32::MAX as usize);
                Self::Failed(by, ranks(&mut rest)?, text(&mut rest)?)
            }
            24 => Self::Refused(text(&mut rest)?),
            25 => Self::Strangers(u64::from_le_bytes(*take(&mut rest)?), text(&mut rest)?),
            code => return Err(format!("unknown message {code}")),
        };
        match rest.len() {
            0 => Ok(message),
            left => Err(format!("message {code}: {left} bytes too many")),
        }
    }
}

fn put(code: u8, write: impl FnOnce()) -> u8 {
    write();
    code
}

fn put_number(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(&(number as u32).to_le_bytes());
}

fn put_ranks(out: &mut Vec<u8>, ranks: &[usize]) {
    put_number(out, ranks.len());
    ranks.iter().for_each(|&rank| put_number(out, rank));
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    let text = super::handshake::shortened(text, TEXT_BYTES);
    put_number(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; N], String> {
    let (taken, left) = rest.split_first_chunk().ok_or("message is cut short")?;
    *rest = left;
    Ok(taken)
}

fn number(rest: &mut &[u8]) -> Result<usize, String> {
    Ok(u32::from_le_bytes(*take(rest)?) as usize)
}

fn phase(rest: &mut &[u8]) -> Result<Phase, String> {
    match take(rest)? {
        [0] => Ok(Phase::Gathering),
        [1] => Ok(Phase::Linking),
        [code] => Err(format!("unknown phase {code}")),
    }
}

fn text(rest: &mut &[u8]) -> Result<String, String> {
    let length = number(rest)?;
    let (taken, left) = rest
        .split_at_checked(length)
        .ok_or("message is cut short")?;
    *rest = left;
    Ok(String::from_utf8_lossy(taken).into_owned())
}

fn ranks(rest: &mut &[u8]) -> Result<Vec<usize>, String> {
    list(rest, number)
}

/// Grows as it reads: a length that is not true asks for no memory.
fn list<T>(
    rest: &mut &[u8],
    item: impl Fn(&mut &[u8]) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    (0..number(rest)?).map(|_| item(rest)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn messages() -> Vec<Message> {
        let text = || "rank 3 from [::1]:9: äöü".to_owned();
        vec![
            Message::Register(text()),
            Message::Linked,
            Message::GiveUp(vec![3], text()),
            Message::Here(Phase::Gathering, vec![]),
            Message::Here(Phase::Linking, vec![0, 2]),
            Message::Note(String::new()),
            Message::Roster([9; 16], vec![text(), text()]),
            Message::Go,
            Message::Failed(None, vec![0, 1], text()),
            Message::Failed(Some(7), vec![], text()),
            Message::Refused(text()),
            Message::Strangers(u64::MAX, text()),
        ]
    }

    #[test]
    fn messages_round_trip_and_are_refused_when_cut_or_continued() {
        for message in messages() {
            let (code, mut payload) = message.encode();
            assert_eq!(Message::decode(code, &payload), Ok(message));
            for length in 0..payload.len() {
                assert!(Message::decode(code, &payload[..length]).is_err());
            }
            payload.push(0);
            assert!(Message::decode(code, &payload).is_err());
        }
    }

    #[test]
    fn messages_fit_the_limit_when_texts_are_too_long() {
        let world = 5;
        let name = "x".repeat(255 + 6);
        let roster = Message::Roster([0; 16], vec![name; world]);
        let ranks = (0..world).collect();
        let failed = Message::Failed(None, ranks, "ä".repeat(10_000));
        for message in [roster, failed] {
            let (code, payload) = message.encode();
            assert!(payload.len() as u64 <= limit(world));
            Message::decode(code, &payload).unwrap();
        }
    }

    proptest! {
        #[test]
        fn noise_never_panics(code in 16..30_u8, noise in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Message::decode(code, &noise);
        }
    }
}
