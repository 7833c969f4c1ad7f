//! What leaves, and what has to stay.
//!
//! By age: segments older than `retention` and behind every cursor, oldest first; snapshot segments as soon as every
//! cursor has passed them. At `disk_max`, in this order: passed segments that no hold still owes; then cursors that may
//! be detached; then nothing more is taken. Segments that one transaction runs through leave together.

use std::time::Duration;

use crate::Result;
use crate::cursor::{LostRange, OnFull};
use crate::error::Error;
use crate::id::Sequence;
use crate::segment;
use crate::state::{SegmentInfo, Shared, State};
use crate::usage::Retained;

/// The cursors file is written at most this often.
const CURSOR_STORE_INTERVAL: Duration = Duration::from_secs(1);

/// Lets go of what may go.
pub(crate) fn retain(shared: &Shared) -> Result<Retained> {
    let mut retained = Retained::default();
    if !shared.holds_lock() {
        return Ok(retained);
    }
    store_cursors(shared)?;
    let victims = {
        let mut state = shared.state();
        let plan = Plan::make(shared, &mut state);
        for victim in &plan.victims {
            state.segments.remove(&victim.number);
            state.indexes.remove(&victim.number);
        }
        let first = state.first();
        state.aborted.retain(|(_, end)| *end > first);
        let detached = plan.detached.into_iter();
        retained.detached = detached
            .map(|(name, from)| {
                (
                    name,
                    LostRange {
                        from,
                        to: Sequence(first),
                    },
                )
            })
            .collect();
        shared.publish(&state, shared.end());
        shared.update_capacity(&state);
        plan.victims
    };
    if !retained.detached.is_empty() {
        store_cursors(shared)?;
    }
    let options = &shared.options;
    for victim in &victims {
        segment::unlink(&*options.fs, &options.dir, victim.number)?;
        // One by one, so that a crash leaves no hole that looks like a lost segment.
        let fail = |source| Error::io("sync directory", &options.dir, source);
        options.fs.sync_dir(&options.dir).map_err(fail)?;
        retained.segments += 1;
        retained.bytes += victim.len;
    }
    Ok(retained)
}

struct Plan {
    victims: Vec<SegmentInfo>,
    detached: Vec<(String, Sequence)>,
}

impl Plan {
    fn make(shared: &Shared, state: &mut State) -> Plan {
        let mut plan = Plan {
            victims: Vec::new(),
            detached: Vec::new(),
        };
        let mut groups = groups(state);
        plan.by_age(shared, state, &mut groups);
        if let Some(disk_max) = shared.options.disk_max {
            plan.by_size(shared, (state, shared.full_at(disk_max)), groups);
        }
        plan.victims.sort_unstable_by_key(|victim| victim.number);
        plan
    }

    fn by_age(&mut self, shared: &Shared, state: &State, groups: &mut Vec<Vec<SegmentInfo>>) {
        let options = &shared.options;
        let oldest = options
            .clock
            .now_us()
            .saturating_sub(options.retention.as_micros() as i64);
        let mut in_prefix = true;
        groups.retain(|group| {
            let free = is_passed(state, group) && !is_owed(shared, state, group);
            let aged = group.iter().all(|segment| segment.written_us <= oldest);
            let snapshot = group.iter().all(|segment| segment.snapshot);
            in_prefix &= free && aged;
            let leaves = in_prefix || (free && snapshot && state.cursors.hold().is_some());
            if leaves {
                self.victims.extend(group);
            }
            !leaves
        });
    }

    fn by_size(
        &mut self,
        shared: &Shared,
        (state, full_at): (&mut State, u64),
        groups: Vec<Vec<SegmentInfo>>,
    ) {
        let gone: u64 = self.victims.iter().map(|victim| victim.len).sum();
        let mut bytes = state.bytes() + shared.spooled() - gone;
        for group in groups {
            if bytes < full_at || is_owed(shared, state, &group) {
                break;
            }
            if !is_passed(state, &group) && !self.detach(state, &group) {
                break;
            }
            bytes -= group.iter().map(|segment| segment.len).sum::<u64>();
            self.victims.extend(group);
        }
    }

    /// Detaches what holds `group`, if all of it may be detached.
    fn detach(&mut self, state: &mut State, group: &[SegmentInfo]) -> bool {
        let end = group.last().map_or(0, |segment| segment.end);
        let holders = || {
            let held = state.cursors.entries.iter();
            held.filter(|(_, held)| !held.detached && held.cursor.sequence.0 < end)
        };
        if holders().any(|(_, held)| held.cursor.on_full == OnFull::Pause) {
            return false;
        }
        let names: Vec<String> = holders().map(|(name, _)| name.clone()).collect();
        for name in names {
            if let Some(held) = state.cursors.entries.get_mut(&name) {
                held.detached = true;
                self.detached.push((name, held.cursor.sequence));
            }
        }
        state.cursors.dirty = true;
        true
    }
}

/// Ended segments, those that one transaction runs through together, without what runs into the live one.
fn groups(state: &State) -> Vec<Vec<SegmentInfo>> {
    let mut groups: Vec<Vec<SegmentInfo>> = Vec::new();
    for segment in state.segments.values() {
        match groups.last_mut() {
            Some(group) if segment.inside => group.push(*segment),
            _ => groups.push(vec![*segment]),
        }
    }
    let live = state.live;
    groups.retain(|group| group.iter().all(|segment| Some(segment.number) != live));
    groups
}

/// Bytes that `disk_max` cannot make leave: the segment being written, what a cursor needs, what a hold owes.
pub(crate) fn held_bytes(shared: &Shared, state: &State) -> u64 {
    let held = |segment: &&SegmentInfo| {
        let group = std::slice::from_ref(*segment);
        let live = state.live == Some(segment.number);
        live || !is_passed(state, group) || is_owed(shared, state, group)
    };
    state
        .segments
        .values()
        .filter(held)
        .map(|segment| segment.len)
        .sum()
}

fn is_passed(state: &State, group: &[SegmentInfo]) -> bool {
    let hold = state.cursors.hold().unwrap_or(u64::MAX);
    group.iter().all(|segment| segment.end <= hold)
}

fn is_owed(shared: &Shared, state: &State, group: &[SegmentInfo]) -> bool {
    let now = shared.options.clock.now_us();
    let longest = state.holds.values().max();
    longest.is_some_and(|age| group.iter().any(|segment| segment.written_us > now - age))
}

/// Writes the cursors file if something changed.
pub(crate) fn store_cursors(shared: &Shared) -> Result<()> {
    // Taken before the cursors are looked at: what is written last is the newest.
    let _turn = crate::state::locked(&shared.cursors_file);
    let bytes = {
        let mut state = shared.state();
        if !state.cursors.dirty || !shared.holds_lock() {
            return Ok(());
        }
        state.cursors.dirty = false;
        state.cursors.stored_at = Some(shared.options.clock.monotonic());
        state.cursors.encode(shared.id)
    };
    let (fs, dir) = (&shared.options.fs, &shared.options.dir);
    let (fresh, path) = (dir.join("cursors.new"), dir.join("cursors"));
    let write = || {
        let file = fs.create(&fresh)?;
        file.write_at(0, &bytes)?;
        file.sync_data()?;
        fs.rename(&fresh, &path)?;
        fs.sync_dir(dir)
    };
    write().map_err(|source| {
        shared.state().cursors.dirty = true;
        Error::io("store cursors", &path, source)
    })
}

/// Writes the cursors file unless that was done less than a second ago.
pub(crate) fn store_cursors_soon(shared: &Shared) -> Result<()> {
    let now = shared.options.clock.monotonic();
    let stored_at = shared.state().cursors.stored_at;
    match stored_at {
        Some(at) if now.saturating_sub(at) < CURSOR_STORE_INTERVAL => Ok(()),
        _ => store_cursors(shared),
    }
}
