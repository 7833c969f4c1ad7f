//! As much of CBOR (RFC 8949) as Smithy's RPC v2 uses, to and from the same document model that JSON has.
//!
//! Shape: maps with text keys, arrays, text, integers, floats, booleans, null and tag 1 (a time), definite and
//! indefinite. Byte strings become base64 text, as JSON carries them. Timestamps of an answer are marked by
//! [`TIME_KEY`], because the document model has no time of its own.

use serde_json::{Map, Number, Value};

/// Documents nest at most this deep.
const DEPTH_MAX: usize = 64;
/// An object with this one member is written as a time: seconds since 1970.
pub const TIME_KEY: &str = "\u{1}time";

/// Reads one document that is all of `bytes`.
///
/// Errors: what is wrong, as a text. Never panics, never allocates more than the bytes account for.
pub fn read(bytes: &[u8]) -> Result<Value, String> {
    let mut reader = Reader { bytes };
    let value = reader.value(0)?;
    match reader.bytes.is_empty() {
        true => Ok(value),
        false => Err("bytes follow the request's document".into()),
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
}

const CUT: &str = "the request's document is cut off";
const BREAK: u8 = 0xff;

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(CUT)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }

    /// The argument of an initial byte; none for an indefinite length.
    fn argument(&mut self, low: u8) -> Result<Option<u64>, String> {
        let count = match low {
            0..=23 => return Ok(Some(u64::from(low))),
            24..=27 => 1usize << (low - 24),
            31 => return Ok(None),
            _ => return Err("the request's document holds a reserved length".into()),
        };
        let bytes = self.take(count)?;
        Ok(Some(
            bytes
                .iter()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        ))
    }

    fn ends(&mut self, left: &mut Option<u64>) -> Result<bool, String> {
        match left {
            Some(0) => Ok(true),
            Some(count) => {
                *count -= 1;
                Ok(false)
            }
            None if self.bytes.first() == Some(&BREAK) => {
                self.byte()?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > DEPTH_MAX {
            return Err(format!("the request nests deeper than {DEPTH_MAX} levels"));
        }
        let first = self.byte()?;
        let (major, low) = (first >> 5, first & 31);
        match major {
            0 => Ok(Value::Number(self.definite(low)?.into())),
            1 => {
                let magnitude = i64::try_from(self.definite(low)?)
                    .map_err(|_| "an integer of the request is out of range")?;
                Ok(Value::Number((-1 - magnitude).into()))
            }
            2 => {
                use base64::Engine;
                let bytes = self.string(2, low)?;
                Ok(Value::String(
                    base64::engine::general_purpose::STANDARD.encode(bytes),
                ))
            }
            3 => Ok(Value::String(self.text(low)?)),
            4 => {
                let mut left = self.argument(low)?;
                let mut items = Vec::new();
                while !self.ends(&mut left)? {
                    items.push(self.value(depth + 1)?);
                }
                Ok(Value::Array(items))
            }
            5 => {
                let mut left = self.argument(low)?;
                let mut members = Map::new();
                while !self.ends(&mut left)? {
                    let first = self.byte()?;
                    if first >> 5 != 3 {
                        return Err("a member's name is no text".into());
                    }
                    let name = self.text(first & 31)?;
                    members.insert(name, self.value(depth + 1)?);
                }
                Ok(Value::Object(members))
            }
            6 => {
                self.definite(low)?;
                self.value(depth + 1)
            }
            _ => self.simple(low),
        }
    }

    fn definite(&mut self, low: u8) -> Result<u64, String> {
        self.argument(low)?
            .ok_or_else(|| "a number of the request has no length".into())
    }

    fn string(&mut self, major: u8, low: u8) -> Result<Vec<u8>, String> {
        if let Some(count) = self.argument(low)? {
            let count = usize::try_from(count).map_err(|_| CUT)?;
            return Ok(self.take(count)?.to_vec());
        }
        let mut all = Vec::new();
        loop {
            let first = self.byte()?;
            if first == BREAK {
                return Ok(all);
            }
            if first >> 5 != major {
                return Err("a piece of a string is of another kind".into());
            }
            let count = usize::try_from(self.definite(first & 31)?).map_err(|_| CUT)?;
            all.extend_from_slice(self.take(count)?);
        }
    }

    fn text(&mut self, low: u8) -> Result<String, String> {
        String::from_utf8(self.string(3, low)?).map_err(|_| "a text is not UTF-8".into())
    }

    fn simple(&mut self, low: u8) -> Result<Value, String> {
        let float = |value: f64| Number::from_f64(value).map_or(Value::Null, Value::Number);
        match low {
            20 => Ok(Value::Bool(false)),
            21 => Ok(Value::Bool(true)),
            22 | 23 => Ok(Value::Null),
            25 => {
                let bytes = self.take(2)?;
                Ok(float(half(u16::from_be_bytes([bytes[0], bytes[1]]))))
            }
            26 => {
                let bytes: [u8; 4] = self.take(4)?.try_into().map_err(|_| CUT)?;
                Ok(float(f64::from(f32::from_be_bytes(bytes))))
            }
            27 => {
                let bytes: [u8; 8] = self.take(8)?.try_into().map_err(|_| CUT)?;
                Ok(float(f64::from_be_bytes(bytes)))
            }
            _ => Err("the request holds a value of an unknown kind".into()),
        }
    }
}

/// A half-precision float.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 {
        -magnitude
    } else {
        magnitude
    }
}

fn put_head(out: &mut Vec<u8>, major: u8, argument: u64) {
    let major = major << 5;
    match argument {
        0..=23 => out.push(major | argument as u8),
        24..=0xff => out.extend_from_slice(&[major | 24, argument as u8]),
        0x100..=0xffff => {
            out.push(major | 25);
            out.extend_from_slice(&(argument as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(major | 26);
            out.extend_from_slice(&(argument as u32).to_be_bytes());
        }
        _ => {
            out.push(major | 27);
            out.extend_from_slice(&argument.to_be_bytes());
        }
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_head(out, 3, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn put_number(out: &mut Vec<u8>, number: &Number) {
    if let Some(value) = number.as_u64() {
        put_head(out, 0, value);
    } else if let Some(value) = number.as_i64() {
        put_head(out, 1, (-1 - value) as u64);
    } else {
        out.push(0xfb);
        let value = number.as_f64().unwrap_or(f64::NAN);
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends a document of our own.
pub fn write(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.push(0xf6),
        Value::Bool(flag) => out.push(0xf4 | u8::from(*flag)),
        Value::Number(number) => put_number(out, number),
        Value::String(text) => put_text(out, text),
        Value::Array(items) => {
            put_head(out, 4, items.len() as u64);
            items.iter().for_each(|item| write(out, item));
        }
        Value::Object(members) => {
            if let Some(Value::Number(time)) = members.get(TIME_KEY) {
                out.push(0xc1);
                return put_number(out, time);
            }
            put_head(out, 5, members.len() as u64);
            for (name, member) in members {
                put_text(out, name);
                write(out, member);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn documents_read_back() {
        let value = json!({"a": [1, -1, 300, 70000, 5_000_000_000u64, 1.5], "b": null, "c": {"d": true, "e": "ž"}});
        let mut out = Vec::new();
        write(&mut out, &value);
        assert_eq!(read(&out), Ok(value));
    }

    #[test]
    fn indefinite_lengths_tags_and_halves_are_read() {
        // {_ "a": [_ 1, (_ "x", "y")], "t": 1(1.5 as half)}
        let bytes = b"\xbf\x61a\x9f\x01\x7f\x61x\x61y\xff\xff\x61t\xc1\xf9\x3e\x00\xff";
        assert_eq!(read(bytes), Ok(json!({"a": [1, "xy"], "t": 1.5})));
    }

    #[test]
    fn what_is_cut_or_deep_is_refused() {
        let mut out = Vec::new();
        write(&mut out, &json!({"a": [1, "text", {"b": 2}]}));
        for cut in 0..out.len() {
            assert!(read(&out[..cut]).is_err());
        }
        assert!(read(&vec![0x81; 100_000]).is_err());
        assert!(read(b"\x5b\xff\xff\xff\xff\xff\xff\xff\xff").is_err());
        assert!(read(b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff").is_err());
    }
}
