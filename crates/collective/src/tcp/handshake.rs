//! The four messages of a handshake, and the dialer's side of it.
//!
//! | message | from | bytes | contents |
//! |---|---|---|---|
//! | hello | dialer | 40 | magic `BVTH`, version, 2 zeros, the dialer's challenge |
//! | challenge | listener | 40 | the same, with the listener's challenge |
//! | proof | dialer | 544 | claims, HMAC over both challenges and the claims |
//! | verdict | listener | 544 | code, length and text of a reason, zeros; HMAC over all that was said |

use super::claims::{self, Claims};
use super::proof::{Key, NONCE_BYTES, Nonce, Nonces, PROOF_BYTES, Proof, random};
use super::timed::{Timed, TimedError};

pub(super) const MAGIC: [u8; 4] = *b"BVTH";
const VERSION: u16 = 1;
/// Size of a hello and of a challenge.
pub(super) const HELLO_BYTES: usize = 8 + NONCE_BYTES;
/// Size of claims with their proof.
pub(super) const PROVEN_BYTES: usize = claims::BYTES + PROOF_BYTES;
const VERDICT_BYTES: usize = 512;
const REASON_BYTES: usize = VERDICT_BYTES - 3;

/// What the listener decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Admitted,
    /// The dialer has the token, and something else is wrong.
    Refused(String),
    /// The dialer does not have the token: it gets no proof either, lest it has something to guess
    /// the token from.
    NoProof,
}

/// How a handshake ended for the dialer.
#[derive(Debug)]
pub(super) enum Fault {
    /// It broke off, for a reason that another try may not meet.
    Broken(TimedError),
    /// The other end does not speak this protocol.
    Foreign(String),
    /// The two ends do not have the same token.
    Token,
    /// The other end has the token, and says why it refuses.
    Refused(String),
}

impl From<TimedError> for Fault {
    fn from(fault: TimedError) -> Self {
        Self::Broken(fault)
    }
}

pub(super) fn encode_hello(nonce: &Nonce) -> [u8; HELLO_BYTES] {
    let mut bytes = [0; HELLO_BYTES];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
    bytes[8..].copy_from_slice(nonce);
    bytes
}

pub(super) fn decode_hello(bytes: &[u8; HELLO_BYTES]) -> Result<Nonce, String> {
    if bytes[..4] != MAGIC {
        return Err(format!("magic: expected {MAGIC:?}, got {:?}", &bytes[..4]));
    }
    let version = u16::from_le_bytes([bytes[4], bytes[5]]);
    if version != VERSION {
        return Err(format!("version: expected {VERSION}, got {version}"));
    }
    let mut nonce = [0; NONCE_BYTES];
    nonce.copy_from_slice(&bytes[8..]);
    Ok(nonce)
}

/// Claims and proof as they travel.
pub(super) fn encode_proof(
    key: &Key,
    nonces: &Nonces,
    claims: &[u8; claims::BYTES],
) -> [u8; PROVEN_BYTES] {
    let mut bytes = [0; PROVEN_BYTES];
    bytes[..claims::BYTES].copy_from_slice(claims);
    bytes[claims::BYTES..].copy_from_slice(&key.dialer(nonces, claims));
    bytes
}

/// The claims, if the proof holds.
pub(super) fn decode_proof(
    key: &Key,
    nonces: &Nonces,
    bytes: &[u8; PROVEN_BYTES],
) -> Option<[u8; claims::BYTES]> {
    let (claims, proof) = split(bytes);
    key.is_dialer(nonces, &claims, &proof).then_some(claims)
}

/// A verdict as it travels.
pub(super) fn encode_verdict(
    key: &Key,
    nonces: &Nonces,
    claims: &[u8; claims::BYTES],
    verdict: &Verdict,
) -> [u8; PROVEN_BYTES] {
    let (code, reason) = match verdict {
        Verdict::Admitted => (1, ""),
        Verdict::Refused(reason) => (2, shortened(reason, REASON_BYTES)),
        Verdict::NoProof => (3, ""),
    };
    let mut bytes = [0; PROVEN_BYTES];
    bytes[0] = code;
    bytes[1..3].copy_from_slice(&(reason.len() as u16).to_le_bytes());
    bytes[3..3 + reason.len()].copy_from_slice(reason.as_bytes());
    if *verdict != Verdict::NoProof {
        let proof = key.listener(nonces, claims, &bytes[..VERDICT_BYTES]);
        bytes[VERDICT_BYTES..].copy_from_slice(&proof);
    }
    bytes
}

/// The verdict, believed only if the listener has the token.
pub(super) fn decode_verdict(
    key: &Key,
    nonces: &Nonces,
    claims: &[u8; claims::BYTES],
    bytes: &[u8; PROVEN_BYTES],
) -> Result<(), Fault> {
    let (verdict, proof) = split::<VERDICT_BYTES>(bytes);
    if !key.is_listener(nonces, claims, &verdict, &proof) {
        return Err(Fault::Token);
    }
    let length = usize::from(u16::from_le_bytes([verdict[1], verdict[2]]));
    let reason = verdict[3..].get(..length).unwrap_or_default();
    match verdict[0] {
        1 => Ok(()),
        2 => Err(Fault::Refused(String::from_utf8_lossy(reason).into_owned())),
        code => Err(Fault::Foreign(format!("verdict {code}"))),
    }
}

/// The dialer's side of a handshake on a fresh connection.
pub(super) fn dial(timed: &Timed<'_>, key: &Key, claims: &Claims) -> Result<(), Fault> {
    let mut nonces = Nonces::default();
    random(&mut nonces.dialer).map_err(|fault| Fault::Foreign(fault.to_string()))?;
    timed.write_all(&encode_hello(&nonces.dialer))?;
    let mut hello = [0; HELLO_BYTES];
    timed.read_exact(&mut hello)?;
    nonces.listener = decode_hello(&hello).map_err(Fault::Foreign)?;
    let claims = claims.encode();
    timed.write_all(&encode_proof(key, &nonces, &claims))?;
    let mut verdict = [0; PROVEN_BYTES];
    timed.read_exact(&mut verdict)?;
    decode_verdict(key, &nonces, &claims, &verdict)
}

fn split<const N: usize>(bytes: &[u8; PROVEN_BYTES]) -> ([u8; N], Proof) {
    let (mut front, mut proof) = ([0; N], [0; PROOF_BYTES]);
    let (from, rest) = bytes.split_at(N);
    front.copy_from_slice(from);
    proof.copy_from_slice(&rest[..PROOF_BYTES]);
    (front, proof)
}

/// The longest beginning of `text` that has at most `bytes` bytes.
pub(super) fn shortened(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}
