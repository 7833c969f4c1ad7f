//! GetRecords: the one operation whose answer is written straight from the page.

use super::{check_length, page_size, required};
use crate::call::Call;
use crate::error::ApiError;
use crate::metrics::Metric;
use crate::record_json::put_record;
use crate::throttle::ReaderCall;
use crate::tokens::Iterator;
use serde::Deserialize;
use stream::{ReadFrom, ReadLimits, Sequence};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Request {
    shard_iterator: Option<String>,
    max_results: Option<i64>,
}

/// Bytes that a record's text has beyond its stored form, as a first guess.
const TEXT_PER_RECORD: usize = 320;

pub(crate) fn run(call: &mut Call<'_>, request: &Request) -> Result<Vec<u8>, ApiError> {
    let text = required("shardIterator", request.shard_iterator.as_deref())?;
    check_length("shardIterator", text, 1..=4096)?;
    let records_max = page_size(request.max_results, 100, 1000)?;
    let iterator = Iterator::open(&call.api.sealer, text)?;
    let shard = iterator.shard.to_string();
    call.note("streamArn", Some(&iterator.arn));
    call.note("shardId", Some(&shard));
    if let ReadFrom::Sequence(sequence) = iterator.from {
        call.note("fromSequenceNumber", Some(&sequence.to_string()));
    }
    call.touch_stream(&iterator.arn)?;
    call.authorize(&iterator.arn)?;
    iterator.check_age(call.now_us)?;
    let reader = ReaderCall {
        id: iterator.reader,
        connection: call.caller.connection,
    };
    call.api.throttle.read(&iterator.arn, &shard, &reader)?;
    let limits = ReadLimits {
        records_max,
        bytes_max: call.api.settings.limits.page_bytes,
    };
    let page = call
        .streams()
        .read(&iterator.arn, iterator.shard, iterator.from, limits)
        .map_err(|error| call.refusal(&error))?;

    let mut out =
        Vec::with_capacity(page.byte_count as usize * 2 + page.len() * TEXT_PER_RECORD + 512);
    out.extend_from_slice(b"{\"changeRecords\":[");
    let mut last_created_us = None;
    for (index, record) in page.records().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        put_record(&mut out, &record, &call.api.settings.records);
        last_created_us = Some(record.created_us());
    }
    out.push(b']');
    if let Some(next) = page.next {
        put_next(call, &mut out, iterator, next);
    }
    let position: &[u8] = if page.at_tip {
        b"AT_TIP"
    } else {
        b"BEHIND_TIP"
    };
    out.extend_from_slice(b",\"iteratorDescription\":{\"iteratorPosition\":\"");
    out.extend_from_slice(position);
    out.extend_from_slice(b"\"}}");
    let age_us = last_created_us
        .filter(|_| !page.at_tip)
        .map_or(0, |at| call.now_us - at);
    call.measure(Metric::ReturnedRecordsCount, page.len() as f64);
    call.measure(
        Metric::IteratorAgeMilliseconds,
        age_us.max(0) as f64 / 1000.0,
    );
    call.returned(page.len() as u64);
    Ok(out)
}

fn put_next(call: &Call<'_>, out: &mut Vec<u8>, iterator: Iterator, next: Sequence) {
    let next = Iterator {
        from: ReadFrom::Sequence(next),
        issued_us: call.now_us,
        ..iterator
    };
    out.extend_from_slice(b",\"nextShardIterator\":\"");
    out.extend_from_slice(next.seal(&call.api.sealer).as_bytes());
    out.push(b'"');
}
