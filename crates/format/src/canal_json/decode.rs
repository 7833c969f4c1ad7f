//! Canal JSON back to changes: every flavour, both orientations of `old`, and the shapes that other
//! producers write.

use super::options::OldData;
use super::read_value;
use crate::declared;
use crate::decode::{Decoded, Decoder, Fault, Kind};
use crate::decoded_table::DecodedTable;
use crate::json_reader::{Document, Json};
use change::value::put_cell;
use change::wire::put_u64;
use change::{Cell, ColumnType, DdlKind, Operation};

const FORMAT: &str = "canal-json";

/// Rows times columns of one message. A row needs room for each column, also for one that it does not
/// have: a small message must not take much memory.
const CELLS_MAX: usize = 1 << 20;

/// What a row takes beside its columns, counted in cells.
const CELLS_OF_ROW: usize = 4;

/// Rows times bytes of the transaction's id, which each of them has.
const ID_BYTES_MAX: usize = 64 << 20;

/// The decoder.
#[derive(Debug, Default)]
pub struct CanalJsonDecoder {
    old_data: OldData,
    timestamp_offset_seconds: i32,
    is_bare: bool,
    document: Document,
}

impl CanalJsonDecoder {
    /// A decoder for messages with this meaning of `old`, whose TIMESTAMP columns are printed at this
    /// offset from UTC.
    pub fn new(old_data: OldData, timestamp_offset_seconds: i32) -> Self {
        Self {
            old_data,
            timestamp_offset_seconds,
            is_bare: false,
            document: Document::default(),
        }
    }

    /// Says that `mysqlType` never has lengths, precisions and fraction digits, as DTS writes it. Without it
    /// a message tells so where one of its types cannot stand without them.
    #[must_use]
    pub fn bare_types(mut self, is_bare: bool) -> Self {
        self.is_bare = is_bare;
        self
    }
}

impl Decoder for CanalJsonDecoder {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn decode(&mut self, message: &[u8], out: &mut Vec<Decoded>) -> Result<(), Fault> {
        let root = self.document.parse(FORMAT, message)?;
        if !root.is_object() {
            return Err(root.fault("an object is expected"));
        }
        let reader = Reader {
            root,
            old_data: self.old_data,
            offset_seconds: self.timestamp_offset_seconds,
            is_bare: self.is_bare,
        };
        let count = out.len();
        reader.read(out).inspect_err(|_| out.truncate(count))
    }
}

/// The row before and after, stored form.
type Images = (Option<Vec<u8>>, Option<Vec<u8>>);

struct Reader<'d> {
    root: Json<'d>,
    old_data: OldData,
    offset_seconds: i32,
    is_bare: bool,
}

impl<'d> Reader<'d> {
    fn read(&self, out: &mut Vec<Decoded>) -> Result<(), Fault> {
        let (kind, mut warnings) = self.kind()?;
        let Some(kind) = kind else {
            return Ok(());
        };
        warnings.extend(self.root.duplicates());
        let Kind::Row(operation) = kind else {
            let mut decoded = self.without_rows(kind, warnings);
            decoded.sql = self.text("sql");
            out.push(decoded);
            return Ok(());
        };
        let (data, old) = (
            self.rows("data", &mut warnings)?,
            self.rows("old", &mut warnings)?,
        );
        if data.is_none() && (operation != Operation::Delete || old.is_none()) {
            return Err(self.root.fault(match self.text("sql").is_empty() {
                true => "there is no row in `data`",
                // The server logs statements: what they did to which rows is not told.
                false => "a statement without its rows",
            }));
        }
        self.check_pairs(operation, data.as_deref(), old.as_deref(), &mut warnings)?;
        let table = self.table(data.as_deref(), old.as_deref())?;
        let rows = data.as_deref().or(old.as_deref()).unwrap_or_default();
        let mut of_all = self.without_rows(kind, Vec::new());
        let id_bytes = of_all.transaction.as_ref().map_or(0, String::len);
        let cells = rows
            .len()
            .saturating_mul(table.columns().len() + CELLS_OF_ROW);
        if rows.len() > 1
            && (cells > CELLS_MAX || rows.len().saturating_mul(id_bytes) > ID_BYTES_MAX)
        {
            return Err(self.root.fault("the message has too many rows and columns"));
        }
        of_all.table = table.schema();
        for (index, row) in rows.iter().enumerate() {
            let before = (old.as_ref())
                .and_then(|old| old.get(index))
                .filter(|old| old.is_object());
            let mut decoded = of_all.clone();
            decoded.warnings = std::mem::take(&mut warnings);
            (decoded.before, decoded.after) = self.images(operation, &table, row, before)?;
            out.push(decoded);
        }
        Ok(())
    }

    /// What the message is; none for one that says nothing of rows or schemas.
    fn kind(&self) -> Result<(Option<Kind>, Vec<Fault>), Fault> {
        let flag = self.root.get("isDdl").and_then(|flag| flag.boolean());
        let is_ddl = flag == Some(true);
        let Some(member) = self.root.get("type") else {
            if is_ddl {
                let kind = Kind::Ddl(statement_kind(&self.text("sql")));
                return Ok((Some(kind), vec![]));
            }
            return Err(self.root.fault("there is no member `type`"));
        };
        let Some(word) = member.text() else {
            return Err(member.fault("a string is expected"));
        };
        let upper = word.to_ascii_uppercase();
        let mut warnings = vec![];
        if upper != *word {
            warnings.push(member.fault("the type is not in upper case"));
        }
        let kind = match upper.as_str() {
            "INSERT" => Kind::Row(Operation::Insert),
            "UPDATE" => Kind::Row(Operation::Update),
            "DELETE" => Kind::Row(Operation::Delete),
            "INIT" | "ROW" => Kind::Row(Operation::Read),
            "CREATE" => Kind::Ddl(DdlKind::CreateTable),
            "ALTER" => Kind::Ddl(DdlKind::AlterTable),
            "ERASE" => Kind::Ddl(DdlKind::DropTable),
            "TRUNCATE" => Kind::Ddl(DdlKind::TruncateTable),
            "RENAME" => Kind::Ddl(DdlKind::RenameTable),
            "CINDEX" => Kind::Ddl(DdlKind::CreateIndex),
            "DINDEX" => Kind::Ddl(DdlKind::DropIndex),
            "DDL" | "INIT_DDL" => Kind::Ddl(statement_kind(&self.text("sql"))),
            // Canal's word for any other statement: of those only what changes a schema counts.
            "QUERY" => match (flag, statement_kind(&self.text("sql"))) {
                (Some(false), _) | (None, DdlKind::Other) => return Ok((None, warnings)),
                (_, kind) => Kind::Ddl(kind),
            },
            "XACOMMIT" => Kind::Commit,
            "XAROLLBACK" => Kind::Rollback,
            "MHEARTBEAT" | "TIDB_WATERMARK" => Kind::Heartbeat,
            _ if is_ddl => Kind::Ddl(statement_kind(&self.text("sql"))),
            _ => return Err(member.fault("an unknown type")),
        };
        Ok((Some(kind), warnings))
    }

    fn text(&self, name: &str) -> String {
        (self.root.get(name).and_then(|member| member.text())).map_or_else(String::new, Into::into)
    }

    /// `data` or `old`: the rows; none where it is null or not there.
    fn rows(&self, name: &str, warnings: &mut Vec<Fault>) -> Result<Option<Vec<Json<'d>>>, Fault> {
        let Some(member) = self.root.get(name) else {
            return Ok(None);
        };
        if member.is_object() {
            warnings.push(member.fault("an object stands where an array should"));
            return Ok(Some(vec![member]));
        }
        if !member.is_array() {
            return Err(member.fault("an array is expected"));
        }
        let rows: Vec<Json<'_>> = member.items().collect();
        if let Some(odd) = rows.iter().find(|row| !row.is_object() && !row.is_null()) {
            return Err(odd.fault("an object is expected"));
        }
        // `[null]` stands where other producers mean that there is nothing.
        let is_empty = rows.iter().all(Json::is_null);
        Ok((!is_empty || rows.is_empty()).then_some(rows))
    }

    fn check_pairs(
        &self,
        operation: Operation,
        data: Option<&[Json<'d>]>,
        old: Option<&[Json<'d>]>,
        warnings: &mut Vec<Fault>,
    ) -> Result<(), Fault> {
        let rows = data.or(old).unwrap_or_default();
        if let Some(odd) = rows.iter().find(|row| row.is_null()) {
            return Err(odd.fault("a row is missing"));
        }
        if operation == Operation::Update
            && let (Some(data), Some(old)) = (data, old)
            && data.len() != old.len()
        {
            let place = self.root.get("old").unwrap_or(self.root);
            warnings.push(place.fault("`old` has another number of rows than `data`"));
        }
        Ok(())
    }

    fn table(
        &self,
        data: Option<&[Json<'d>]>,
        old: Option<&[Json<'d>]>,
    ) -> Result<DecodedTable, Fault> {
        let mut table = DecodedTable::new(&self.text("database"), &self.text("table"));
        if let Some(types) = self.root.get("mysqlType") {
            let is_bare = self.is_bare
                || types.members().any(|(_, declared)| {
                    (declared.text()).is_some_and(|text| declared::lacks_parameters(&text))
                });
            for (name, declared) in types.members() {
                let text = declared.text().unwrap_or_default();
                let kind =
                    declared::parse(&text, is_bare).unwrap_or(ColumnType::Text { length_bytes: 4 });
                table.column(&name, &text, kind);
            }
        }
        for rows in [data, old].into_iter().flatten() {
            rows.iter().for_each(|row| table.text_columns(row));
        }
        if let Some(names) = self.root.get("pkNames") {
            for name in names.items() {
                let column = name.text().and_then(|name| table.index(&name));
                table.key_column(column.ok_or_else(|| name.fault("there is no such column"))?);
            }
        }
        Ok(table)
    }

    /// The images before and after of the row `shown` and what `old` has of it.
    fn images(
        &self,
        operation: Operation,
        table: &DecodedTable,
        shown: &Json<'d>,
        old: Option<&Json<'d>>,
    ) -> Result<Images, Fault> {
        let row = table.cells(shown);
        match operation {
            Operation::Update => {}
            Operation::Delete => return Ok((Some(self.image(table, &row)?), None)),
            _ => return Ok((None, Some(self.image(table, &row)?))),
        }
        let other = match old {
            Some(old) => {
                let mut cells = table.cells(old);
                for (cell, same) in cells.iter_mut().zip(&row) {
                    *cell = cell.or(*same);
                }
                Some(self.image(table, &cells)?)
            }
            None => None,
        };
        let row = Some(self.image(table, &row)?);
        Ok(match self.old_data {
            OldData::Current => (other, row),
            OldData::Before2022 => (row, other),
        })
    }

    fn image(&self, table: &DecodedTable, cells: &[Option<Json<'d>>]) -> Result<Vec<u8>, Fault> {
        let mut out = Vec::new();
        put_u64(&mut out, cells.len() as u64);
        for (column, cell) in table.columns().iter().zip(cells) {
            match cell {
                None => put_cell(&mut out, Cell::Unknown),
                Some(json) if json.is_null() => put_cell(&mut out, Cell::Null),
                Some(json) => {
                    read_value::put_cell(&mut out, &column.kind, json, self.offset_seconds)
                        .map_err(|what| json.fault(what))?;
                }
            }
        }
        Ok(out)
    }

    fn without_rows(&self, kind: Kind, warnings: Vec<Fault>) -> Decoded {
        let number = |name| self.root.get(name).and_then(|member| member.unsigned());
        let gtid = self.text("gtid");
        Decoded {
            kind,
            table: DecodedTable::new(&self.text("database"), &self.text("table")).schema(),
            before: None,
            after: None,
            sql: String::new(),
            time_us: number("es").unwrap_or(0).saturating_mul(1000),
            id: number("id"),
            transaction: (!gtid.is_empty()).then_some(gtid),
            position: None,
            warnings,
        }
    }
}

/// The class of a statement, told from its first words.
pub(crate) fn statement_kind(sql: &str) -> DdlKind {
    let mut sql = sql.trim_start();
    while let Some(comment) = sql
        .strip_prefix("/*")
        .filter(|rest| !rest.starts_with('!') && !rest.starts_with("M!"))
    {
        sql = comment
            .split_once("*/")
            .map_or("", |(_, rest)| rest.trim_start());
    }
    let mut words = sql
        .split(|character: char| !character.is_ascii_alphanumeric() && character != '_')
        // What a version comment holds is part of the statement, its number is not.
        .filter(|word| !word.is_empty() && !word.bytes().all(|byte| byte.is_ascii_digit()))
        .map(str::to_ascii_uppercase);
    let verb = words.next().unwrap_or_default();
    let object = words
        .find(|word| {
            !matches!(
                word.as_str(),
                "TEMPORARY" | "OR" | "REPLACE" | "UNIQUE" | "ONLINE"
            )
        })
        .unwrap_or_default();
    match (verb.as_str(), object.as_str()) {
        ("CREATE" | "ALTER" | "DROP", "DATABASE" | "SCHEMA") => DdlKind::Database,
        ("CREATE", "TABLE") => DdlKind::CreateTable,
        ("ALTER", "TABLE") => DdlKind::AlterTable,
        ("DROP", "TABLE") => DdlKind::DropTable,
        ("TRUNCATE", _) => DdlKind::TruncateTable,
        ("RENAME", "TABLE") => DdlKind::RenameTable,
        ("CREATE", "INDEX" | "FULLTEXT" | "SPATIAL") => DdlKind::CreateIndex,
        ("DROP", "INDEX") => DdlKind::DropIndex,
        _ => DdlKind::Other,
    }
}
