//! Reading in journal order.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::Result;
use crate::checkpoint::{self, Fold};
use crate::control::ControlState;
use crate::error::{Error, ErrorKind};
use crate::format::{FrameHeader, flag};
use crate::frame::Frame;
use crate::id::{Sequence, TableId};
use crate::segment::SegmentReader;
use crate::spine::{Entries, Entry};
use crate::state::{SegmentInfo, Shared, State};
use crate::tail::TailFrame;
use crate::view::{Content, FrameView, Items, Scope};

/// Taken from disk at once by a reader of everything, so that small frames do not cost a call each.
const READ_AHEAD_BYTES: usize = 64 << 10;
/// Taken at once by a reader of some tables: about a header, a directory and a small spine.
const READ_AHEAD_FILTERED_BYTES: usize = 8 << 10;

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

/// Reads frames in order, from memory while it follows closely, else from disk.
///
/// A transaction may run over many frames: its begin is shown once, before the first item that is, and its commit last.
/// Starting inside a transaction shows its begin and then what is left of it.
pub struct Reader {
    shared: Arc<Shared>,
    tables: Option<BTreeSet<TableId>>,
    control: ControlState,
    keeps_control: bool,
    position: u64,
    inside: bool,
    place: Option<Place>,
    frame: Frame,
    tail: Option<Arc<TailFrame>>,
    header: FrameHeader,
    shown: Shown,
    bytes_read: u64,
}

/// The frame on disk that holds the sequence `next`.
struct Place {
    segment: SegmentReader,
    offset: u64,
    next: u64,
}

/// What the next step shows.
enum Step {
    Frame {
        limit: u64,
        inside: bool,
    },
    Retired(Sequence),
    /// Nothing in this frame; look at the next.
    Again,
    End,
}

/// What `advance` moved to.
enum Shown {
    Frame { from: u64, limit: u64, inside: bool },
    Retired(Sequence),
}

/// The visible part of a frame, and where reading goes on after it.
struct Visible {
    limit: u64,
    next: u64,
}

impl Reader {
    pub(crate) fn open(shared: Arc<Shared>, options: ReadOptions) -> Result<Reader> {
        let control = control_at(&shared, options.from.0)?;
        Ok(Self::with_control(shared, options, Some(control)))
    }

    /// Opens without looking for the control state, which stays empty.
    pub(crate) fn open_for_records(shared: Arc<Shared>, options: ReadOptions) -> Result<Reader> {
        let from = options.from.0;
        let (first, end) = (shared.state().first(), shared.end());
        if from < first {
            return Err(aged_out(from));
        }
        if from > end {
            let detail = format!("the journal ends at {}", Sequence(end));
            return Err(Error::new(ErrorKind::Invalid, "read journal", detail).at(options.from));
        }
        Ok(Self::with_control(shared, options, None))
    }

    fn with_control(
        shared: Arc<Shared>,
        options: ReadOptions,
        control: Option<ControlState>,
    ) -> Reader {
        let from = options.from.0;
        Reader {
            shared,
            keeps_control: control.is_some(),
            tables: options.tables,
            control: control.unwrap_or_default(),
            position: from,
            inside: false,
            place: None,
            frame: Frame::default(),
            tail: None,
            header: FrameHeader::default(),
            shown: Shown::Retired(options.from),
            bytes_read: 0,
        }
    }

    /// The next frame that holds something to show; `None` when there is no more up to `Journal::end()`.
    ///
    /// Errors: `Corrupt` with file and offset where bytes are damaged; `Invalid` when what comes next has aged out;
    /// `Unavailable` when the default key cannot be had.
    #[expect(
        clippy::should_implement_trait,
        reason = "the view borrows the reader's buffers"
    )]
    pub fn next(&mut self) -> Result<Option<FrameView<'_>>> {
        Ok(self.advance()?.then(|| self.view()))
    }

    /// Moves to the next frame that holds something to show.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        loop {
            let from = self.position;
            self.shown = match self.step()? {
                Step::Again => continue,
                Step::End => return Ok(false),
                Step::Retired(sequence) => Shown::Retired(sequence),
                Step::Frame { limit, inside } => Shown::Frame {
                    from,
                    limit,
                    inside,
                },
            };
            return Ok(true);
        }
    }

    /// What `advance` moved to.
    pub(crate) fn view(&self) -> FrameView<'_> {
        let content = match self.shown {
            Shown::Retired(sequence) => Content::Retired(sequence),
            Shown::Frame {
                from,
                limit,
                inside,
            } => {
                let scope = Scope {
                    from,
                    limit,
                    tables: self.tables.as_ref(),
                    inside,
                };
                Content::Frame(self.at_hand(), scope)
            }
        };
        FrameView {
            content,
            next: self.position,
            written_us: self.header.written_us,
        }
    }

    /// The header of the frame that `advance` moved to.
    pub(crate) fn frame_header(&self) -> &FrameHeader {
        &self.header
    }

    fn at_hand(&self) -> &Frame {
        self.tail.as_ref().map_or(&self.frame, |tail| &tail.frame)
    }

    /// The control state as of the sequence this reader started at (or was moved to by [`crate::Item::Retired`]).
    pub fn control(&self) -> &ControlState {
        &self.control
    }

    /// The first sequence that no returned frame covers.
    pub fn position(&self) -> Sequence {
        Sequence(self.position)
    }

    /// Bytes this reader has taken from disk.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
            + self
                .place
                .as_ref()
                .map_or(0, |place| place.segment.bytes_read)
    }

    fn step(&mut self) -> Result<Step> {
        let end = self.shared.end();
        if self.position >= end {
            return Ok(Step::End);
        }
        self.tail = self.shared.state().tail.find(self.position);
        if let Some(tail) = &self.tail {
            let header = tail.header;
            return Ok(self.show(&header, end));
        }
        self.disk(end)
    }

    /// Which part of a frame may be seen.
    fn visible(&self, header: &FrameHeader, end: u64) -> Visible {
        if header.has(flag::OPEN_OUT) && self.shared.state().is_aborted(header.first_out) {
            let limit = header.first_out.max(header.base).min(end);
            return Visible {
                limit,
                next: header.next.min(end),
            };
        }
        let limit = header.next.min(end);
        Visible { limit, next: limit }
    }

    /// Moves past the frame at hand and says what of it to show.
    fn show(&mut self, header: &FrameHeader, end: u64) -> Step {
        let Visible { limit, next } = self.visible(header, end);
        let from = self.position;
        self.position = next.max(from);
        let inside = self.inside;
        self.header = *header;
        let shows = match &self.tables {
            None => {
                self.inside = header.has(flag::OPEN_OUT) && header.first_out < limit;
                limit > from
            }
            Some(tables) => {
                if self
                    .tail
                    .as_ref()
                    .is_some_and(|tail| tail.lacks(tables, inside))
                {
                    return Step::Again;
                }
                let scope = Scope {
                    from,
                    limit,
                    tables: Some(tables),
                    inside,
                };
                let mut items = Items::new(self.at_hand(), scope);
                let shows = items.by_ref().count() > 0;
                self.inside = items.inside;
                shows
            }
        };
        match shows {
            true => Step::Frame { limit, inside },
            false => Step::Again,
        }
    }

    fn disk(&mut self, end: u64) -> Result<Step> {
        let hint = self.place.as_ref().map(|place| place.segment.number);
        let found = self.shared.state().segment_of(self.position, hint);
        let Some(info) = found else {
            return Ok(Step::End);
        };
        if info.base > self.position {
            return self.skip_gap(&info, end);
        }
        self.locate(&info)?;
        if !self.jump(&info)? {
            self.position = info.end.min(end).max(self.position);
            return Ok(Step::Again);
        }
        let Some(place) = &mut self.place else {
            return Ok(Step::End);
        };
        if place.offset >= info.len {
            return Ok(Step::End);
        }
        let header = place.segment.frame_header(place.offset)?;
        self.read(&header, end)
    }

    /// Segments before `info` are gone.
    fn skip_gap(&mut self, info: &SegmentInfo, end: u64) -> Result<Step> {
        if self.position < self.shared.state().first() || info.base > end {
            return Err(aged_out(self.position));
        }
        if self.keeps_control {
            self.control = control_at(&self.shared, info.base)?;
        }
        self.position = info.base;
        self.inside = false;
        Ok(Step::Retired(Sequence(info.base)))
    }

    fn read_ahead(&self) -> usize {
        match self.tables {
            None => READ_AHEAD_BYTES,
            Some(_) => READ_AHEAD_FILTERED_BYTES,
        }
    }

    /// Finds the frame that holds the position, unless the last step left off right there.
    fn locate(&mut self, info: &SegmentInfo) -> Result<()> {
        if let Some(place) = &mut self.place
            && place.segment.number == info.number
            && place.next == self.position
        {
            place.segment.limit = info.len;
            return Ok(());
        }
        if let Some(left) = self.place.take() {
            self.bytes_read += left.segment.bytes_read;
        }
        let position = self.position;
        let segment = self
            .shared
            .open_segment(info, self.read_ahead())
            .map_err(|error| {
                let gone = !self.shared.state().segments.contains_key(&info.number);
                if gone { aged_out(position) } else { error }
            })?;
        let found = self.shared.with_index(info, |index| {
            let granule = index.granule_of(position).map(|at| index.granules()[at]);
            granule.map(|granule| (granule.offset, granule.base, index.keys().to_vec()))
        })?;
        let Some((offset, next, keys)) = found else {
            return Err(
                Error::new(ErrorKind::Internal, "find frame", "the index lacks it")
                    .at(Sequence(position)),
            );
        };
        let mut place = Place {
            segment,
            offset,
            next,
        };
        place.segment.learn_keys(&keys, offset)?;
        while place.offset < info.len {
            let header = place.segment.frame_header(place.offset)?;
            if header.next > position {
                break;
            }
            place.segment.pass(place.offset, &header)?;
            place.offset += u64::from(header.len);
            place.next = header.next;
        }
        self.place = Some(place);
        Ok(())
    }

    /// At the start of a stretch that holds nothing asked for: goes to the next that does. `false` when there is none in
    /// this segment.
    fn jump(&mut self, info: &SegmentInfo) -> Result<bool> {
        let (Some(tables), Some(place)) = (&self.tables, &mut self.place) else {
            return Ok(true);
        };
        let (offset, inside) = (place.offset, self.inside);
        let target = self.shared.with_index(info, |index| {
            let Some(here) = index.granule_at(offset) else {
                return Some(None);
            };
            let wanted = index.next_wanted(here, tables, inside)?;
            let target = (wanted != here).then(|| index.granules()[wanted]);
            Some(target.map(|granule| (granule, index.keys().to_vec())))
        })?;
        match target {
            None => Ok(false),
            Some(None) => Ok(true),
            Some(Some((granule, keys))) => {
                place.segment.learn_keys(&keys, granule.offset)?;
                place.offset = granule.offset;
                place.next = granule.base;
                self.position = self.position.max(granule.base);
                Ok(true)
            }
        }
    }

    /// Reads as much as is needed of the frame at hand, and moves past it.
    fn read(&mut self, header: &FrameHeader, end: u64) -> Result<Step> {
        let Some(place) = &mut self.place else {
            return Ok(Step::End);
        };
        let offset = place.offset;
        let hidden = {
            let state = self.shared.state();
            is_hidden(&state, header)
        };
        if !hidden {
            read_frame(place, header, self.tables.as_ref(), &mut self.frame)?;
        }
        // A frame that ends in an open transaction is looked at again when more of it can be seen.
        let step = if hidden {
            place.segment.pass(offset, header)?;
            self.position = header.next.min(end).max(self.position);
            Step::Again
        } else {
            self.show(header, end)
        };
        if let Some(place) = &mut self.place {
            place.next = self.position;
            if self.position >= header.next {
                place.offset = offset + u64::from(header.len);
            }
        }
        Ok(step)
    }
}

/// Whether nothing of a frame can ever be seen: its whole content belongs to an aborted transaction.
fn is_hidden(state: &State, header: &FrameHeader) -> bool {
    let nothing = header.next == header.base;
    let piece = header.has(flag::OPEN_OUT) && header.first_out <= header.base;
    nothing || (piece && state.is_aborted(header.first_out))
}

fn read_frame(
    place: &mut Place,
    header: &FrameHeader,
    tables: Option<&BTreeSet<TableId>>,
    frame: &mut Frame,
) -> Result<()> {
    let Some(tables) = tables else {
        return place.segment.whole(place.offset, header, frame);
    };
    place.segment.spine(place.offset, header, frame)?;
    let mut wanted = vec![false; frame.blocks().len()];
    for entry in Entries::new(&frame.spine) {
        if let Entry::Record { shape, .. } = entry
            && tables.contains(&shape.table)
            && let Some(block) = wanted.get_mut(shape.block as usize)
        {
            *block = true;
        }
    }
    place
        .segment
        .read_blocks(place.offset, header, frame, |block| wanted[block])
}

fn aged_out(position: u64) -> Error {
    Error::new(
        ErrorKind::Invalid,
        "read journal",
        "the sequence has aged out",
    )
    .at(Sequence(position))
    .hint("start at the oldest retained sequence, and copy again what is missing")
}

/// The control state as of `from`.
pub(crate) fn control_at(shared: &Shared, from: u64) -> Result<ControlState> {
    let info = {
        let state = shared.state();
        let end = shared.end();
        if from == end {
            return Ok(state.control.clone());
        }
        if from < state.first() {
            return Err(aged_out(from));
        }
        if from > end {
            let detail = format!("the journal ends at {}", Sequence(end));
            return Err(Error::new(ErrorKind::Invalid, "read journal", detail).at(Sequence(from)));
        }
        let Some(info) = state.segment_of(from, None) else {
            return Ok(state.control.clone());
        };
        info
    };
    let mut segment = shared.open_segment(&info, READ_AHEAD_BYTES)?;
    let (mut checkpoint, _) = checkpoint::read(&mut segment)?;
    let is_aborted = |sequence: u64| shared.state().is_aborted(sequence);
    let fold = Fold {
        upto: from,
        is_aborted: &is_aborted,
    };
    fold.pending(&mut checkpoint);
    let (stretches, keys) = shared.with_index(&info, |index| {
        let mut stretches = Vec::new();
        let mut at = 0;
        while let Some(granule) = index.next_control(at) {
            let start = index.granules()[granule];
            if start.base >= from {
                break;
            }
            let end = index
                .granules()
                .get(granule + 1)
                .map_or(info.len, |next| next.offset);
            stretches.push((start.offset, end));
            at = granule + 1;
        }
        (stretches, index.keys().to_vec())
    })?;
    for stretch in stretches {
        segment.learn_keys(&keys, stretch.0)?;
        fold.frames(&mut segment, stretch, &mut checkpoint.control)?;
    }
    Ok(checkpoint.control)
}
