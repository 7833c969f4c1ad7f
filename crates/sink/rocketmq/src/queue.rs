//! From a key's text to a queue, as RocketMQ's own `SelectMessageQueueByHash` does it.

use format::key_text::java_hash;

/// The index of a key's queue among `queue_count`.
pub(crate) fn queue_of(key: &str, queue_count: usize) -> usize {
    let rest = i64::from(java_hash(key)) % queue_count.max(1) as i64;
    rest.unsigned_abs() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

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
