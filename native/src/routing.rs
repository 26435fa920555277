//! The positions of routing keys, as in `client/routing.py`: murmur3_128 over their UTF-16 code units, little-endian.

use crate::columns::{Accept, Reject};

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// The position of a key in [0, 1). `units` is a reused buffer.
pub fn position(key: &[u8], seed: u64, most: usize, units: &mut Vec<u8>) -> Accept<f64> {
    units.clear();
    if key.is_ascii() {
        units.resize(key.len() * 2, 0);
        for (unit, &byte) in units.chunks_exact_mut(2).zip(key) {
            unit[0] = byte;
        }
    } else {
        let text = simdutf8::basic::from_utf8(key).map_err(|_| Reject)?;
        units.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
    }
    if units.len() / 2 > most {
        return Err(Reject);
    }
    Ok((murmur3_low(units, seed) >> 12) as f64 / (1u64 << 52) as f64)
}

/// The first 64 bits (little-endian) of MurmurHash3_x64_128.
fn murmur3_low(data: &[u8], seed: u64) -> u64 {
    let (mut h1, mut h2) = (seed, seed);
    let mut blocks = data.chunks_exact(16);
    for block in &mut blocks {
        h1 ^= scramble_1(word(&block[..8]));
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= scramble_2(word(&block[8..]));
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let rest = blocks.remainder();
    // Zero bytes hash to zero, so a missing tail needs no special case.
    h1 ^= scramble_1(word(&rest[..rest.len().min(8)]));
    h2 ^= scramble_2(word(&rest[rest.len().min(8)..]));
    h1 ^= data.len() as u64;
    h2 ^= data.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    finish(h1).wrapping_add(finish(h2))
}

fn word(bytes: &[u8]) -> u64 {
    let mut eight = [0; 8];
    eight[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(eight)
}

fn scramble_1(value: u64) -> u64 {
    value.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn scramble_2(value: u64) -> u64 {
    value.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn finish(mut value: u64) -> u64 {
    value = (value ^ value >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    value = (value ^ value >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    value ^ value >> 33
}
