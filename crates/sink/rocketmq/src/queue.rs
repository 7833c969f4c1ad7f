//! From a key's text to a queue, as RocketMQ's own `SelectMessageQueueByHash` does it.

/// Java's `String.hashCode`: over UTF-16 units, so that a producer in Java finds the same queue.
pub(crate) fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    })
}

/// The index of a key's queue among `queue_count`.
pub(crate) fn queue_of(key: &str, queue_count: usize) -> usize {
    let rest = i64::from(java_hash(key)) % queue_count.max(1) as i64;
    rest.unsigned_abs() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_java() {
        let known = [
            ("", 0),
            ("a", 97),
            ("hello", 99_162_322),
            ("42^7", 1_600_151),
            // Two UTF-16 units.
            ("😀", 1_772_899),
            // The smallest 32-bit number, whose absolute value is not one.
            ("polygenelubricants", i32::MIN),
        ];
        for (text, hash) in known {
            assert_eq!(java_hash(text), hash, "{text}");
        }
    }

    #[test]
    fn a_queue_is_always_one_that_exists() {
        for count in [1, 3, 4, 16] {
            for key in ["", "polygenelubricants", "7", "-1", "abc^def"] {
                assert!(queue_of(key, count) < count);
            }
        }
        assert_eq!(queue_of("hello", 4), 2);
    }
}
