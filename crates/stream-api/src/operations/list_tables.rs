//! ListTables.

use super::{check_name, check_token, page_size, required};
use crate::call::Call;
use crate::error::ApiError;
use crate::seal::Kind;
use crate::tokens::{PageToken, open_page};
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Request {
    keyspace_name: Option<String>,
    max_results: Option<i64>,
    next_token: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Table {
    keyspace_name: String,
    table_name: String,
    resource_arn: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    tables: Vec<Table>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_token: Option<String>,
}

pub(crate) fn run(call: &mut Call<'_>, request: &Request) -> Result<Answer, ApiError> {
    let keyspace = required("keyspaceName", request.keyspace_name.as_deref())?;
    call.note("keyspaceName", Some(keyspace));
    check_name("keyspaceName", keyspace)?;
    let limit = page_size(request.max_results, 1000, 1000)?;
    let token = check_token(request.next_token.as_ref())?;
    let after = open_page(
        &call.api.sealer,
        Kind::Tables,
        token,
        &[keyspace],
        call.now_us,
    )?;
    let streams = call.streams();
    call.authorize(&streams.identity().keyspace_arn(keyspace))?;
    if !streams
        .keyspaces()
        .iter()
        .any(|known| known.keyspace == keyspace)
    {
        return Err(call.not_found("no captured table is in this keyspace"));
    }
    let after = after.as_deref().map(|table| (keyspace, table));
    let page = streams.tables(Some(keyspace), after, limit);
    let next_token = page.tables.last().filter(|_| page.more).map(|last| {
        PageToken {
            of: &[keyspace],
            after: &last.table,
        }
        .seal(&call.api.sealer, Kind::Tables, call.now_us)
    });
    let tables = page
        .tables
        .into_iter()
        .map(|table| Table {
            keyspace_name: table.keyspace,
            table_name: table.table,
            resource_arn: table.arn,
        })
        .collect();
    Ok(Answer { tables, next_token })
}
