//! What one read returns: pieces of frames, kept alive together, from which records are borrowed.

use crate::columns::Layout;
use crate::record::{Origin, RecordOperation, RecordView, ViewType};
use change::batch::RowBody;
use journal::Sequence;
use std::ops::Range;
use std::sync::Arc;

/// One record of a piece: where its body lies, and what is not in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub sequence: u64,
    pub created_us: i64,
    /// 0 when the source does not tell.
    pub write_us: i64,
    pub start: u32,
    pub len: u32,
    pub layout: u32,
    pub operation: RecordOperation,
    pub origin: Origin,
    pub is_static: bool,
}

/// What one shard has of one frame.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    pub bodies: Vec<u8>,
    pub slots: Vec<Slot>,
    pub layouts: Vec<Arc<Layout>>,
}

/// The records of one read, in order.
#[derive(Debug, Clone)]
pub struct Page {
    pub(crate) pieces: Vec<(Arc<Piece>, Range<usize>)>,
    pub(crate) view: ViewType,
    pub(crate) keys_in_images: bool,
    /// Where the next read goes on; none when the shard is closed and has been read to its end.
    pub next: Option<Sequence>,
    /// Whether there is nothing more to read now.
    pub at_tip: bool,
    /// Stored bytes of the records.
    pub byte_count: u64,
}

impl Page {
    pub(crate) fn empty(view: ViewType, keys_in_images: bool) -> Self {
        Self {
            pieces: Vec::new(),
            view,
            keys_in_images,
            next: None,
            at_tip: true,
            byte_count: 0,
        }
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(|(_, range)| range.len()).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pieces.iter().all(|(_, range)| range.is_empty())
    }

    /// The records in order.
    pub fn records(&self) -> impl Iterator<Item = RecordView<'_>> {
        self.pieces
            .iter()
            .flat_map(|(piece, range)| {
                piece.slots[range.clone()]
                    .iter()
                    .map(move |slot| (piece, slot))
            })
            .map(|(piece, slot)| self.view(piece, slot))
    }

    fn view<'a>(&self, piece: &'a Piece, slot: &Slot) -> RecordView<'a> {
        let bytes = &piece.bodies[slot.start as usize..slot.start as usize + slot.len as usize];
        let body = RowBody::read(bytes).expect("bodies are checked when the page is made");
        RecordView {
            sequence: Sequence(slot.sequence),
            created_us: slot.created_us,
            write_time_us: (slot.write_us != 0).then_some(slot.write_us),
            origin: slot.origin,
            operation: slot.operation,
            view: self.view,
            keys_in_images: self.keys_in_images,
            is_static: slot.is_static,
            layout: &piece.layouts[slot.layout as usize],
            before: body.before,
            after: body.after,
        }
    }
}
