//! Unwanted values of JSON: they are checked but not kept.

use super::Parser;
use crate::columns::Accept;

impl Parser<'_> {
    /// Skips a value that is not wanted, but still checks it.
    pub(super) fn skip(&mut self) -> Accept<()> {
        match self.token()? {
            b'"' => {
                self.at += 1;
                self.skip_string()
            }
            b'{' => {
                self.at += 1;
                self.skip_object()
            }
            b'[' => {
                self.at += 1;
                self.skip_list()
            }
            b't' | b'f' => self.boolean().map(|_| ()),
            b'n' => self.literal(b"null"),
            _ => self.number().map(|_| ()),
        }
    }

    fn skip_object(&mut self) -> Accept<()> {
        self.members(Self::skip_string, Self::skip)
    }

    fn skip_list(&mut self) -> Accept<()> {
        self.elements(Self::skip)
    }
}
