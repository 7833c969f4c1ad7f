//! From a key's text to a partition, as Kafka's own Java producer does it.

use crate::config::PartitionHash;
use format::key_text::java_hash;

/// Source: Apache Kafka, `Utils.murmur2`: the hash that the default partitioner puts over a key.
pub(crate) fn murmur2(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ bytes.len() as u32;
    let mut chunks = bytes.chunks_exact(4);
    for chunk in &mut chunks {
        let mut k = u32::from_le_bytes(chunk.try_into().expect("chunks of four"));
        k = k.wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

/// The partition of a key.
pub(crate) fn partition_of(hash: PartitionHash, key: &[u8], partition_count: i32) -> i32 {
    let hash = match hash {
        PartitionHash::Kafka => murmur2(key),
        PartitionHash::Java => java_hash(&String::from_utf8_lossy(key)) as u32,
    };
    let positive = hash & 0x7fff_ffff;
    (positive % partition_count.max(1) as u32) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_java_producer() {
        // Source: Apache Kafka, UtilsTest.testMurmur2.
        let known: [(&str, i32); 7] = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            ("abc", 479_470_107),
            ("", 275_646_681),
        ];
        for (text, hash) in known {
            assert_eq!(murmur2(text.as_bytes()) as i32, hash, "{text}");
        }
    }

    #[test]
    fn the_smallest_java_hash_has_a_partition_too() {
        // The sign bit is masked, not negated: that has no positive form for the smallest.
        assert_eq!(
            partition_of(PartitionHash::Java, b"polygenelubricants", 7),
            0
        );
    }
}
