//! Bodies as their producer wrote them: clients deflate large ones.

use bytes::Bytes;
use std::io::Read;

/// The longest body that is inflated: far above what brokers take, and what decoders read at most.
const BODY_BYTES_MAX: u64 = 64 << 20;

/// The largest window that a body may ask for, as a power of two: no more than the body may have.
const WINDOW_LOG_MAX: u32 = 26;

// Source: Apache RocketMQ, `MessageSysFlag`.
const COMPRESSED: i32 = 1;
const KIND: i32 = 7 << 8;
const LZ4: i32 = 1 << 8;
const ZSTD: i32 = 2 << 8;

/// Inflates a body, if the message's flags say that it is deflated.
///
/// Errors: what is wrong with it.
pub(crate) fn inflate(flags: i32, body: &Bytes) -> Result<Bytes, &'static str> {
    if flags & COMPRESSED == 0 {
        return Ok(body.clone());
    }
    match flags & KIND {
        // Java's client writes LZ4's frame format.
        LZ4 => read(lz4_flex::frame::FrameDecoder::new(body.as_ref())),
        ZSTD => {
            let decoder = zstd::Decoder::new(body.as_ref()).and_then(|mut decoder| {
                decoder.window_log_max(WINDOW_LOG_MAX)?;
                Ok(decoder)
            });
            decoder.map_or(Err(NOT_DEFLATED), read)
        }
        // Producers before 5.0 tell no kind.
        _ => read(flate2::read::ZlibDecoder::new(body.as_ref())),
    }
}

const NOT_DEFLATED: &str = "its body cannot be inflated";

fn read(decoder: impl Read) -> Result<Bytes, &'static str> {
    let mut out = Vec::new();
    let length = decoder.take(BODY_BYTES_MAX + 1).read_to_end(&mut out);
    match length {
        Err(_) => Err(NOT_DEFLATED),
        Ok(length) if length as u64 > BODY_BYTES_MAX => Err("its body inflates beyond 64 MiB"),
        Ok(_) => Ok(out.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn bodies_are_inflated_as_their_flags_say() {
        let text = Bytes::from_static(b"{\"data\":[]}");
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        zlib.write_all(&text).unwrap();
        let zlib = Bytes::from(zlib.finish().unwrap());
        let zstd = Bytes::from(zstd::encode_all(text.as_ref(), 1).unwrap());
        assert_eq!(inflate(0, &text), Ok(text.clone()));
        assert_eq!(inflate(COMPRESSED, &zlib), Ok(text.clone()));
        assert_eq!(inflate(COMPRESSED | 3 << 8, &zlib), Ok(text.clone()));
        assert_eq!(inflate(COMPRESSED | ZSTD, &zstd), Ok(text.clone()));
        for (flags, body) in [(COMPRESSED, &zstd), (COMPRESSED | ZSTD, &zlib)] {
            assert_eq!(inflate(flags, body), Err(NOT_DEFLATED));
        }
        let cut = zlib.slice(..zlib.len() - 6);
        assert_eq!(inflate(COMPRESSED, &cut), Err(NOT_DEFLATED));
        let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
        lz4.write_all(&text).unwrap();
        let lz4 = Bytes::from(lz4.finish().unwrap());
        assert_eq!(inflate(COMPRESSED | LZ4, &lz4), Ok(text.clone()));
        for body in [&text, &lz4.slice(..lz4.len() - 6)] {
            assert_eq!(inflate(COMPRESSED | LZ4, body), Err(NOT_DEFLATED));
        }
    }

    #[test]
    fn what_java_s_client_compresses_is_inflated() {
        // Source: Apache RocketMQ 5.4, what each of its `Compressor`s makes of this text.
        let text = format!("{{\"data\":[{{\"name\":\"{}\"}}]}}", "x".repeat(100));
        for (flags, hex) in [
            (
                LZ4,
                "04224d186070731e000000ff047b2264617461223a5b7b226e616d65223a227801004f5078227d5d7d\
                 00000000",
            ),
            (
                ZSTD,
                "28b52ffd0058ec0000b87b2264617461223a5b7b226e616d65223a2278227d5d7d0100410ac2010000",
            ),
            (
                3 << 8,
                "785eab564a492c4954b28aae56ca4bcc4d55b252aaa00350aa8dad050085403604",
            ),
        ] {
            let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            let body: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
            let inflated = inflate(COMPRESSED | flags, &body.into());
            assert_eq!(inflated.as_deref(), Ok(text.as_bytes()), "{flags}");
        }
    }

    #[test]
    fn a_small_body_does_not_become_a_huge_one() {
        let zeros = std::io::repeat(0).take(BODY_BYTES_MAX + 1);
        let small = Bytes::from(zstd::encode_all(zeros, 1).unwrap());
        assert!(small.len() < 1 << 20);
        assert_eq!(
            inflate(COMPRESSED | ZSTD, &small),
            Err("its body inflates beyond 64 MiB")
        );
    }
}
