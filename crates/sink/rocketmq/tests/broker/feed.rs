//! A made-up journal: rows of one table, each with a sequence, and a caller that delivers them as a
//! pipeline does.

use change::batch::RowBody;
use change::contract::ErrorKind;
use change::{
    Batch, Cell, Column, ColumnType, Cursor, Entry, Event, Operation, RowChange, RowMeta,
    SchemaVersion, Sink, SinkError, TableId, TableSchema, TransactionHeader, Value,
};
use std::time::{Duration, Instant};

pub const JOURNAL: [u8; 16] = [7; 16];

/// The first row's sequence.
pub const FIRST: u64 = 1000;

pub struct Feed {
    pub table: TableSchema,
    header: TransactionHeader,
    keys: u64,
    pad: String,
}

fn column(name: &str, kind: ColumnType) -> Column {
    Column {
        name: name.into(),
        declared: "int".into(),
        kind,
        charset: None,
        collation: None,
        nullable: false,
        default: None,
        comment: String::new(),
        generated: false,
        invisible: false,
        masked: false,
    }
}

impl Feed {
    /// Rows of `shop.NAME` with so many keys; each row holds its key, its number, and `pad` bytes.
    pub fn new(name: &str, keys: u64, pad: usize) -> Self {
        let int = ColumnType::Int {
            bytes: 8,
            unsigned: true,
        };
        let text = ColumnType::Text { length_bytes: 4 };
        Self {
            table: TableSchema {
                table: TableId(1),
                version: SchemaVersion(1),
                database: "shop".into(),
                name: name.into(),
                columns: vec![
                    column("id", int.clone()),
                    column("n", int),
                    column("pad", text),
                ],
                primary_key: vec![0],
                unique_keys: Vec::new(),
                charset: None,
                comment: String::new(),
            },
            header: TransactionHeader::default(),
            keys,
            pad: "x".repeat(pad),
        }
    }

    /// The key of the row with this number.
    pub fn key(&self, number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % self.keys
    }

    /// Gives the row with this number to `then`; `old_key` makes it a change of the key.
    pub fn with_row<T>(
        &self,
        number: u64,
        old_key: Option<u64>,
        then: impl FnOnce(&Event<'_>) -> T,
    ) -> T {
        let mut batch = Batch::default();
        let mut row = batch.row(self.table.table, self.table.version, RowMeta::default());
        if let Some(key) = old_key {
            let mut image = row.before(3);
            image.cell(Cell::Value(Value::UInt(key)));
            image.cell(Cell::Value(Value::UInt(0)));
            image.cell(Cell::Value(Value::Text("")));
        }
        let key = self.key(number);
        let mut image = row.after(3);
        image.cell(Cell::Value(Value::UInt(key)));
        image.cell(Cell::Value(Value::UInt(number)));
        image.cell(Cell::Value(Value::Text(&self.pad)));
        let operation = match old_key {
            Some(_) => Operation::Update,
            None => Operation::Insert,
        };
        row.finish(operation, 0, 0);
        let Entry::Record(record) = batch.entries()[0] else {
            unreachable!("a row was written")
        };
        let body = RowBody::read(batch.bytes(record.body)).expect("the row was just written");
        then(&Event::Row(RowChange {
            sequence: FIRST + number,
            table: &self.table,
            operation,
            before: body.before,
            after: body.after,
            key_token: key + 1,
            old_key_token: old_key.map(|key| key + 1),
            flags: 0,
            meta: body.meta,
            header: &self.header,
            statement: None,
        }))
    }

    /// Writes one row.
    pub fn write(&self, sink: &mut dyn Sink, number: u64) -> Result<(), SinkError> {
        self.with_row(number, None, |event| sink.write(event))
    }

    /// Delivers the rows up to `count` from where the cursor is, with a flush after each `batch` rows;
    /// opens the sink again after passing faults, as the pipeline does.
    pub fn deliver(&self, sink: &mut dyn Sink, count: u64, batch: u64) -> Result<u32, SinkError> {
        self.deliver_while(sink, batch, &|done| done < count)
    }

    /// Delivers for as long as `more` says, which is given the number of rows that are delivered.
    pub fn deliver_while(
        &self,
        sink: &mut dyn Sink,
        batch: u64,
        more: &dyn Fn(u64) -> bool,
    ) -> Result<u32, SinkError> {
        let end = Instant::now() + Duration::from_secs(120);
        let mut faults = 0;
        loop {
            match self.deliver_once(sink, batch, more) {
                Ok(()) => return Ok(faults),
                Err(error) if error.kind == ErrorKind::Unavailable && Instant::now() < end => {
                    eprintln!("{error}");
                    faults += 1;
                    std::thread::sleep(Duration::from_millis(300));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn deliver_once(
        &self,
        sink: &mut dyn Sink,
        batch: u64,
        more: &dyn Fn(u64) -> bool,
    ) -> Result<(), SinkError> {
        let mut next = sink.open()?.map_or(0, |cursor| cursor.sequence - FIRST);
        while more(next) {
            for number in next..next + batch {
                self.write(sink, number)?;
            }
            next += batch;
            sink.flush(&cursor(next))?;
        }
        Ok(())
    }
}

/// A cursor that has delivered so many rows.
pub fn cursor(count: u64) -> Cursor {
    Cursor {
        journal: JOURNAL,
        sequence: FIRST + count,
        position: Vec::new(),
        parked: Vec::new(),
    }
}
