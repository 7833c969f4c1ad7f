//! What one record shows. Borrowed from its [`crate::Page`]; nothing here allocates.

use crate::cell::{CellValue, CellView, Metadata};
use crate::columns::{self, Layout, Role};
use change::Cell;
use change::image::{Cells, Image};
use journal::Sequence;

/// What a stream's records show besides their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ViewType {
    /// Nothing.
    KeysOnly,
    /// The row after the change.
    NewImage,
    /// The row before the change.
    OldImage,
    /// Both.
    #[default]
    NewAndOldImages,
}

impl ViewType {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            ViewType::KeysOnly => "KEYS_ONLY",
            ViewType::NewImage => "NEW_IMAGE",
            ViewType::OldImage => "OLD_IMAGE",
            ViewType::NewAndOldImages => "NEW_AND_OLD_IMAGES",
        }
    }

    /// Reads what `as_str` writes; case does not matter.
    pub fn parse(text: &str) -> Option<Self> {
        [
            ViewType::KeysOnly,
            ViewType::NewImage,
            ViewType::OldImage,
            ViewType::NewAndOldImages,
        ]
        .into_iter()
        .find(|view| view.as_str().eq_ignore_ascii_case(text))
    }

    /// Whether records hold the row after the change.
    pub fn has_new(self) -> bool {
        matches!(self, ViewType::NewImage | ViewType::NewAndOldImages)
    }

    /// Whether records hold the row before the change.
    pub fn has_old(self) -> bool {
        matches!(self, ViewType::OldImage | ViewType::NewAndOldImages)
    }
}

/// Who made a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A client of the server that is read.
    User,
    /// Another server: applied by replication.
    Replication,
    /// Its time to live ran out.
    Ttl,
}

impl Origin {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Origin::User => "USER",
            Origin::Replication => "REPLICATION",
            Origin::Ttl => "TTL",
        }
    }
}

/// What happened; the API has no field for it, so it shows only in which images there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordOperation {
    /// A new row.
    Insert,
    /// A changed row.
    Update,
    /// A row that went.
    Delete,
    /// A row as a snapshot read it; only with `include_snapshot`.
    Snapshot,
}

/// One record.
#[derive(Debug, Clone, Copy)]
pub struct RecordView<'a> {
    pub(crate) sequence: Sequence,
    pub(crate) created_us: i64,
    pub(crate) write_time_us: Option<i64>,
    pub(crate) origin: Origin,
    pub(crate) operation: RecordOperation,
    pub(crate) view: ViewType,
    pub(crate) keys_in_images: bool,
    pub(crate) is_static: bool,
    pub(crate) layout: &'a Layout,
    pub(crate) before: Option<Image<'a>>,
    pub(crate) after: Option<Image<'a>>,
}

impl<'a> RecordView<'a> {
    /// Its sequence number; shows as 21 digits.
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// When the record was made, microseconds since 1970.
    pub fn created_us(&self) -> i64 {
        self.created_us
    }

    /// Who made the change.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// What happened.
    pub fn operation(&self) -> RecordOperation {
        self.operation
    }

    /// Whether it is of a partition's static columns: it has no clustering keys, and its rows have static cells alone.
    pub fn is_static(&self) -> bool {
        self.is_static
    }

    fn key_image(&self) -> Option<Image<'a>> {
        self.after.or(self.before)
    }

    fn keys(&self, role: Role) -> impl Iterator<Item = (&'a str, CellValue<'a>)> + use<'a> {
        let layout = self.layout;
        let image = self.key_image();
        let indexes: &'a [u32] = match role {
            Role::Clustering if self.is_static => &[],
            Role::Clustering => &layout.clustering,
            _ => &layout.partition,
        };
        indexes.iter().filter_map(move |index| {
            let column = layout.schema.columns.get(*index as usize)?;
            match image?.cell(*index as usize) {
                Cell::Value(value) => {
                    Some((column.name.as_str(), columns::cell_value(column, value)))
                }
                _ => None,
            }
        })
    }

    /// The partition key's columns in key order: always complete.
    pub fn partition_keys(&self) -> impl Iterator<Item = (&'a str, CellValue<'a>)> + use<'a> {
        self.keys(Role::Partition)
    }

    /// The clustering columns in key order; empty for a table without any, and for a record of static columns.
    pub fn clustering_keys(&self) -> impl Iterator<Item = (&'a str, CellValue<'a>)> + use<'a> {
        self.keys(Role::Clustering)
    }

    fn row(&self, image: Option<Image<'a>>, write_time_us: Option<i64>) -> Option<RowView<'a>> {
        let image = image?;
        let own = Metadata::from(image.times());
        Some(RowView {
            image,
            layout: self.layout,
            keys: self.keys_in_images,
            is_static: self.is_static,
            metadata: match own.is_empty() {
                true => Metadata {
                    write_time_us,
                    expires_s: None,
                },
                false => own,
            },
        })
    }

    /// The row after the change, where the view type has it and the change left one.
    pub fn new_image(&self) -> Option<RowView<'a>> {
        self.row(
            self.after.filter(|_| self.view.has_new()),
            self.write_time_us,
        )
    }

    /// The row before the change, where the view type has it and there was one. When it was written a log of MySQL does
    /// not tell: the change's own time is that of the new row.
    pub fn old_image(&self) -> Option<RowView<'a>> {
        self.row(self.before.filter(|_| self.view.has_old()), None)
    }
}

/// A named cell of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NamedCell<'a> {
    /// The column.
    pub name: &'a str,
    /// Its value, never null: a null column is left out.
    pub value: CellValue<'a>,
    /// Its own times; empty where the row's hold.
    pub metadata: Metadata,
}

impl<'a> NamedCell<'a> {
    /// As a cell.
    pub fn cell(&self) -> CellView<'a> {
        CellView {
            value: Some(self.value),
            metadata: self.metadata,
        }
    }
}

/// One row of a record.
#[derive(Debug, Clone, Copy)]
pub struct RowView<'a> {
    image: Image<'a>,
    layout: &'a Layout,
    keys: bool,
    is_static: bool,
    metadata: Metadata,
}

impl<'a> RowView<'a> {
    /// The non-static columns that are not null, in table order; key columns among them unless that is turned off. In a
    /// record of static columns there is nothing but the partition key's.
    pub fn value_cells(&self) -> RowCells<'a> {
        self.cells(false)
    }

    /// The static columns that are not null, in table order; none in a row's record.
    pub fn static_cells(&self) -> RowCells<'a> {
        self.cells(true)
    }

    fn cells(&self, statics: bool) -> RowCells<'a> {
        RowCells {
            cells: self.image.cells(),
            index: 0,
            layout: self.layout,
            keys: self.keys,
            is_static: self.is_static,
            statics,
        }
    }

    /// When the row was written, where the source tells.
    pub fn metadata(&self) -> Metadata {
        self.metadata
    }
}

/// Iterates a row's cells.
#[derive(Debug, Clone)]
pub struct RowCells<'a> {
    cells: Cells<'a>,
    index: usize,
    layout: &'a Layout,
    keys: bool,
    is_static: bool,
    /// Which cells are asked for.
    statics: bool,
}

impl RowCells<'_> {
    fn shows(&self, role: Role) -> bool {
        match role {
            Role::Static => self.statics && self.is_static,
            _ if self.statics => false,
            Role::Partition => self.keys,
            Role::Clustering => self.keys && !self.is_static,
            Role::Regular => !self.is_static,
        }
    }
}

impl<'a> Iterator for RowCells<'a> {
    type Item = NamedCell<'a>;

    fn next(&mut self) -> Option<NamedCell<'a>> {
        loop {
            let (cell, times) = self.cells.next_with_times()?;
            let index = self.index;
            self.index += 1;
            let Cell::Value(value) = cell else { continue };
            if !self.shows(self.layout.role(index)) {
                continue;
            }
            let Some(column) = self.layout.schema.columns.get(index) else {
                continue;
            };
            return Some(NamedCell {
                name: &column.name,
                value: columns::cell_value(column, value),
                metadata: times.into(),
            });
        }
    }
}
