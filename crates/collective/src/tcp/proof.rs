//! Proofs that one has the job's token, without showing it: HMAC-SHA256 over what both ends said.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::{JoinError, Token};

/// Size of a challenge.
pub(super) const NONCE_BYTES: usize = 32;
/// Size of a proof.
pub(super) const PROOF_BYTES: usize = 32;

pub(super) type Nonce = [u8; NONCE_BYTES];
pub(super) type Proof = [u8; PROOF_BYTES];

/// The challenges of both ends. Each is drawn for one handshake, so a proof is good for that only.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Nonces {
    pub(super) dialer: Nonce,
    pub(super) listener: Nonce,
}

/// The token, ready to prove and to check with.
#[derive(Clone)]
pub(super) struct Key(Hmac<Sha256>);

impl Key {
    pub(super) fn new(token: &Token) -> Self {
        // A key block of HMAC is 64 bytes; a digest fits whatever the length of the token.
        let mut block = [0; 64];
        block[..32].copy_from_slice(&Sha256::digest(token.expose()));
        Self(Hmac::new(&block.into()))
    }

    /// The dialer's proof: over both challenges and what it claims to be.
    pub(super) fn dialer(&self, nonces: &Nonces, claims: &[u8]) -> Proof {
        proof(self.mac(DIALER, nonces, &[claims]))
    }

    /// Checks [`Key::dialer`], in constant time.
    pub(super) fn is_dialer(&self, nonces: &Nonces, claims: &[u8], proof: &Proof) -> bool {
        let mac = self.mac(DIALER, nonces, &[claims]);
        mac.verify_slice(proof).is_ok()
    }

    /// The listener's proof: over all that the dialer's is, and its own verdict.
    pub(super) fn listener(&self, nonces: &Nonces, claims: &[u8], verdict: &[u8]) -> Proof {
        proof(self.mac(LISTENER, nonces, &[claims, verdict]))
    }

    /// Checks [`Key::listener`], in constant time.
    pub(super) fn is_listener(
        &self,
        nonces: &Nonces,
        claims: &[u8],
        verdict: &[u8],
        proof: &Proof,
    ) -> bool {
        let mac = self.mac(LISTENER, nonces, &[claims, verdict]);
        mac.verify_slice(proof).is_ok()
    }

    /// Labels and parts have fixed lengths, so that no two transcripts are the same bytes.
    fn mac(&self, label: &[u8; 24], nonces: &Nonces, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(label);
        mac.update(&nonces.dialer);
        mac.update(&nonces.listener);
        parts.iter().for_each(|part| mac.update(part));
        mac
    }
}

// Different, so that nobody can send an end its own proof back.
const DIALER: &[u8; 24] = b"burn-virtual tcp dialer ";
const LISTENER: &[u8; 24] = b"burn-virtual tcp listene";

fn proof(mac: Hmac<Sha256>) -> Proof {
    mac.finalize().into_bytes().into()
}

/// Fills `bytes` with what nobody can foresee.
pub(super) fn random(bytes: &mut [u8]) -> Result<(), JoinError> {
    getrandom::fill(bytes).map_err(|fault| JoinError::System {
        what: "random numbers",
        reason: fault.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIMS: &[u8] = b"claims";

    fn key(text: &str) -> Key {
        Key::new(&Token::new(text).unwrap())
    }

    fn nonces() -> Nonces {
        let mut nonces = Nonces::default();
        random(&mut nonces.dialer).unwrap();
        random(&mut nonces.listener).unwrap();
        nonces
    }

    #[test]
    fn proof_holds_for_the_same_token_and_transcript_only() {
        let (right, wrong) = (key("a token of 16 bytes"), key("another of 16 bytes"));
        let nonces = nonces();
        let proof = right.dialer(&nonces, CLAIMS);
        assert!(right.is_dialer(&nonces, CLAIMS, &proof));
        assert!(!wrong.is_dialer(&nonces, CLAIMS, &proof));
        assert!(!right.is_dialer(&nonces, b"other claims", &proof));
        assert!(!right.is_dialer(&self::nonces(), CLAIMS, &proof));
    }

    #[test]
    fn proof_of_one_end_is_none_of_the_other() {
        let (key, nonces) = (key("a token of 16 bytes"), nonces());
        let dialer = key.dialer(&nonces, CLAIMS);
        assert!(!key.is_listener(&nonces, CLAIMS, &[], &dialer));
        let listener = key.listener(&nonces, CLAIMS, b"verdict");
        assert!(key.is_listener(&nonces, CLAIMS, b"verdict", &listener));
        assert!(!key.is_listener(&nonces, CLAIMS, b"Verdict", &listener));
    }

    #[test]
    fn proof_is_hmac_sha256_of_the_hashed_token() {
        // RFC 4231 has no case with such a key; the definition is short: H(k ^ opad, H(k ^ ipad, m)).
        let (token, nonces) = ("a token of 16 bytes", nonces());
        let mut block = [0; 64];
        block[..32].copy_from_slice(&Sha256::digest(token));
        let message = [DIALER, &nonces.dialer[..], &nonces.listener, CLAIMS].concat();
        let inner = Sha256::new()
            .chain_update(block.map(|byte| byte ^ 0x36))
            .chain_update(message)
            .finalize();
        let outer = Sha256::new()
            .chain_update(block.map(|byte| byte ^ 0x5c))
            .chain_update(inner)
            .finalize();
        assert_eq!(key(token).dialer(&nonces, CLAIMS), <[u8; 32]>::from(outer));
    }
}
