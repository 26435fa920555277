//! Numbers as text, exactly as Arrow's casts to string write them.

pub fn integer(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// At least this many digits, with leading zeros.
pub fn padded(mut value: u64, digits: usize, out: &mut Vec<u8>) {
    let begin = out.len();
    out.resize(begin + digits, b'0');
    for place in (begin..begin + digits).rev() {
        out[place] = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

pub fn decimal(value: i128, scale: i8, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(value.unsigned_abs()).as_bytes();
    if scale == 0 {
        out.extend_from_slice(digits);
        return;
    }
    let scale = i64::from(scale);
    let exponent = digits.len() as i64 - 1 - scale;
    if scale < 0 || exponent < -6 {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.push(b'E');
        if exponent >= 0 {
            out.push(b'+');
        }
        integer(exponent, out);
    } else if digits.len() as i64 > scale {
        let whole = digits.len() - scale as usize;
        out.extend_from_slice(&digits[..whole]);
        out.push(b'.');
        out.extend_from_slice(&digits[whole..]);
    } else {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + scale as usize - digits.len(), b'0');
        out.extend_from_slice(digits);
    }
}

/// A number of units, without trailing zeros.
pub fn fraction(micros: i64, unit: i64, out: &mut Vec<u8>) {
    if micros < 0 {
        out.push(b'-');
    }
    let (unit, micros) = (unit.unsigned_abs(), micros.unsigned_abs());
    integer(micros / unit, out);
    let rest = micros % unit;
    if rest != 0 {
        out.push(b'.');
        padded(rest, unit.ilog10() as usize, out);
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

pub fn double(value: f64, out: &mut Vec<u8>) {
    if !value.is_finite() {
        return special(value, out);
    }
    if value.fract() == 0.0 && value.abs() < 1e10 {
        // This includes -0.0, with its sign.
        if value.is_sign_negative() {
            out.push(b'-');
        }
        integer(value.abs() as u64, out);
        out.extend_from_slice(b".0");
        return;
    }
    let mut buffer = ryu::Buffer::new();
    shortest(buffer.format_finite(value), out);
}

pub fn float(value: f32, out: &mut Vec<u8>) {
    if !value.is_finite() {
        return special(f64::from(value), out);
    }
    let mut buffer = ryu::Buffer::new();
    let text = buffer.format_finite(value);
    // A reader may convert via double, so the digits must survive that too.
    if text.parse::<f64>().is_ok_and(|double| double as f32 == value) {
        shortest(text, out);
    } else {
        double(f64::from(value), out);
    }
}

fn special(value: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(if value.is_nan() {
        b"\"NaN\""
    } else if value < 0.0 {
        b"\"-Infinity\""
    } else {
        b"\"Infinity\""
    });
}

/// Writes the digits that ryu has found (`1.5`, `0.0015`, `1.5e-7`) with an exponent where Arrow has one.
fn shortest(text: &str, out: &mut Vec<u8>) {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    if unsigned.len() < text.len() {
        out.push(b'-');
    }
    let (mantissa, exponent) = unsigned.split_once('e').unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits = [0; 32];
    let count = whole.len() + fraction.len();
    digits[..whole.len()].copy_from_slice(whole.as_bytes());
    digits[whole.len()..count].copy_from_slice(fraction.as_bytes());
    let mut point = whole.len() as i32 + exponent.parse::<i32>().expect("an exponent of ryu");
    let leading = digits[..count].iter().take_while(|&&digit| digit == b'0').count();
    if leading == count {
        out.extend_from_slice(b"0.0");
        return;
    }
    point -= leading as i32;
    let trailing = digits[..count].iter().rev().take_while(|&&digit| digit == b'0').count();
    let digits = &digits[leading..count - trailing];
    let length = digits.len() as i32;
    if !(-6..10).contains(&(point - 1)) {
        out.push(digits[0]);
        if length > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.extend_from_slice(if point > 0 { b"e+" } else { b"e-" });
        integer(u64::from((point - 1).unsigned_abs()), out);
    } else if point <= 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + point.unsigned_abs() as usize, b'0');
        out.extend_from_slice(digits);
    } else if length <= point {
        out.extend_from_slice(digits);
        out.resize(out.len() + (point - length) as usize, b'0');
        out.extend_from_slice(b".0");
    } else {
        out.extend_from_slice(&digits[..point as usize]);
        out.push(b'.');
        out.extend_from_slice(&digits[point as usize..]);
    }
}
