//! Records as GetRecords writes them: straight from the page that was read into the answer's bytes.
//!
//! Nothing is allocated per record or cell. Members stand in the order of the service's model.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use format::json::{put_escaped, put_string};
use schemars::JsonSchema;
use serde::Deserialize;
use stream::{CellValue, CellView, Metadata, NamedCell, RecordView, RowView};

/// How values look that the service's model leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RecordText {
    /// How a `timestampT` is written: `iso` (`2026-11-29T10:00:00.123Z`) or `epoch_ms` (`1796000000123`). Default iso.
    pub timestamp: TimestampText,
    /// Whether key columns stand in images too. Default true: consumers such as AWS's own connectors take them from there.
    pub keys_in_images: bool,
}

impl Default for RecordText {
    fn default() -> Self {
        Self {
            timestamp: TimestampText::default(),
            keys_in_images: true,
        }
    }
}

/// See [`RecordText::timestamp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimestampText {
    /// ISO 8601 in UTC, milliseconds at least.
    #[default]
    Iso,
    /// Milliseconds since 1970.
    EpochMs,
}

/// Appends one record.
pub fn put_record(out: &mut Vec<u8>, record: &RecordView<'_>, text: &RecordText) {
    let writer = Writer { text };
    out.extend_from_slice(b"{\"eventVersion\":\"1.0\",\"createdAt\":");
    put_seconds(out, record.created_us());
    out.extend_from_slice(b",\"origin\":\"");
    out.extend_from_slice(record.origin().as_str().as_bytes());
    out.extend_from_slice(b"\",\"partitionKeys\":{");
    writer.keys(out, record.partition_keys());
    out.extend_from_slice(b"},\"clusteringKeys\":{");
    writer.keys(out, record.clustering_keys());
    out.push(b'}');
    if let Some(row) = record.new_image() {
        out.extend_from_slice(b",\"newImage\":");
        writer.row(out, &row);
    }
    if let Some(row) = record.old_image() {
        out.extend_from_slice(b",\"oldImage\":");
        writer.row(out, &row);
    }
    out.extend_from_slice(b",\"sequenceNumber\":\"");
    put_sequence(out, record.sequence().0);
    out.extend_from_slice(b"\"}");
}

/// The 21 digits of a sequence number.
fn put_sequence(out: &mut Vec<u8>, sequence: u64) {
    out.push(b'1');
    put_padded(out, sequence, 20);
}

fn put_padded(out: &mut Vec<u8>, value: u64, width: usize) {
    let mut buffer = itoa::Buffer::new();
    let text = buffer.format(value);
    out.extend(std::iter::repeat_n(b'0', width.saturating_sub(text.len())));
    out.extend_from_slice(text.as_bytes());
}

fn put_integer(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn put_quoted(out: &mut Vec<u8>, value: i64) {
    out.push(b'"');
    put_integer(out, value);
    out.push(b'"');
}

/// Seconds with six digits of fraction.
fn put_seconds(out: &mut Vec<u8>, micros: i64) {
    // A record is never made before 1970.
    let micros = micros.max(0) as u64;
    put_padded(out, micros / 1_000_000, 1);
    out.push(b'.');
    put_padded(out, micros % 1_000_000, 6);
}

fn put_metadata(out: &mut Vec<u8>, metadata: &Metadata) {
    out.push(b'{');
    if let Some(expires) = metadata.expires_s {
        out.extend_from_slice(b"\"expirationTime\":\"");
        put_integer(out, expires);
        out.push(b'"');
    }
    if let Some(written) = metadata.write_time_us {
        if metadata.expires_s.is_some() {
            out.push(b',');
        }
        out.extend_from_slice(b"\"writeTime\":\"");
        put_integer(out, written);
        out.push(b'"');
    }
    out.push(b'}');
}

struct Writer<'t> {
    text: &'t RecordText,
}

impl Writer<'_> {
    fn keys<'a>(&self, out: &mut Vec<u8>, keys: impl Iterator<Item = (&'a str, CellValue<'a>)>) {
        for (index, (name, value)) in keys.enumerate() {
            if index > 0 {
                out.push(b',');
            }
            put_string(out, name);
            out.push(b':');
            self.value(out, &value);
        }
    }

    fn row(&self, out: &mut Vec<u8>, row: &RowView<'_>) {
        out.extend_from_slice(b"{\"valueCells\":{");
        self.cells(out, row.value_cells());
        out.extend_from_slice(b"},\"staticCells\":{");
        self.cells(out, row.static_cells());
        out.push(b'}');
        let metadata = row.metadata();
        if !metadata.is_empty() {
            out.extend_from_slice(b",\"rowMetadata\":");
            put_metadata(out, &metadata);
        }
        out.push(b'}');
    }

    fn cells<'a>(&self, out: &mut Vec<u8>, cells: impl Iterator<Item = NamedCell<'a>>) {
        for (index, cell) in cells.enumerate() {
            if index > 0 {
                out.push(b',');
            }
            put_string(out, cell.name);
            out.push(b':');
            self.cell(out, &cell.cell());
        }
    }

    fn cell(&self, out: &mut Vec<u8>, cell: &CellView<'_>) {
        out.push(b'{');
        if let Some(value) = &cell.value {
            out.extend_from_slice(b"\"value\":");
            self.value(out, value);
        }
        self.metadata_member(out, &cell.metadata, cell.value.is_some());
        out.push(b'}');
    }

    fn metadata_member(&self, out: &mut Vec<u8>, metadata: &Metadata, follows: bool) {
        if metadata.is_empty() {
            return;
        }
        if follows {
            out.push(b',');
        }
        out.extend_from_slice(b"\"metadata\":");
        put_metadata(out, metadata);
    }

    /// One value: an object of exactly one member.
    fn value(&self, out: &mut Vec<u8>, value: &CellValue<'_>) {
        out.extend_from_slice(b"{\"");
        out.extend_from_slice(value.member().as_bytes());
        out.extend_from_slice(b"\":");
        match value {
            CellValue::Ascii(text) | CellValue::Text(text) | CellValue::Varchar(text) => {
                out.push(b'"');
                put_escaped(out, text);
                out.push(b'"');
            }
            CellValue::Bool(flag) => {
                let text: &[u8] = if *flag { b"true" } else { b"false" };
                out.extend_from_slice(text);
            }
            CellValue::Blob(bytes) => put_blob(out, bytes),
            CellValue::List(elements) | CellValue::Set(elements) | CellValue::Tuple(elements) => {
                out.push(b'[');
                for (index, cell) in elements.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    self.cell(out, &cell);
                }
                out.push(b']');
            }
            CellValue::Map(entries) => {
                out.push(b'[');
                for (index, (key, value, metadata)) in entries.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    out.extend_from_slice(b"{\"key\":");
                    self.value(out, &key);
                    if let Some(value) = value {
                        out.extend_from_slice(b",\"value\":");
                        self.value(out, &value);
                    }
                    self.metadata_member(out, &metadata, true);
                    out.push(b'}');
                }
                out.push(b']');
            }
            CellValue::Udt(fields) => {
                out.push(b'{');
                for (index, (name, cell)) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    put_string(out, name);
                    out.push(b':');
                    self.cell(out, &cell);
                }
                out.push(b'}');
            }
            CellValue::Timestamp { micros, .. }
                if self.text.timestamp == TimestampText::EpochMs =>
            {
                put_quoted(out, micros.div_euclid(1000));
            }
            CellValue::Millis(millis) if self.text.timestamp == TimestampText::EpochMs => {
                put_quoted(out, *millis);
            }
            scalar => {
                out.push(b'"');
                scalar.put_text(out);
                out.push(b'"');
            }
        }
        out.push(b'}');
    }
}

fn put_blob(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    let start = out.len();
    let length = base64::encoded_len(bytes.len(), true).unwrap_or(0);
    out.resize(start + length, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[start..]).unwrap_or(0);
    out.truncate(start + written);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use stream::{Elements, Entries, Fields, Integer};

    fn rendered(value: CellValue<'_>) -> Value {
        let mut out = Vec::new();
        let text = RecordText::default();
        Writer { text: &text }.value(&mut out, &value);
        serde_json::from_slice(&out).unwrap()
    }

    fn cell(value: CellValue<'_>) -> CellView<'_> {
        CellView {
            value: Some(value),
            metadata: Metadata::default(),
        }
    }

    #[test]
    fn every_member_of_the_union_is_written_once() {
        let bytes = [7; 16];
        let one = [
            cell(CellValue::Int(1)),
            CellView {
                value: None,
                metadata: Metadata::default(),
            },
        ];
        let date = change::temporal::DatePacked::new(2026, 11, 29);
        let entries = [
            (
                CellValue::Text("k\"1"),
                Some(CellValue::Int(2)),
                Metadata {
                    write_time_us: Some(5),
                    expires_s: Some(6),
                },
            ),
            (CellValue::Int(3), None, Metadata::default()),
        ];
        let fields = [("f", cell(CellValue::Bool(true)))];
        let cases: Vec<(CellValue<'_>, Value)> = vec![
            (CellValue::Ascii("a"), json!({"asciiT": "a"})),
            (
                CellValue::Bigint(i64::MIN),
                json!({"bigintT": "-9223372036854775808"}),
            ),
            (CellValue::Blob(b"\0\0\0\x01"), json!({"blobT": "AAAAAQ=="})),
            (CellValue::Blob(b""), json!({"blobT": ""})),
            (CellValue::Bool(false), json!({"boolT": false})),
            (CellValue::Counter(3), json!({"counterT": "3"})),
            (CellValue::Date(date), json!({"dateT": "2026-11-29"})),
            (CellValue::Decimal("1.50"), json!({"decimalT": "1.50"})),
            (CellValue::Double(1.5), json!({"doubleT": "1.5"})),
            (
                CellValue::Duration {
                    months: 1,
                    days: 2,
                    nanos: 3,
                },
                json!({"durationT": "1mo2d3ns"}),
            ),
            (CellValue::Float(f32::NAN), json!({"floatT": "NaN"})),
            (
                CellValue::Inet4([127, 0, 0, 1]),
                json!({"inetT": "127.0.0.1"}),
            ),
            (CellValue::Inet6([0; 16]), json!({"inetT": "::"})),
            (CellValue::Int(-1), json!({"intT": "-1"})),
            (
                CellValue::List(Elements::of(&one)),
                json!({"listT": [{"value": {"intT": "1"}}, {}]}),
            ),
            (CellValue::List(Elements::of(&[])), json!({"listT": []})),
            (
                CellValue::Map(Entries::of(&entries)),
                json!({"mapT": [
                    {"key": {"textT": "k\"1"}, "value": {"intT": "2"}, "metadata": {"writeTime": "5", "expirationTime": "6"}},
                    {"key": {"intT": "3"}},
                ]}),
            ),
            (CellValue::Map(Entries::of(&[])), json!({"mapT": []})),
            (CellValue::Set(Elements::of(&[])), json!({"setT": []})),
            (CellValue::Smallint(2), json!({"smallintT": "2"})),
            (
                CellValue::Text("\u{1}\n\"\\ž"),
                json!({"textT": "\u{1}\n\"\\ž"}),
            ),
            (
                CellValue::Time {
                    nanos: 1_000_000_000,
                    digits: 0,
                },
                json!({"timeT": "00:00:01"}),
            ),
            (
                CellValue::Timestamp {
                    micros: 0,
                    digits: 0,
                },
                json!({"timestampT": "1970-01-01T00:00:00.000Z"}),
            ),
            (
                CellValue::Timeuuid(bytes),
                json!({"timeuuidT": "07070707-0707-0707-0707-070707070707"}),
            ),
            (CellValue::Tinyint(1), json!({"tinyintT": "1"})),
            (CellValue::Tuple(Elements::of(&[])), json!({"tupleT": []})),
            (
                CellValue::Udt(Fields::of(&fields)),
                json!({"udtT": {"f": {"value": {"boolT": true}}}}),
            ),
            (CellValue::Udt(Fields::of(&[])), json!({"udtT": {}})),
            (
                CellValue::Uuid(bytes),
                json!({"uuidT": "07070707-0707-0707-0707-070707070707"}),
            ),
            (CellValue::Varchar("v"), json!({"varcharT": "v"})),
            (
                CellValue::Varint(Integer::Digits("123456789012345678901234567890")),
                json!({"varintT": "123456789012345678901234567890"}),
            ),
        ];
        let mut members = std::collections::BTreeSet::new();
        for (value, expected) in cases {
            members.insert(value.member());
            assert_eq!(rendered(value), expected);
        }
        assert_eq!(members.len(), 26);
    }

    #[test]
    fn depth_eight_and_epoch_texts() {
        let mut cells = vec![cell(CellValue::Int(1))];
        let mut arena: Vec<&'static [CellView<'static>]> = Vec::new();
        for _ in 0..8 {
            let leaked: &'static [CellView<'static>] = Vec::leak(cells);
            arena.push(leaked);
            cells = vec![cell(CellValue::List(Elements::of(leaked)))];
        }
        let value = rendered(cells[0].value.unwrap());
        let mut at = &value;
        for _ in 0..8 {
            at = &at["listT"][0]["value"];
        }
        assert_eq!(*at, json!({"intT": "1"}));
        let text = RecordText {
            timestamp: TimestampText::EpochMs,
            ..RecordText::default()
        };
        let mut out = Vec::new();
        Writer { text: &text }.value(
            &mut out,
            &CellValue::Timestamp {
                micros: -1,
                digits: 6,
            },
        );
        assert_eq!(out, b"{\"timestampT\":\"-1\"}");
        out.clear();
        Writer { text: &text }.value(&mut out, &CellValue::Millis(i64::MIN));
        assert_eq!(out, b"{\"timestampT\":\"-9223372036854775808\"}");
    }
}
