//! Finding events in the bytes of a segment: `[type int32 = 0][length int32][payload]`, big-endian, without gaps.

const HEADER: usize = 8;

/// Where payloads begin, how long they are, and where the first frame begins that is not whole.
#[derive(Default)]
pub struct Frames {
    pub starts: Vec<i64>,
    pub lengths: Vec<i64>,
    pub end: usize,
}

/// How far before its turn a header is fetched from memory: bytes, and events if they are large and of one size.
const AHEAD: usize = 2048;
const ALIKE: usize = 4;

/// Has the processor fetch what will be read soon: the next header is not known before this one has come.
#[inline]
fn fetch_ahead(data: &[u8], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if at < data.len() {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, of an address within the data.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(data.as_ptr().add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (data, at);
}

/// Finds whole frames from `begin` on. Stops at a frame that is not whole, whose type is not 0 or whose length is negative.
pub fn whole_frames(data: &[u8], begin: usize) -> Frames {
    let mut found = Frames { end: begin, ..Frames::default() };
    while let Some(header) = data[found.end..].first_chunk::<HEADER>() {
        // As one number it is the length, and larger than any buffer if the type or a sign is there too.
        let length = u64::from_be_bytes(*header);
        let start = found.end + HEADER;
        if length > (data.len() - start) as u64 {
            break;
        }
        if found.starts.is_empty() {
            // Events of a stream are much alike: a guess spares growing step by step.
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
