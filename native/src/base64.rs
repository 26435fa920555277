//! Base64, the encoding of bytes in JSON.

use crate::columns::{Accept, Reject};

/// Decodes canonical base64: padded, nothing else in it, no bits left over.
pub fn base64(text: &[u8], out: &mut Vec<u8>) -> Accept<()> {
    if text.len() % 4 != 0 {
        return Err(Reject);
    }
    let padding = text.iter().rev().take(2).take_while(|&&byte| byte == b'=').count();
    let digits = &text[..text.len() - padding];
    let mut chunks = digits.chunks_exact(4);
    for chunk in &mut chunks {
        out.extend_from_slice(&word(chunk)?.to_be_bytes()[1..]);
    }
    let rest = chunks.remainder();
    let word = word(rest)?;
    match rest.len() {
        0 => Ok(()),
        2 if word & 0xf == 0 => {
            out.push((word >> 4) as u8);
            Ok(())
        }
        3 if word & 0x3 == 0 => {
            out.extend_from_slice(&[(word >> 10) as u8, (word >> 2) as u8]);
            Ok(())
        }
        _ => Err(Reject),
    }
}

/// Returns whether a text may also be hex: of even length, with eight digits or more, in one case.
pub fn like_hex(text: &[u8]) -> bool {
    let lower = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let upper = |byte: &u8| matches!(byte, b'0'..=b'9' | b'A'..=b'F');
    text.len() >= 8 && text.len() % 2 == 0 && (text.iter().all(lower) || text.iter().all(upper))
}

/// The bits of some digits.
#[inline]
fn word(digits: &[u8]) -> Accept<u32> {
    digits.iter().try_fold(0, |word, &digit| Ok(word << 6 | sextet(digit)?))
}

#[inline]
fn sextet(digit: u8) -> Accept<u32> {
    Ok(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return Err(Reject),
    } as u32)
}
