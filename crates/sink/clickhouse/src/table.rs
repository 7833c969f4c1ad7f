//! One table of the target: its structure, and the rows that wait for the next flush.

use crate::encode::{Misfit, put_text, put_varint};
use crate::layout::TableLayout;
use crate::names::Names;
use crate::state::TableNote;
use change::{Cell, Image};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Rows in RowBinary, all of one insert.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub data: Vec<u8>,
    pub count: u64,
    /// First and last sequence in it.
    pub first: u64,
    pub last: u64,
}

impl Rows {
    fn add(&mut self, sequence: u64) {
        if self.count == 0 {
            self.first = sequence;
        }
        self.last = sequence;
        self.count += 1;
    }

    fn mark(&self) -> RowsMark {
        RowsMark {
            bytes: self.data.len(),
            count: self.count,
            last: self.last,
        }
    }

    fn take_back(&mut self, mark: RowsMark) {
        self.data.truncate(mark.bytes);
        (self.count, self.last) = (mark.count, mark.last);
    }

    pub(crate) fn clear(&mut self) {
        self.data.clear();
        self.data.shrink_to(64 << 20);
        self.count = 0;
    }
}

/// What a row needs that only the target knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A deleted row: the version that it had, where it is known.
    RowVersion,
    /// A cancel row: the version of what it cancels; without one it is left out.
    Cancelled,
    /// A row of a table without a key comes: its occurrence.
    Comes,
    /// A row of a table without a key goes: the last occurrence; without one it is left out.
    Goes,
}

/// A row in write order, for what is filled in at the flush.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    pub wanted: Wanted,
    /// Hash of its key, or of the whole row.
    pub token: u128,
    pub version: u64,
    /// Where its bytes begin and end.
    pub start: usize,
    pub end: usize,
    /// Where the number goes.
    pub at: usize,
    /// Where its key lies in `Table::keys`.
    pub key: (usize, usize),
}

/// What is written of one row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowPart<'a> {
    pub image: Image<'a>,
    /// Where cells that the image lacks are looked for.
    pub also: Option<Image<'a>>,
    pub token: u64,
    pub sequence: u64,
}

/// A column that refused a value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refusal {
    pub column: usize,
    pub misfit: Misfit,
}

/// How long after its last fold, and how much waits.
#[derive(Debug, Default)]
pub(crate) struct FoldStanding {
    /// A fold is running or waiting for its turn.
    pub is_running: bool,
    /// Epochs up to this are in the base.
    pub folded: u64,
    pub last_end: Option<Instant>,
    pub last_took_ms: u64,
    pub folds: u64,
    /// The last trouble; empty for none.
    pub trouble: String,
}

/// Changes of one epoch that are flushed and not folded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    pub epoch: u64,
    pub rows: u64,
    /// When the first was flushed.
    pub since: Instant,
    /// When it was committed in the source, microseconds since the epoch.
    pub commit_us: u64,
}

/// One table.
pub(crate) struct Table {
    /// `database.table` of the source.
    pub source: String,
    pub names: Names,
    pub layout: Arc<TableLayout>,
    pub note: TableNote,
    pub epoch: u64,
    /// For the delta, or in mode `sign_version` for the table.
    pub rows: Rows,
    /// For the base, while the table is copied for the first time.
    pub load: Rows,
    pub waiting: Vec<Waiting>,
    /// Token and version of rows that live, for those that wait.
    pub told: Vec<(u64, u64)>,
    /// Keys that have to be looked up, in RowBinary.
    pub keys: Vec<u8>,
    /// Changes flushed and not folded, by epoch.
    pub pending: Vec<Pending>,
    /// Commit time of the oldest row in `rows`.
    pub oldest_us: Option<u64>,
    pub fold: Arc<Mutex<FoldStanding>>,
    /// Held from the clone of the base to its exchange: nothing may go into the base then.
    pub base_lock: Arc<Mutex<()>>,
}

impl Table {
    pub(crate) fn new(
        source: String,
        names: Names,
        layout: TableLayout,
        note: TableNote,
        (folded, epoch): (u64, u64),
    ) -> Self {
        let fold = FoldStanding {
            folded,
            ..FoldStanding::default()
        };
        Self {
            source,
            names,
            layout: Arc::new(layout),
            note,
            epoch,
            rows: Rows::default(),
            load: Rows::default(),
            waiting: Vec::new(),
            told: Vec::new(),
            keys: Vec::new(),
            pending: Vec::new(),
            oldest_us: None,
            fold: Arc::new(Mutex::new(fold)),
            base_lock: Arc::default(),
        }
    }

    /// Notes that `rows` changes were flushed in the running epoch.
    pub(crate) fn add_pending(&mut self, rows: u64) {
        let commit_us = self.oldest_us.take().unwrap_or(0);
        match self.pending.last_mut() {
            Some(last) if last.epoch == self.epoch => last.rows += rows,
            _ => self.pending.push(Pending {
                epoch: self.epoch,
                rows,
                since: Instant::now(),
                commit_us,
            }),
        }
    }

    /// Forgets what waits.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.load.clear();
        self.waiting.clear();
        self.told.clear();
        self.keys.clear();
        self.oldest_us = None;
    }

    pub(crate) fn byte_count(&self) -> usize {
        let notes =
            self.told.len() * size_of::<(u64, u64)>() + self.waiting.len() * size_of::<Waiting>();
        self.rows.data.len() + self.load.data.len() + self.keys.len() + notes
    }

    /// A row that lives, into the delta.
    pub(crate) fn put_pending(&mut self, row: RowPart<'_>, now_ms: i64) -> Result<(), Refusal> {
        let start = self.rows.data.len();
        put_cells(&mut self.rows.data, &self.layout, row, false)?;
        let fixed = [row.sequence, 0, 0];
        put_numbers(&mut self.rows.data, &fixed);
        self.rows.data.extend_from_slice(&now_ms.to_le_bytes());
        put_numbers(&mut self.rows.data, &[self.epoch]);
        let wanted = self.layout.is_keyless().then_some(Wanted::Comes);
        self.finish(row, start, wanted, 0)
    }

    /// A row that is gone, into the delta: the delete cache.
    pub(crate) fn put_deleted(&mut self, row: RowPart<'_>, now_ms: i64) -> Result<(), Refusal> {
        let start = self.rows.data.len();
        put_cells(&mut self.rows.data, &self.layout, row, true)?;
        put_numbers(&mut self.rows.data, &[row.sequence, row.sequence]);
        let at = self.rows.data.len();
        put_numbers(&mut self.rows.data, &[0]);
        self.rows.data.extend_from_slice(&now_ms.to_le_bytes());
        put_numbers(&mut self.rows.data, &[self.epoch]);
        let wanted = match self.layout.is_keyless() {
            true => Wanted::Goes,
            false => Wanted::RowVersion,
        };
        self.finish(row, start, Some(wanted), at)
    }

    /// A row of the first copy, into the base.
    pub(crate) fn put_loaded(&mut self, row: RowPart<'_>) -> Result<(), Refusal> {
        put_cells(&mut self.load.data, &self.layout, row, false)?;
        put_numbers(&mut self.load.data, &[row.sequence]);
        self.load.add(row.sequence);
        Ok(())
    }

    /// A row with its sign, in mode `sign_version`. `cancels`: it has to carry the version of what it
    /// cancels.
    pub(crate) fn put_signed(
        &mut self,
        row: RowPart<'_>,
        sign: i8,
        cancels: bool,
    ) -> Result<(), Refusal> {
        let start = self.rows.data.len();
        put_cells(&mut self.rows.data, &self.layout, row, sign < 0)?;
        self.rows.data.push(sign as u8);
        let at = self.rows.data.len();
        put_numbers(&mut self.rows.data, &[row.sequence]);
        if self.layout.has_event() {
            put_numbers(&mut self.rows.data, &[row.sequence]);
        }
        let wanted = match (self.layout.is_keyless(), sign > 0, cancels) {
            (true, true, _) => Some(Wanted::Comes),
            (true, false, _) => Some(Wanted::Goes),
            (false, false, true) => Some(Wanted::Cancelled),
            _ => None,
        };
        self.finish(row, start, wanted, at)
    }

    fn finish(
        &mut self,
        row: RowPart<'_>,
        start: usize,
        wanted: Option<Wanted>,
        mut at: usize,
    ) -> Result<(), Refusal> {
        let mut token = u128::from(row.token);
        let key_start = self.keys.len();
        let layout = Arc::clone(&self.layout);
        let Some(wanted) = wanted else {
            self.told.push((row.token, row.sequence));
            self.rows.add(row.sequence);
            return Ok(());
        };
        match wanted {
            Wanted::Comes | Wanted::Goes => {
                let mut cells = Vec::new();
                put_cells(&mut cells, &layout, row, false)?;
                token = xxhash_rust::xxh3::xxh3_128(&cells);
                self.rows.data.extend_from_slice(&token.to_le_bytes());
                at = self.rows.data.len();
                self.rows.data.extend_from_slice(&0u32.to_le_bytes());
                self.keys.extend_from_slice(&token.to_le_bytes());
            }
            Wanted::RowVersion => put_key(&mut self.keys, &layout, &layout.key, row)?,
            Wanted::Cancelled => put_key(&mut self.keys, &layout, &layout.sort, row)?,
        }
        self.rows.add(row.sequence);
        self.waiting.push(Waiting {
            wanted,
            token,
            version: row.sequence,
            start,
            end: self.rows.data.len(),
            at,
            key: (key_start, self.keys.len()),
        });
        Ok(())
    }

    /// Takes back a row that could not be written whole.
    pub(crate) fn take_back(&mut self, mark: Mark) {
        self.rows.take_back(mark.rows);
        self.load.take_back(mark.load);
        self.keys.truncate(mark.keys);
        self.waiting.truncate(mark.waiting);
        self.told.truncate(mark.told);
    }

    /// The end of what was written, for [`take_back`](Self::take_back).
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            rows: self.rows.mark(),
            load: self.load.mark(),
            keys: self.keys.len(),
            waiting: self.waiting.len(),
            told: self.told.len(),
        }
    }
}

/// See [`Table::mark`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    rows: RowsMark,
    load: RowsMark,
    keys: usize,
    waiting: usize,
    told: usize,
}

/// A place in [`Rows`].
#[derive(Debug, Clone, Copy)]
struct RowsMark {
    bytes: usize,
    count: u64,
    last: u64,
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    for number in numbers {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

/// All columns of the source. `key_only`: of a row that is gone only what it is found by has to be known.
#[inline]
fn put_cells(
    out: &mut Vec<u8>,
    layout: &TableLayout,
    row: RowPart<'_>,
    key_only: bool,
) -> Result<(), Refusal> {
    let mut cells = row.image.cells();
    let mut others = row.also.map(|image| image.cells());
    for (column, writer) in layout.writers.iter().enumerate() {
        let mut cell = cells.next().unwrap_or(Cell::Unknown);
        if let Some(others) = &mut others {
            let other = others.next().unwrap_or(Cell::Unknown);
            if cell == Cell::Unknown {
                cell = other;
            }
        }
        if cell == Cell::Unknown && key_only && !layout.finds_by(column) {
            writer.put_nothing(out);
            continue;
        }
        if let Err(misfit) = writer.put(out, cell) {
            // What a row held that goes need not fit, unless it is told apart by it.
            if key_only && !layout.is_keyless() && !layout.finds_by(column) {
                writer.put_nothing(out);
                continue;
            }
            return Err(Refusal { column, misfit });
        }
    }
    Ok(())
}

fn put_key(
    out: &mut Vec<u8>,
    layout: &TableLayout,
    key: &[usize],
    row: RowPart<'_>,
) -> Result<(), Refusal> {
    for column in key {
        let cell = row.image.cell(*column);
        layout.writers[*column]
            .put(out, cell)
            .map_err(|misfit| Refusal {
                column: *column,
                misfit,
            })?;
    }
    Ok(())
}

/// Whether two images differ in some of the columns.
pub(crate) fn differ(before: Image<'_>, after: Image<'_>, columns: &[usize]) -> bool {
    columns.iter().any(|column| {
        let (old, new) = (before.cell(*column), after.cell(*column));
        old != new && old != Cell::Unknown && new != Cell::Unknown
    })
}

/// The head of RowBinaryWithNamesAndTypes.
pub(crate) fn header(columns: &[(String, String)]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, columns.len());
    columns
        .iter()
        .for_each(|(name, _)| put_text(&mut out, name.as_bytes()));
    columns
        .iter()
        .for_each(|(_, kind)| put_text(&mut out, kind.as_bytes()));
    out
}
