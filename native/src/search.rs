//! Finds texts in payloads.

use memchr::memmem::Finder;

/// Texts to search for.
pub struct Texts(Vec<Finder<'static>>);

impl Texts {
    pub fn new(texts: &[Vec<u8>]) -> Self {
        Texts(texts.iter().map(|text| Finder::new(text).into_owned()).collect())
    }

    /// Whether a payload contains one of them.
    #[inline]
    pub fn is_any_in(&self, payload: &[u8]) -> bool {
        self.0.iter().any(|text| text.find(payload).is_some())
    }
}
