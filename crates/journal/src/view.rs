//! One frame as a reader sees it: what is hidden, what is asked for, in items.

use std::collections::BTreeSet;

use crate::frame::{Block, BlockState, Frame};
use crate::id::{Sequence, TableId};
use crate::item::{Body, Item, RecordDescriptor};
use crate::spine::{Entries, Entry, RecordShape};

/// Frames with more blocks than this cost one allocation each.
const BLOCKS_INLINE: usize = 8;

/// What of a frame is shown.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    /// First sequence to show.
    pub from: u64,
    /// First sequence that is hidden.
    pub limit: u64,
    pub tables: Option<&'a BTreeSet<TableId>>,
    /// Whether the begin of the transaction open at the start was shown.
    pub inside: bool,
}

impl Scope<'_> {
    pub fn wants(&self, table: TableId) -> bool {
        self.tables.is_none_or(|tables| tables.contains(&table))
    }
}

/// One frame as a reader sees it.
pub struct FrameView<'a> {
    pub(crate) content: Content<'a>,
    pub(crate) next: u64,
    pub(crate) written_us: i64,
}

#[derive(Clone, Copy)]
pub(crate) enum Content<'a> {
    Frame(&'a Frame, Scope<'a>),
    Retired(Sequence),
}

impl<'a> FrameView<'a> {
    /// What the frame shows, in order. May be called again.
    pub fn items(&self) -> Items<'a> {
        match self.content {
            Content::Frame(frame, scope) => Items::new(frame, scope),
            Content::Retired(sequence) => Items {
                pushed: Some(Item::Retired { sequence }),
                ..Items::new(
                    &EMPTY,
                    Scope {
                        from: 0,
                        limit: 0,
                        tables: None,
                        inside: false,
                    },
                )
            },
        }
    }

    /// When the frame was written, by the journal's clock, microseconds since 1970; 0 where there is no frame.
    pub fn written_us(&self) -> i64 {
        match self.content {
            Content::Frame(..) => self.written_us,
            Content::Retired(_) => 0,
        }
    }

    /// The first sequence after this frame: where to go on once all of it is done.
    pub fn next_sequence(&self) -> Sequence {
        Sequence(self.next)
    }
}

static EMPTY: std::sync::LazyLock<Frame> = std::sync::LazyLock::new(Frame::default);

/// The items of one frame.
pub struct Items<'a> {
    frame: &'a Frame,
    scope: Scope<'a>,
    entries: Entries<'a>,
    sequence: u64,
    offsets: Offsets,
    /// A begin that is shown once something of its transaction is.
    held: Option<Item<'a>>,
    pushed: Option<Item<'a>>,
    pub(crate) inside: bool,
}

impl<'a> Items<'a> {
    pub(crate) fn new(frame: &'a Frame, scope: Scope<'a>) -> Self {
        Items {
            frame,
            scope,
            entries: Entries::new(&frame.spine),
            sequence: frame.base,
            offsets: Offsets::new(frame.blocks().len()),
            held: None,
            pushed: None,
            inside: scope.inside,
        }
    }

    /// Shows `item`, after its begin if that has not been shown.
    fn show(&mut self, item: Item<'a>) -> Item<'a> {
        match self.held.take() {
            Some(begin) => {
                self.inside = true;
                self.pushed = Some(item);
                begin
            }
            None => item,
        }
    }

    fn record(&mut self, shape: &RecordShape, key_token: u64, len: usize) -> Option<Item<'a>> {
        let sequence = Sequence(self.sequence);
        let block = shape.block as usize;
        let start = self.offsets.advance(block, len);
        if sequence.0 < self.scope.from || !self.scope.wants(shape.table) {
            return None;
        }
        let block = self.frame.blocks().get(block)?;
        let descriptor = RecordDescriptor {
            table: shape.table,
            schema: shape.schema,
            operation: shape.operation,
            flags: shape.flags,
            key_token,
            key_group: block.group,
        };
        let body = body(block, start, len);
        Some(Item::Record {
            sequence,
            descriptor,
            body,
        })
    }

    /// What `entry` shows, if anything.
    fn item(&mut self, entry: Entry<'a>) -> Option<Item<'a>> {
        let sequence = Sequence(self.sequence);
        let shown = sequence.0 >= self.scope.from;
        match entry {
            Entry::Begin {
                header,
                snapshot,
                continued,
            } => {
                if !(continued && self.inside) {
                    self.inside = false;
                    self.held = Some(Item::Begin { header, snapshot });
                }
                None
            }
            Entry::Record {
                shape,
                key_token,
                len,
            } => {
                let item = self.record(&shape, key_token, len)?;
                Some(self.show(item))
            }
            Entry::Control { key, value } => shown.then(|| {
                self.show(Item::Control {
                    sequence,
                    key,
                    value,
                })
            }),
            Entry::Commit(commit) => {
                let untouched = self.held.is_some() && self.scope.tables.is_some();
                if !shown || untouched {
                    self.held = None;
                    self.inside = false;
                    return None;
                }
                let item = self.show(Item::Commit {
                    sequence,
                    trailer: commit.trailer,
                    position: commit.position,
                    time_us: commit.time_us,
                    rows: commit.rows,
                });
                self.inside = false;
                Some(item)
            }
            _ => None,
        }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        if let Some(item) = self.pushed.take() {
            return Some(item);
        }
        while self.sequence < self.scope.limit {
            let entry = self.entries.next()?;
            let item = self.item(entry);
            self.sequence += entry.sequences();
            if item.is_some() {
                return item;
            }
        }
        None
    }
}

fn body<'a>(block: &'a Block, start: usize, len: usize) -> Body<'a> {
    match block.state {
        BlockState::Open => Body::Bytes(block.bytes.get(start..start + len).unwrap_or_default()),
        BlockState::Locked => Body::Locked(block.group),
        BlockState::Skipped => Body::Bytes(&[]),
    }
}

/// How far each block has been read.
struct Offsets {
    inline: [usize; BLOCKS_INLINE],
    more: Vec<usize>,
}

impl Offsets {
    fn new(blocks: usize) -> Self {
        Offsets {
            inline: [0; BLOCKS_INLINE],
            more: vec![0; blocks.saturating_sub(BLOCKS_INLINE)],
        }
    }

    fn advance(&mut self, block: usize, len: usize) -> usize {
        let offset = match block.checked_sub(BLOCKS_INLINE) {
            None => self.inline.get_mut(block),
            Some(block) => self.more.get_mut(block),
        };
        offset.map_or(0, |offset| std::mem::replace(offset, *offset + len))
    }
}
