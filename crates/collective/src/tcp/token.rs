//! What the ranks of a job know and strangers don't.

use std::fmt;

use super::JoinError;
use super::proof::random;

const LEAST_BYTES: usize = 16;

/// The secret of a job. Every rank has it, proves that it does, and lets in nobody who can't; it
/// never travels itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    text: String,
    given: bool,
}

impl Token {
    /// The token that was agreed on, of 16 bytes or more.
    ///
    /// # Errors
    /// It is shorter: a listener of its proof could try them all.
    pub fn new(text: impl Into<String>) -> Result<Self, JoinError> {
        let text = text.into();
        if text.len() < LEAST_BYTES {
            return Err(JoinError::TokenShort {
                expected: LEAST_BYTES,
                got: text.len(),
            });
        }
        Ok(Self { text, given: true })
    }

    /// A fresh token, for a launcher to give to the ranks it starts.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn random() -> Result<Self, JoinError> {
        let mut bytes = [0; 32];
        random(&mut bytes)?;
        Self::new(bytes.map(|byte| format!("{byte:02x}")).concat())
    }

    /// The text itself, to be handed to another process of the job and to nobody else.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// Whether somebody chose it, so that it is good for more than the loopback address.
    pub fn is_given(&self) -> bool {
        self.given
    }
}

/// The token of jobs that were given none. Everybody knows it: it keeps apart jobs that run on one
/// host, and is refused for any address but loopback.
impl Default for Token {
    fn default() -> Self {
        Self {
            text: "burn-virtual without a token".to_owned(),
            given: false,
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.given { "given" } else { "default" };
        write!(formatter, "Token({state})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_not_shown_when_it_is_printed() {
        let token = Token::new("0123456789abcdef").unwrap();
        assert_eq!(format!("{token:?}"), "Token(given)");
        assert_eq!(token.expose(), "0123456789abcdef");
    }

    #[test]
    fn random_tokens_differ_and_count_as_given() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_ne!(one, other);
        assert!(one.is_given() && !Token::default().is_given());
    }

    #[test]
    fn token_refused_when_it_is_short() {
        let error = Token::new("secret").unwrap_err().to_string();
        assert!(error.contains("at least 16 bytes, got 6"), "{error}");
    }
}
