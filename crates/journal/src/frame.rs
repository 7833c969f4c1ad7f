//! One frame in memory: what the writer fills, the seal thread seals, and readers look at.

use std::sync::Arc;

use crate::control::ControlChange;
use crate::id::{KeyGroupId, TableId};
use crate::item::{Commit, RecordDescriptor, TransactionStart};
use crate::seal::SealKey;
use crate::spine::{self, RecordShape};

/// A buffer that grew past this multiple of the frame size gives its memory back.
const SHRINK_FACTOR: usize = 2;

/// The bodies of one key group.
#[derive(Default)]
pub(crate) struct Block {
    pub group: KeyGroupId,
    /// Seals the block; readers have none.
    pub key: Option<Arc<SealKey>>,
    pub bytes: Vec<u8>,
    pub state: BlockState,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum BlockState {
    #[default]
    Open,
    Locked,
    /// Not read, because no record in it was asked for.
    Skipped,
}

/// A frame's content and what its header will say.
#[derive(Default)]
pub(crate) struct Frame {
    pub spine: Vec<u8>,
    blocks: Vec<Block>,
    blocks_used: usize,
    pub base: u64,
    pub next: u64,
    pub visible_end: u64,
    /// The transaction open at the start.
    pub first_in: Option<u64>,
    /// The transaction open at the end.
    pub first_out: Option<u64>,
    pub abort_in: bool,
    pub commits: u32,
    pub time_max: Option<i64>,
    /// Every transaction in it is a snapshot's.
    pub snapshot: bool,
    pub has_control: bool,
    /// The last commit's sequence, position and time.
    pub last_commit: Option<(u64, i64)>,
    pub position: Vec<u8>,
    /// Sorted.
    pub tables: Vec<TableId>,
    /// Control records whose transaction commits in this frame.
    pub controls: Vec<ControlChange>,
    /// Control records of the transaction open at the end, from its start.
    pub pending: Vec<ControlChange>,
    pub spine_key: Option<Arc<SealKey>>,
    pub body_bytes: usize,
    last_shape: Option<RecordShape>,
    last_table: Option<TableId>,
    mark: Mark,
}

/// Where the open transaction begins in this frame.
#[derive(Default)]
struct Mark {
    spine: usize,
    next: u64,
    block_lens: Vec<usize>,
    snapshot: bool,
    has_control: bool,
}

impl Frame {
    /// Empties a used frame.
    pub fn reset(&mut self, base: u64, frame_bytes: usize) {
        clear(&mut self.spine, frame_bytes);
        for block in &mut self.blocks {
            block.key = None;
            clear(&mut block.bytes, frame_bytes);
        }
        self.blocks.truncate(8);
        self.blocks_used = 0;
        (self.base, self.next, self.visible_end) = (base, base, base);
        (self.first_in, self.first_out, self.abort_in) = (None, None, false);
        (self.commits, self.time_max, self.last_commit) = (0, None, None);
        (self.snapshot, self.has_control) = (true, false);
        self.position.clear();
        self.tables.clear();
        self.controls.clear();
        self.pending.clear();
        self.spine_key = None;
        self.body_bytes = 0;
        (self.last_shape, self.last_table) = (None, None);
        self.mark_start();
    }

    pub fn is_empty(&self) -> bool {
        self.spine.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.spine.len() + self.body_bytes
    }

    /// Memory that the buffers hold.
    pub fn capacity(&self) -> usize {
        self.spine.capacity()
            + self
                .blocks
                .iter()
                .map(|block| block.bytes.capacity())
                .sum::<usize>()
    }

    pub fn blocks(&self) -> &[Block] {
        &self.blocks[..self.blocks_used]
    }

    pub fn blocks_mut(&mut self) -> &mut [Block] {
        &mut self.blocks[..self.blocks_used]
    }

    /// Takes a block into use.
    pub fn add_block(&mut self, group: KeyGroupId, key: Option<Arc<SealKey>>) -> usize {
        let index = self.blocks_used;
        if index == self.blocks.len() {
            self.blocks.push(Block::default());
        }
        let block = &mut self.blocks[index];
        block.bytes.clear();
        (block.group, block.key, block.state) = (group, key, BlockState::Open);
        self.blocks_used += 1;
        index
    }

    pub fn block_of(&self, group: KeyGroupId) -> Option<usize> {
        self.blocks().iter().position(|block| block.group == group)
    }

    /// Remembers that a transaction begins here, for `rewind`.
    pub fn mark_start(&mut self) {
        let used = self.blocks_used;
        self.mark.spine = self.spine.len();
        self.mark.next = self.next;
        self.mark.snapshot = self.snapshot;
        self.mark.has_control = self.has_control;
        self.mark.block_lens.clear();
        let lens = self.blocks[..used].iter().map(|block| block.bytes.len());
        self.mark.block_lens.extend(lens);
    }

    /// Takes back everything since `mark_start`.
    pub fn rewind(&mut self) {
        self.spine.truncate(self.mark.spine);
        self.next = self.mark.next;
        (self.snapshot, self.has_control) = (self.mark.snapshot, self.mark.has_control);
        self.blocks_used = self.mark.block_lens.len();
        self.body_bytes = 0;
        for (block, len) in self.blocks.iter_mut().zip(&self.mark.block_lens) {
            block.bytes.truncate(*len);
            self.body_bytes += len;
        }
        (self.last_shape, self.last_table) = (None, None);
    }

    pub fn put_begin(&mut self, start: TransactionStart<'_>, continued: bool) {
        self.snapshot &= start.snapshot;
        spine::put_begin(&mut self.spine, start.header, start.snapshot, continued);
    }

    /// Adds a record whose body goes to `block`.
    pub fn put_record(&mut self, descriptor: &RecordDescriptor, body: &[u8], block: usize) {
        let shape = RecordShape {
            table: descriptor.table,
            schema: descriptor.schema,
            operation: descriptor.operation,
            flags: descriptor.flags,
            block: block as u32,
        };
        let last = self.last_shape.as_ref();
        spine::put_record(&mut self.spine, &shape, last, descriptor, body.len());
        self.last_shape = Some(shape);
        self.blocks[block].bytes.extend_from_slice(body);
        self.body_bytes += body.len();
        self.next += 1;
        if self.last_table != Some(descriptor.table) {
            self.add_table(descriptor.table);
        }
    }

    fn add_table(&mut self, table: TableId) {
        self.last_table = Some(table);
        if let Err(index) = self.tables.binary_search(&table) {
            self.tables.insert(index, table);
        }
    }

    /// Fills `tables` from the spine of a frame that was read.
    pub fn collect_tables(&mut self) {
        let spine = std::mem::take(&mut self.spine);
        for entry in spine::Entries::new(&spine) {
            if let spine::Entry::Record { shape, .. } = entry
                && self.last_table != Some(shape.table)
            {
                self.add_table(shape.table);
            }
        }
        self.spine = spine;
    }

    pub fn put_control(&mut self, key: &[u8], value: Option<&[u8]>) {
        spine::put_control(&mut self.spine, key, value);
        self.has_control = true;
        self.next += 1;
    }

    pub fn put_commit(&mut self, commit: &Commit<'_>) {
        spine::put_commit(&mut self.spine, commit);
        self.last_commit = Some((self.next, commit.time_us));
        self.position.clear();
        self.position.extend_from_slice(commit.position);
        self.time_max = self.time_max.max(Some(commit.time_us));
        self.next += 1;
        self.commits += 1;
    }

    pub fn put_abort(&mut self) {
        spine::put_abort(&mut self.spine);
        self.abort_in = true;
    }
}

fn clear(bytes: &mut Vec<u8>, frame_bytes: usize) {
    bytes.clear();
    if bytes.capacity() > SHRINK_FACTOR * frame_bytes {
        *bytes = Vec::new();
    }
}
