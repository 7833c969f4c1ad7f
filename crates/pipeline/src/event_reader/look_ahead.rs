//! What a sink wants to know of a transaction before its first event: counted by reading it twice,
//! so that a transaction of any size needs no memory.

use super::{EventSink, OpaqueRecord, ReadError, State};
use change::event::Ahead;
use change::{Event, Position};
use journal::{FrameView, Journal, ReadOptions, TableId};
use std::collections::{BTreeSet, VecDeque};

/// Counts for a sink without giving it anything.
struct Counter<'a, S> {
    sink: &'a S,
    /// What lies before was sent in an earlier life.
    skip_until: u64,
    open: Option<Ahead>,
    whole: VecDeque<Ahead>,
}

impl<S: EventSink> EventSink for Counter<'_, S> {
    type Error = ReadError;

    fn event(&mut self, event: &Event<'_>, _next: u64, _: &Position) -> Result<(), ReadError> {
        let sequence = match event {
            Event::Begin { .. } => {
                // A reader that was opened inside a transaction is given its begin once more.
                self.open.get_or_insert_default();
                return Ok(());
            }
            Event::Commit { sequence, .. } => {
                if let Some(ahead) = self.open.take() {
                    self.whole.push_back(Ahead {
                        commit_sequence: *sequence,
                        ..ahead
                    });
                }
                return Ok(());
            }
            Event::Row(row) => row.sequence,
            Event::Ddl(change) => change.sequence,
        };
        if let Some(ahead) = &mut self.open {
            let operations = self.sink.count(event);
            ahead.operations += operations;
            if sequence < self.skip_until {
                ahead.sent_before += operations;
            }
        }
        Ok(())
    }

    fn opaque(&mut self, _: &OpaqueRecord<'_>, _: u64) -> Result<(), ReadError> {
        Ok(())
    }
}

/// What is to be known of each transaction that begins in `frame`, in order.
pub(super) fn look_ahead<S: EventSink>(
    frame: &FrameView<'_>,
    (state, skip_until): (&State, u64),
    (journal, tables): (&Journal, Option<&BTreeSet<TableId>>),
    sink: &S,
) -> Result<VecDeque<Ahead>, ReadError> {
    let mut state = state.copy_for_counting();
    let mut counter = Counter {
        sink,
        skip_until,
        open: None,
        whole: VecDeque::new(),
    };
    for item in frame.items() {
        state.item(item, 0, &mut counter)?;
    }
    if counter.open.is_none() {
        return Ok(counter.whole);
    }
    // The last transaction goes on past the frame: it is visible, so its commit is there.
    let mut reader = journal.reader(ReadOptions {
        from: frame.next_sequence(),
        tables: tables.cloned(),
    })?;
    while let Some(frame) = reader.next()? {
        for item in frame.items() {
            state.item(item, 0, &mut counter)?;
            if counter.open.is_none() {
                return Ok(counter.whole);
            }
        }
    }
    counter.whole.extend(counter.open.take());
    Ok(counter.whole)
}
