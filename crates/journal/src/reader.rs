//! Reading in journal order.

use std::collections::BTreeSet;
use std::marker::PhantomData;

use crate::Result;
use crate::control::ControlState;
use crate::error::{Error, ErrorKind};
use crate::id::{Sequence, TableId};
use crate::item::Item;

/// Where a reader starts and what it reads.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// The first sequence to show.
    pub from: Sequence,
    /// Only records of these tables; transactions without any are left out, control records never are.
    pub tables: Option<BTreeSet<TableId>>,
}

impl From<Sequence> for ReadOptions {
    fn from(from: Sequence) -> Self {
        ReadOptions { from, tables: None }
    }
}

/// Reads frames in order.
pub struct Reader {}

impl Reader {
    /// The next frame that holds something to show; `None` when there is no more up to `Journal::end()`.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<FrameView<'_>>> {
        Err(Error::new(ErrorKind::Internal, "read", "being built"))
    }

    /// The control state as of the sequence this reader started at (or was moved to by [`Item::Retired`]).
    pub fn control(&self) -> &ControlState {
        unreachable!("no reader can be opened yet")
    }

    /// The first sequence that no returned frame covers.
    pub fn position(&self) -> Sequence {
        Sequence(0)
    }

    /// Bytes this reader has taken from disk.
    pub fn bytes_read(&self) -> u64 {
        0
    }
}

/// One frame as a reader sees it.
pub struct FrameView<'a> {
    _a: PhantomData<&'a ()>,
}

impl<'a> FrameView<'a> {
    /// What the frame shows, in order. May be called again.
    pub fn items(&self) -> Items<'a> {
        Items { _a: PhantomData }
    }

    /// The first sequence after this frame: where to go on once all of it is done.
    pub fn next_sequence(&self) -> Sequence {
        Sequence(0)
    }
}

/// The items of one frame.
pub struct Items<'a> {
    _a: PhantomData<&'a ()>,
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        None
    }
}
