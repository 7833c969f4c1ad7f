//! `meta`: what is known of an operation beside its row.

use super::options::{MetaField, Options, TimeSuffix};
use super::values::put_iso;
use crate::canal_json::{Clock, put_number};
use crate::json;
use change::TransactionHeader;
use change::temporal::DateTimePacked;

/// Where an operation stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// The commit's number.
    pub scn: u64,
    /// Place in the transaction, from 1.
    pub seq: u64,
    /// Operations in the transaction.
    pub size: u64,
}

/// What `meta` tells.
#[derive(Debug)]
pub(super) struct Meta<'a> {
    pub place: Place,
    pub header: &'a TransactionHeader,
    pub word: &'a str,
    /// The table's name, quoted.
    pub table: &'a [u8],
    /// The row's key text; empty for none.
    pub rowid: &'a [u8],
}

/// Appends `{"meta":{…}`.
pub(super) fn put(out: &mut Vec<u8>, options: &Options, meta: &Meta<'_>) {
    out.extend_from_slice(b"{\"meta\":{");
    for (index, field) in options.meta.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        put_field(out, options, *field, meta);
    }
    out.push(b'}');
}

fn put_field(out: &mut Vec<u8>, options: &Options, field: MetaField, meta: &Meta<'_>) {
    let Place { scn, seq, size } = meta.place;
    match field {
        MetaField::Time => {
            out.extend_from_slice(b"\"time\":");
            put_time(out, options, meta.header.best_time_us());
        }
        MetaField::Userid => out.extend_from_slice(b"\"userid\":0"),
        MetaField::Op => {
            out.extend_from_slice(b"\"op\":");
            json::put_string(out, meta.word);
        }
        MetaField::Scn => put!(out, "\"scn\":\"{scn}\""),
        MetaField::Rowid => {
            out.extend_from_slice(b"\"rowid\":\"");
            // A key's text is UTF-8 unless a text in it was not.
            match std::str::from_utf8(meta.rowid) {
                Ok(text) => json::put_escaped(out, text),
                Err(_) => json::put_latin1_escaped(out, meta.rowid),
            }
            out.push(b'"');
        }
        MetaField::Trans => put_transaction(out, meta.header),
        MetaField::Seq => {
            out.extend_from_slice(b"\"seq\":");
            put_number(out, seq);
        }
        MetaField::Size => {
            out.extend_from_slice(b"\"size\":");
            put_number(out, size);
        }
        MetaField::Table => {
            out.extend_from_slice(b"\"table\":");
            out.extend_from_slice(meta.table);
        }
        MetaField::Idx => put!(out, "\"idx\":\"{seq}/{size}\""),
        MetaField::Posttime => {
            out.extend_from_slice(b"\"posttime\":");
            let time_us = match options.clock {
                Clock::Commit => meta.header.best_time_us(),
                Clock::Wall => crate::wall_clock_us(),
            };
            put_time(out, options, time_us);
        }
    }
}

/// `YYYY-MM-DDTHH:MM:SS`, UTC, quoted.
fn put_time(out: &mut Vec<u8>, options: &Options, time_us: u64) {
    out.push(b'"');
    let micros = i64::try_from(time_us).unwrap_or(i64::MAX);
    put_iso(out, DateTimePacked::from_epoch_micros(micros), 0);
    if options.time_suffix == TimeSuffix::Z {
        out.push(b'Z');
    }
    out.push(b'"');
}

/// The transaction's id, else the server and the place where it begins.
fn put_transaction(out: &mut Vec<u8>, header: &TransactionHeader) {
    out.extend_from_slice(b"\"trans\":\"");
    match &header.id {
        Some(id) => put!(out, "{id}"),
        None => {
            put!(out, "{}.", header.server_id);
            json::put_escaped(out, &header.file);
            put!(out, ".{}", header.begin_offset);
        }
    }
    out.push(b'"');
}
