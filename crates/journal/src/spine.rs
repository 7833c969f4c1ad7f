//! The spine of a frame: what happened, in order, without the record bodies.
//!
//! | Tag | Entry |
//! |---|---|
//! | 1 | begin: flags u8 (1 snapshot, 2 continued from an earlier frame), bytes header |
//! | 2 | commit: varint rows, time i64, bytes trailer, bytes position |
//! | 3 | control: bytes key, u8 (1: bytes value follow; 0: removed) |
//! | 4 | abort of the transaction that an earlier frame left open |
//! | 5 | record under the same table, schema, operation, flags and block as the one before: key token u64, varint length |
//! | 6 | record: varint table, varint schema, operation u8, flags u8, varint block, key token u64, varint length |
//! | 7 | checkpoint, state: varint sequence, bytes key, bytes value |
//! | 8 | checkpoint, control record of the open transaction: varint sequence, then as 3 |
//! | 9 | checkpoint, last commit: varint sequence, time i64, bytes position |
//! | 10 | checkpoint, aborted sequences: varint first, varint end |
//!
//! Record, control and commit take one sequence each. A body lies in its block after those of the records before it.

use crate::id::{SchemaId, TableId};
use crate::item::{Commit, RecordDescriptor};
use crate::wire::{Input, put_bytes, put_varint};

/// A record's place: descriptor and block, without the key group, which the block has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RecordShape {
    pub table: TableId,
    pub schema: SchemaId,
    pub operation: u8,
    pub flags: u8,
    pub block: u32,
}

/// One decoded entry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry<'a> {
    Begin {
        header: &'a [u8],
        snapshot: bool,
        continued: bool,
    },
    Commit(Commit<'a>),
    Control {
        key: &'a [u8],
        value: Option<&'a [u8]>,
    },
    Abort,
    Record {
        shape: RecordShape,
        key_token: u64,
        len: usize,
    },
    State {
        sequence: u64,
        key: &'a [u8],
        value: &'a [u8],
    },
    Pending {
        sequence: u64,
        key: &'a [u8],
        value: Option<&'a [u8]>,
    },
    LastCommit {
        sequence: u64,
        time_us: i64,
        position: &'a [u8],
    },
    Aborted {
        first: u64,
        end: u64,
    },
}

impl Entry<'_> {
    /// How many sequences the entry takes.
    pub fn sequences(&self) -> u64 {
        u64::from(matches!(
            self,
            Entry::Record { .. } | Entry::Control { .. } | Entry::Commit(_)
        ))
    }
}

pub(crate) fn put_begin(out: &mut Vec<u8>, header: &[u8], snapshot: bool, continued: bool) {
    out.extend_from_slice(&[1, u8::from(snapshot) | u8::from(continued) << 1]);
    put_bytes(out, header);
}

pub(crate) fn put_commit(out: &mut Vec<u8>, commit: &Commit<'_>) {
    out.push(2);
    put_varint(out, commit.rows);
    out.extend_from_slice(&commit.time_us.to_le_bytes());
    put_bytes(out, commit.trailer);
    put_bytes(out, commit.position);
}

fn put_change(out: &mut Vec<u8>, key: &[u8], value: Option<&[u8]>) {
    put_bytes(out, key);
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put_bytes(out, value);
    }
}

pub(crate) fn put_control(out: &mut Vec<u8>, key: &[u8], value: Option<&[u8]>) {
    out.push(3);
    put_change(out, key, value);
}

pub(crate) fn put_abort(out: &mut Vec<u8>) {
    out.push(4);
}

pub(crate) fn put_record(
    out: &mut Vec<u8>,
    shape: &RecordShape,
    last: Option<&RecordShape>,
    descriptor: &RecordDescriptor,
    len: usize,
) {
    if last == Some(shape) {
        let mut entry = [5; 9];
        entry[1..].copy_from_slice(&descriptor.key_token.to_le_bytes());
        out.extend_from_slice(&entry);
    } else {
        out.push(6);
        put_varint(out, u64::from(shape.table.0));
        put_varint(out, u64::from(shape.schema.0));
        out.extend_from_slice(&[shape.operation, shape.flags]);
        put_varint(out, u64::from(shape.block));
        out.extend_from_slice(&descriptor.key_token.to_le_bytes());
    }
    put_varint(out, len as u64);
}

pub(crate) fn put_state(out: &mut Vec<u8>, sequence: u64, key: &[u8], value: &[u8]) {
    out.push(7);
    put_varint(out, sequence);
    put_bytes(out, key);
    put_bytes(out, value);
}

pub(crate) fn put_pending(out: &mut Vec<u8>, sequence: u64, key: &[u8], value: Option<&[u8]>) {
    out.push(8);
    put_varint(out, sequence);
    put_change(out, key, value);
}

pub(crate) fn put_last_commit(out: &mut Vec<u8>, sequence: u64, time_us: i64, position: &[u8]) {
    out.push(9);
    put_varint(out, sequence);
    out.extend_from_slice(&time_us.to_le_bytes());
    put_bytes(out, position);
}

pub(crate) fn put_aborted(out: &mut Vec<u8>, first: u64, end: u64) {
    out.push(10);
    put_varint(out, first);
    put_varint(out, end);
}

/// Decodes a spine entry by entry. Ends at the end or at bytes that are no entry; `is_done` tells which.
#[derive(Clone, Copy, Default)]
pub(crate) struct Entries<'a> {
    input: Input<'a>,
    last: Option<RecordShape>,
}

impl<'a> Entries<'a> {
    pub fn new(spine: &'a [u8]) -> Self {
        Entries {
            input: Input::new(spine),
            last: None,
        }
    }

    /// Whether everything was an entry.
    pub fn is_done(&self) -> bool {
        self.input.is_empty()
    }

    fn entry(&mut self) -> Option<Entry<'a>> {
        let input = &mut self.input;
        Some(match input.u8()? {
            1 => {
                let flags = input.u8()?;
                let header = input.bytes()?;
                Entry::Begin {
                    header,
                    snapshot: flags & 1 != 0,
                    continued: flags & 2 != 0,
                }
            }
            2 => Entry::Commit(Commit {
                rows: input.varint()?,
                time_us: input.i64()?,
                trailer: input.bytes()?,
                position: input.bytes()?,
            }),
            3 => {
                let (key, value) = change(input)?;
                Entry::Control { key, value }
            }
            4 => Entry::Abort,
            5 => self.record(self.last?)?,
            6 => {
                let shape = RecordShape {
                    table: TableId(input.varint_u32()?),
                    schema: SchemaId(input.varint_u32()?),
                    operation: input.u8()?,
                    flags: input.u8()?,
                    block: input.varint_u32()?,
                };
                self.record(shape)?
            }
            7 => Entry::State {
                sequence: input.varint()?,
                key: input.bytes()?,
                value: input.bytes()?,
            },
            8 => {
                let sequence = input.varint()?;
                let (key, value) = change(input)?;
                Entry::Pending {
                    sequence,
                    key,
                    value,
                }
            }
            9 => Entry::LastCommit {
                sequence: input.varint()?,
                time_us: input.i64()?,
                position: input.bytes()?,
            },
            10 => Entry::Aborted {
                first: input.varint()?,
                end: input.varint()?,
            },
            _ => return None,
        })
    }

    fn record(&mut self, shape: RecordShape) -> Option<Entry<'a>> {
        self.last = Some(shape);
        let key_token = self.input.u64()?;
        Some(Entry::Record {
            shape,
            key_token,
            len: self.input.varint_usize()?,
        })
    }
}

fn change<'a>(input: &mut Input<'a>) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    let key = input.bytes()?;
    match input.u8()? {
        0 => Some((key, None)),
        1 => Some((key, Some(input.bytes()?))),
        _ => None,
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let before = self.input;
        let entry = self.entry();
        if entry.is_none() {
            self.input = before;
        }
        entry
    }
}
