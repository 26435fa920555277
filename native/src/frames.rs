//! Finds events in the bytes of a segment: `[type int32 = 0][length int32][payload]`, big-endian, without gaps.

const HEADER: usize = 8;

/// The starts and lengths of payloads, and the start of the first incomplete frame.
#[derive(Default)]
pub struct Frames {
    pub starts: Vec<i64>,
    pub lengths: Vec<i64>,
    pub end: usize,
}

/// How far ahead a header is fetched from memory: bytes, and events if they are large and of one size.
const AHEAD: usize = 2048;
const ALIKE: usize = 4;

/// Lets the processor fetch what will be read soon: the next header is unknown until this one has arrived.
#[inline]
fn fetch_ahead(data: &[u8], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if at < data.len() {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: only a hint, with an address within the data.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(data.as_ptr().add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (data, at);
}

/// Finds whole frames from `begin` on. Stops at an incomplete frame, a type other than 0, or a negative length.
pub fn whole_frames(data: &[u8], begin: usize) -> Frames {
    let mut found = Frames { end: begin, ..Frames::default() };
    while let Some(header) = data[found.end..].first_chunk::<HEADER>() {
        // As one number it is the length, and larger than any buffer if the type or the sign is set.
        let length = u64::from_be_bytes(*header);
        let start = found.end + HEADER;
        if length > (data.len() - start) as u64 {
            break;
        }
        if found.starts.is_empty() {
            // Events of a stream are similar: a guess avoids growing step by step.
            let guess = (data.len() - begin) / (HEADER + length as usize) + 1;
            found.starts.reserve(guess);
            found.lengths.reserve(guess);
        }
        fetch_ahead(data, found.end + AHEAD.max(ALIKE * (HEADER + length as usize)));
        found.starts.push(start as i64);
        found.lengths.push(length as i64);
        found.end = start + length as usize;
    }
    found
}
