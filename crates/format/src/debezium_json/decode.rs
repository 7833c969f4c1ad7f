//! Debezium JSON back to changes, with its schema or without.
//!
//! With a schema the columns have its types. Without one a column has what JSON tells: text, number,
//! boolean, or a document.

use super::FORMAT;
use super::read_value::{self, Plan};
use crate::canal_json::statement_kind;
use crate::decode::{Decoded, Decoder, Fault, Kind};
use crate::decoded_table::DecodedTable;
use crate::json_reader::{Document, Json};
use change::value::put_cell;
use change::wire::put_u64;
use change::{Cell, DdlKind, Operation};

/// The decoder.
#[derive(Debug, Default)]
pub struct DebeziumJsonDecoder {
    document: Document,
}

impl Decoder for DebeziumJsonDecoder {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn decode(&mut self, message: &[u8], out: &mut Vec<Decoded>) -> Result<(), Fault> {
        if message.is_empty() {
            // A tombstone: the row's last change came before it.
            return Ok(());
        }
        let root = self.document.parse(FORMAT, message)?;
        if root.is_null() {
            return Ok(());
        }
        let (payload, schema) = match root.member("payload") {
            Some(payload) if root.member("op").is_none() => (payload, root.get("schema")),
            _ => (root, None),
        };
        if payload.is_null() {
            return Ok(());
        }
        if !payload.is_object() {
            return Err(payload.fault("an object is expected"));
        }
        let reader = Reader { payload, schema };
        out.extend(reader.read()?);
        Ok(())
    }
}

struct Reader<'d> {
    payload: Json<'d>,
    schema: Option<Json<'d>>,
}

impl<'d> Reader<'d> {
    fn read(&self) -> Result<Option<Decoded>, Fault> {
        let Some(kind) = self.kind()? else {
            return Ok(None);
        };
        let mut decoded = self.without_rows(kind);
        decoded.warnings = self.payload.duplicates();
        let Kind::Row(operation) = kind else {
            decoded.sql = self.sql(kind, &decoded);
            return Ok(Some(decoded));
        };
        let (before, after) = (self.side("before")?, self.side("after")?);
        let needed = if operation == Operation::Delete {
            ("before", before)
        } else {
            ("after", after)
        };
        if let (name, None) = needed {
            return Err(self.payload.fault(format!("there is no row in `{name}`")));
        }
        let (table, plans) = self.table(&decoded, [after, before])?;
        let image = |row: Json<'d>| image(&table, &plans, &row);
        decoded.before = before.map(image).transpose()?;
        decoded.after = (after.filter(|_| operation != Operation::Delete))
            .map(image)
            .transpose()?;
        decoded.table = table.schema();
        Ok(Some(decoded))
    }

    /// What the message says; none for one that says nothing of rows or statements.
    fn kind(&self) -> Result<Option<Kind>, Fault> {
        let Some(op) = self.payload.get("op") else {
            return self.kind_without_op().map(Some);
        };
        let word = op.text().ok_or_else(|| op.fault("a string is expected"))?;
        Ok(Some(match &*word {
            "c" => Kind::Row(Operation::Insert),
            "u" => Kind::Row(Operation::Update),
            "d" => Kind::Row(Operation::Delete),
            "r" => Kind::Row(Operation::Read),
            "t" => Kind::Ddl(DdlKind::TruncateTable),
            "m" => return Ok(None),
            _ => return Err(op.fault("an unknown operation")),
        }))
    }

    fn kind_without_op(&self) -> Result<Kind, Fault> {
        let text = |name| self.payload.get(name).and_then(|member| member.text());
        if let Some(sql) = text("ddl") {
            return Ok(Kind::Ddl(statement_kind(&sql)));
        }
        match text("status").as_deref() {
            Some("BEGIN") => return Ok(Kind::Begin),
            Some("END") => return Ok(Kind::Commit),
            _ => {}
        }
        let is_beat = self.payload.get("ts_ms").is_some() && self.payload.members().count() == 1;
        if is_beat {
            return Ok(Kind::Heartbeat);
        }
        Err(self.payload.fault("there is no member `op`"))
    }

    fn side(&self, name: &str) -> Result<Option<Json<'d>>, Fault> {
        match self.payload.get(name) {
            Some(row) if !row.is_object() => Err(row.fault("an object is expected")),
            row => Ok(row),
        }
    }

    fn sql(&self, kind: Kind, decoded: &Decoded) -> String {
        match (self.payload.get("ddl").and_then(|sql| sql.text()), kind) {
            (Some(sql), _) => sql.into(),
            (None, Kind::Ddl(_)) => {
                let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
                let (database, table) = (&decoded.table.database, &decoded.table.name);
                format!("TRUNCATE TABLE {}.{}", quoted(database), quoted(table))
            }
            _ => String::new(),
        }
    }

    /// The columns and how their values are read: by the schema, else by the values.
    fn table(
        &self,
        decoded: &Decoded,
        rows: [Option<Json<'d>>; 2],
    ) -> Result<(DecodedTable, Vec<Plan>), Fault> {
        let mut table = DecodedTable::new(&decoded.table.database, &decoded.table.name);
        let mut plans = Vec::new();
        for field in self.fields() {
            let Some(name) = field.get("field").and_then(|name| name.text()) else {
                return Err(field.fault("there is no member `field`"));
            };
            let plan = Plan::of_schema(&field)?;
            table.column(&name, &plan.declared(), plan.kind.clone());
            if plans.len() < table.columns().len() {
                let optional = field.get("optional").and_then(|flag| flag.boolean());
                if optional == Some(false) {
                    table.not_null(plans.len());
                }
                plans.push(plan);
            }
        }
        for (name, value) in rows.into_iter().flatten().flat_map(|row| row.members()) {
            let plan = Plan::of_value(&value);
            match table.index(&name) {
                None => {
                    table.column(&name, &plan.declared(), plan.kind.clone());
                    plans.push(plan);
                }
                Some(index) if plans[index].is_open => {
                    table.retype(index, &plan.declared(), plan.kind.clone());
                    plans[index] = plan;
                }
                Some(_) => {}
            }
        }
        Ok((table, plans))
    }

    /// The schema's fields of a row.
    fn fields(&self) -> impl Iterator<Item = Json<'d>> + use<'d> {
        let sides = self.schema.and_then(|schema| schema.get("fields"));
        let row = sides.and_then(|sides| {
            sides.items().find(|side| {
                let name = side.get("field").and_then(|name| name.text());
                matches!(name.as_deref(), Some("after" | "before"))
            })
        });
        row.and_then(|row| row.get("fields"))
            .into_iter()
            .flat_map(|fields| fields.items())
    }

    fn without_rows(&self, kind: Kind) -> Decoded {
        let source = self.payload.get("source");
        let of_source = |name| source.and_then(|source| source.get(name));
        let text = |member: Option<Json<'d>>| member.and_then(|member| member.text());
        let number = |member: Option<Json<'d>>| member.and_then(|member| member.unsigned());
        let millis = number(of_source("ts_ms")).or_else(|| number(self.payload.get("ts_ms")));
        let time_us = number(of_source("ts_us"))
            .or_else(|| millis.map(|millis| millis.saturating_mul(1000)))
            .unwrap_or(0);
        let transaction = self.payload.get("transaction");
        let id = text(of_source("gtid"))
            .or_else(|| text(transaction.and_then(|block| block.get("id"))))
            .or_else(|| text(self.payload.get("id")));
        let position = match (text(of_source("file")), number(of_source("pos"))) {
            (Some(file), Some(offset)) => Some(format!("{file}:{offset}")),
            _ => None,
        };
        let database = text(of_source("db")).unwrap_or_default();
        let table = text(of_source("table")).unwrap_or_default();
        Decoded {
            kind,
            table: DecodedTable::new(&database, &table).schema(),
            before: None,
            after: None,
            sql: String::new(),
            time_us,
            id: None,
            transaction: id.map(Into::into),
            position,
            warnings: vec![],
        }
    }
}

fn image(table: &DecodedTable, plans: &[Plan], row: &Json<'_>) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::new();
    put_u64(&mut out, plans.len() as u64);
    for (plan, cell) in plans.iter().zip(table.cells(row)) {
        match cell {
            None => put_cell(&mut out, Cell::Unknown),
            Some(json) if json.is_null() => put_cell(&mut out, Cell::Null),
            Some(json) => {
                read_value::put(&mut out, plan, &json).map_err(|what| json.fault(what))?;
            }
        }
    }
    Ok(out)
}
