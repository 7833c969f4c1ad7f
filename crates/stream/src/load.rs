//! How much each shard takes, and when that makes it split or merge.

use change::wire::{WireError, WireReader, put_u64};

/// When a stream's shards are split and merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardLimits {
    /// Shards that a stream begins with, 1 to 64. Default 1.
    pub initial: u32,
    /// Open shards that splitting under load stops at. Default 32; 1 turns it off.
    pub max: u32,
    /// A shard is split after [`ShardLimits::window_s`] above this many records a second. Default 20,000.
    pub split_records: u64,
    /// A shard is split after the window above this many bytes a second. Default 16 MiB.
    pub split_bytes: u64,
    /// Two neighbours are merged when both together stayed below this share of the split limits for 15 windows, in
    /// percent. Default 0: never, because the Java adapter follows only the first parent of a merged shard.
    pub merge_percent: u32,
    /// Seconds over which load is measured. Default 60.
    pub window_s: u32,
}

impl Default for ShardLimits {
    fn default() -> Self {
        Self {
            initial: 1,
            max: 32,
            split_records: 20_000,
            split_bytes: 16 << 20,
            merge_percent: 0,
            window_s: 60,
        }
    }
}

impl ShardLimits {
    /// The most shards that a stream may begin with.
    pub const INITIAL_MAX: u32 = 64;

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, u64::from(self.initial));
        put_u64(out, u64::from(self.max));
        put_u64(out, self.split_records);
        put_u64(out, self.split_bytes);
        put_u64(out, u64::from(self.merge_percent));
        put_u64(out, u64::from(self.window_s));
    }

    pub(crate) fn decode(r: &mut WireReader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            initial: r.u32()?,
            max: r.u32()?,
            split_records: r.u64()?,
            split_bytes: r.u64()?,
            merge_percent: r.u32()?,
            window_s: r.u32()?,
        })
    }
}

/// What one open shard took since the last look.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    pub shard: u32,
    pub from_hash: u64,
    pub records: u64,
    pub bytes: u64,
    /// Windows in a row in which it was quiet.
    pub quiet: u32,
}

/// Quiet windows before a merge.
const QUIET_WINDOWS: u32 = 15;

/// What the load asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Split(u32),
    Merge(u32, u32),
}

/// Looks at one window's load of a stream's open shards, in the order of their ranges, and empties it.
pub(crate) fn judge(loads: &mut [Load], limits: &ShardLimits, seconds: f64) -> Option<Wish> {
    let busy = |load: &Load| {
        load.records as f64 > limits.split_records as f64 * seconds
            || load.bytes as f64 > limits.split_bytes as f64 * seconds
    };
    let share = f64::from(limits.merge_percent) / 100.0;
    let quiet = |load: &Load| {
        (load.records as f64) < limits.split_records as f64 * share / 2.0 * seconds
            && (load.bytes as f64) < limits.split_bytes as f64 * share / 2.0 * seconds
    };
    let mut wish = None;
    if loads.len() < limits.max as usize {
        let busiest = loads
            .iter()
            .filter(|load| busy(load))
            .max_by_key(|load| load.bytes);
        wish = busiest.map(|load| Wish::Split(load.shard));
    }
    for load in loads.iter_mut() {
        load.quiet = if quiet(load) { load.quiet + 1 } else { 0 };
        (load.records, load.bytes) = (0, 0);
    }
    if wish.is_none() && loads.len() > limits.initial.max(1) as usize {
        let both = |pair: &&[Load]| pair.iter().all(|load| load.quiet >= QUIET_WINDOWS);
        let pair = loads.windows(2).find(both);
        wish = pair.map(|pair| Wish::Merge(pair[0].shard, pair[1].shard));
    }
    wish
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(shard: u32, records: u64) -> Load {
        Load {
            shard,
            from_hash: u64::from(shard),
            records,
            bytes: records * 100,
            quiet: 0,
        }
    }

    #[test]
    fn a_busy_shard_is_split_until_the_limit() {
        let mut limits = ShardLimits {
            split_records: 10,
            max: 2,
            ..ShardLimits::default()
        };
        let mut one = [load(4, 11 * 60)];
        assert_eq!(judge(&mut one, &limits, 60.0), Some(Wish::Split(4)));
        assert_eq!(
            judge(&mut one, &limits, 60.0),
            None,
            "the window begins empty"
        );
        let mut two = [load(4, 11 * 60), load(5, 0)];
        assert_eq!(judge(&mut two, &limits, 60.0), None);
        limits.max = 3;
        two[1].records = 20 * 60;
        two[1].bytes = u64::MAX;
        assert_eq!(judge(&mut two, &limits, 60.0), Some(Wish::Split(5)));
    }

    #[test]
    fn quiet_neighbours_merge_only_when_that_is_on() {
        let mut limits = ShardLimits::default();
        let mut two = [load(4, 0), load(5, 0)];
        for _ in 0..100 {
            assert_eq!(judge(&mut two, &limits, 60.0), None);
        }
        limits.merge_percent = 10;
        let mut two = [load(4, 0), load(5, 0)];
        let wishes: Vec<_> = (0..15).map(|_| judge(&mut two, &limits, 60.0)).collect();
        assert_eq!(wishes[14], Some(Wish::Merge(4, 5)));
        assert!(wishes[..14].iter().all(Option::is_none));
    }
}
