//! The structure of one table in the target: its columns, its key, and how each value is written.

use crate::added_column::{self, OldRows};
use crate::config::{ClickHouseConfig, Engine, Keyless, Layout, Mode, TableConfig};
use crate::encode::{DateRange, Writer};
use crate::names::{self, list, quote};
use crate::server::Version;
use crate::target_type::Target;
use crate::type_map;
use change::TableSchema;
use std::sync::Arc;

/// One column of the source in the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TargetColumn {
    /// Its name, the source's.
    pub name: String,
    /// Its type, as DESCRIBE prints it once the table is there.
    pub type_text: String,
    /// What rows have of it that were there before it.
    pub old_rows: OldRows,
    /// The comment.
    pub comment: String,
}

/// Names of the columns that the sink adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Added {
    pub sign: String,
    pub version: String,
    pub dversion: String,
    pub row_version: String,
    pub dts: String,
    pub epoch: String,
    pub is_deleted: String,
    pub event: String,
    pub row: String,
    pub occurrence: String,
}

impl Added {
    pub(crate) fn new(prefix: &str) -> Self {
        let name = |name: &str| format!("{prefix}{name}");
        Self {
            sign: name("sign"),
            version: name("version"),
            dversion: name("dversion"),
            row_version: name("row_version"),
            dts: name("dts"),
            epoch: name("epoch"),
            is_deleted: name("is_deleted"),
            event: name("event"),
            row: name("row"),
            occurrence: name("occurrence"),
        }
    }

    fn all(&self) -> [&String; 10] {
        [
            &self.sign,
            &self.version,
            &self.dversion,
            &self.row_version,
            &self.dts,
            &self.epoch,
            &self.is_deleted,
            &self.event,
            &self.row,
            &self.occurrence,
        ]
    }
}

/// What a table is in the target.
#[derive(Debug, Clone)]
pub(crate) struct TableLayout {
    /// The source's schema that it follows.
    pub schema: Arc<TableSchema>,
    /// One column for each of the source's.
    pub columns: Vec<TargetColumn>,
    /// How each is written; empty until the target was described.
    pub writers: Vec<Writer>,
    /// Indexes of the columns that identify a row; empty for a table without a key.
    pub key: Vec<usize>,
    /// Indexes of the columns of ORDER BY; empty for a table without a key.
    pub sort: Vec<usize>,
    /// PARTITION BY; may be empty.
    pub partition_by: String,
    settings: Vec<(String, String)>,
    added: Added,
    mode: Mode,
    style: Layout,
    engine: Engine,
    fsync: bool,
}

/// Why a table cannot be in the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoLayout(pub String);

impl TableLayout {
    /// The structure that the config asks for.
    pub(crate) fn new(
        schema: &Arc<TableSchema>,
        config: &ClickHouseConfig,
        version: Version,
    ) -> Result<Self, NoLayout> {
        if let Some(why) = schema.cql_refusal() {
            return Err(NoLayout(why));
        }
        let name = format!("{}.{}", schema.database, schema.name);
        let plain = TableConfig::default();
        let own = config.tables.get(&name).unwrap_or(&plain);
        let added = Added::new(&config.column_prefix);
        if let Some(column) = schema
            .columns
            .iter()
            .find(|column| added.all().contains(&&column.name))
        {
            return Err(NoLayout(format!(
                "its column `{}` has the name of a column that the sink adds: set column_prefix",
                column.name
            )));
        }
        let key = key(schema, own, config.keyless)?;
        let sort = match own.order_by.is_empty() {
            true => key.clone(),
            false => find(schema, &own.order_by, "order_by")?,
        };
        if config.mode == Mode::SignVersion && !key.iter().all(|index| sort.contains(index)) {
            return Err(NoLayout(
                "order_by must contain the key in mode sign_version: rows would replace each other"
                    .into(),
            ));
        }
        if key.is_empty()
            && config.mode == Mode::SignVersion
            && config.engine == Engine::VersionedCollapsing
        {
            return Err(NoLayout(
                "it has no key, and engine: versioned_collapsing needs one: use engine: replacing"
                    .into(),
            ));
        }
        if key.is_empty() && !sort.is_empty() {
            return Err(NoLayout("order_by needs a key".into()));
        }
        let columns = schema.columns.iter().enumerate().map(|(index, column)| {
            let in_key = key.contains(&index) || sort.contains(&index);
            let type_text =
                own.types.get(&column.name).cloned().unwrap_or_else(|| {
                    type_map::target_type(column, in_key, &config.types, version)
                });
            TargetColumn {
                name: column.name.clone(),
                old_rows: added_column::old_rows(column, &type_text, version.has_all_dates()),
                type_text,
                comment: column.comment.clone(),
            }
        });
        Ok(Self {
            columns: columns.collect(),
            schema: Arc::clone(schema),
            writers: Vec::new(),
            key,
            sort,
            partition_by: own.partition_by.clone(),
            settings: own
                .settings
                .iter()
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            added,
            mode: config.mode,
            style: config.layout,
            engine: config.engine,
            fsync: config.fsync,
        })
    }

    /// Takes the types that the target really has, and makes the writers.
    ///
    /// Shape: `described` are names and types as DESCRIBE prints them.
    pub(crate) fn describe(
        &mut self,
        described: &[Vec<String>],
        range: DateRange,
    ) -> Result<(), NoLayout> {
        let mut writers = Vec::with_capacity(self.columns.len());
        for (column, source) in self.columns.iter_mut().zip(&self.schema.columns) {
            let found = described.iter().find(|row| row[0] == column.name);
            let Some(row) = found else {
                return Err(NoLayout(format!(
                    "the target's table has no column `{}`",
                    column.name
                )));
            };
            column.type_text.clone_from(&row[1]);
            let target = Target::parse(&row[1]).ok_or_else(|| {
                NoLayout(format!(
                    "the target's column `{}` has the type {}, which the sink cannot write",
                    column.name, row[1]
                ))
            })?;
            writers.push(Writer::new(target, &source.kind, range));
        }
        self.writers = writers;
        Ok(())
    }

    /// Whether a column has ClickHouse's type JSON.
    pub(crate) fn has_json(&self) -> bool {
        let is_json = |column: &TargetColumn| {
            let kind = column.type_text.trim_start_matches("Nullable(");
            kind.starts_with("JSON")
        };
        self.columns.iter().any(is_json)
    }

    /// Whether a row that goes must have this column as it was: it is found by it.
    pub(crate) fn finds_by(&self, column: usize) -> bool {
        self.key.contains(&column) || self.mode == Mode::SignVersion && self.sort.contains(&column)
    }

    pub(crate) fn is_keyless(&self) -> bool {
        self.key.is_empty()
    }

    pub(crate) fn added(&self) -> &Added {
        &self.added
    }

    /// A name for an expression of a query, which no column of the source has: quoted.
    pub(crate) fn alias(&self, name: &str) -> String {
        let mut own = format!("{}_{name}", self.added.sign);
        while self.columns.iter().any(|column| column.name == own) {
            own.push('_');
        }
        quote(&own)
    }

    /// Names of the columns that identify a row in the target.
    pub(crate) fn key_names(&self) -> Vec<String> {
        self.names_of(&self.key)
    }

    /// Names of the columns of ORDER BY.
    pub(crate) fn sort_names(&self) -> Vec<String> {
        self.names_of(&self.sort)
    }

    fn names_of(&self, indexes: &[usize]) -> Vec<String> {
        if self.is_keyless() {
            return vec![self.added.row.clone(), self.added.occurrence.clone()];
        }
        let name = |index: &usize| self.columns[*index].name.clone();
        indexes.iter().map(name).collect()
    }

    /// `(a, b)`, for IN.
    pub(crate) fn key_tuple(&self) -> String {
        let names = self.key_names();
        match names.as_slice() {
            [one] => quote(one),
            _ => format!("({})", list(&names)),
        }
    }

    /// Names of the source's columns.
    pub(crate) fn column_names(&self) -> Vec<String> {
        self.columns.iter().map(|c| c.name.clone()).collect()
    }

    /// Names and types of the key columns.
    pub(crate) fn key_columns(&self) -> Vec<(String, String)> {
        if self.is_keyless() {
            return vec![
                (self.added.row.clone(), "UInt128".into()),
                (self.added.occurrence.clone(), "UInt32".into()),
            ];
        }
        let of = |index: &usize| {
            let column = &self.columns[*index];
            (column.name.clone(), column.type_text.clone())
        };
        self.key.iter().map(of).collect()
    }

    /// Columns of an insert into the base (or, in mode `sign_version`, the table): names and types.
    pub(crate) fn base_insert(&self) -> Vec<(String, String)> {
        let mut out = self.source_insert();
        if self.mode == Mode::SignVersion {
            out.push((self.added.sign.clone(), "Int8".into()));
        }
        out.push((self.added.version.clone(), "UInt64".into()));
        if self.has_event() {
            out.push((self.added.event.clone(), "UInt64".into()));
        }
        self.push_identity(&mut out);
        out
    }

    /// Whether rows carry the sequence of the change that wrote them beside the version.
    pub(crate) fn has_event(&self) -> bool {
        self.mode == Mode::SignVersion && self.engine == Engine::VersionedCollapsing
    }

    /// Columns of an insert into the delta.
    pub(crate) fn delta_insert(&self) -> Vec<(String, String)> {
        let mut out = self.source_insert();
        let added = &self.added;
        out.push((added.version.clone(), "UInt64".into()));
        out.push((added.dversion.clone(), "UInt64".into()));
        out.push((added.row_version.clone(), "UInt64".into()));
        out.push((added.dts.clone(), "DateTime64(3, 'UTC')".into()));
        out.push((added.epoch.clone(), "UInt64".into()));
        self.push_identity(&mut out);
        out
    }

    fn source_insert(&self) -> Vec<(String, String)> {
        let of = |c: &TargetColumn| (c.name.clone(), c.type_text.clone());
        self.columns.iter().map(of).collect()
    }

    fn push_identity(&self, out: &mut Vec<(String, String)>) {
        if self.is_keyless() {
            out.push((self.added.row.clone(), "UInt128".into()));
            out.push((self.added.occurrence.clone(), "UInt32".into()));
        }
    }

    fn column_lines(&self) -> Vec<String> {
        self.columns
            .iter()
            .enumerate()
            .map(|(index, column)| {
                let mut line = self.column_line(column);
                let is_number = ["Int", "UInt", "Date"]
                    .iter()
                    .any(|start| column.type_text.starts_with(start));
                if self.sort.first() == Some(&index) && is_number {
                    line.push_str(" CODEC(Delta, LZ4)");
                }
                line
            })
            .collect()
    }

    /// `name type [COMMENT '…']`.
    pub(crate) fn column_line(&self, column: &TargetColumn) -> String {
        let mut line = format!("{} {}", quote(&column.name), column.type_text);
        if !column.comment.is_empty() {
            line.push_str(" COMMENT ");
            line.push_str(&names::literal(&column.comment));
        }
        line
    }

    fn order_by(&self) -> String {
        let names = match self.mode {
            Mode::SignVersion => self.sort_names(),
            Mode::Mvcc => match self.sort.is_empty() {
                true => self.key_names(),
                false => self.sort_names(),
            },
        };
        format!("({})", list(&names))
    }

    fn settings_text(&self, more: &[(&str, &str)]) -> String {
        let mut settings: Vec<(String, String)> =
            vec![("non_replicated_deduplication_window".into(), "1000".into())];
        if self.fsync {
            settings.push(("fsync_after_insert".into(), "1".into()));
            settings.push(("fsync_part_directory".into(), "1".into()));
        }
        let more = more.iter().map(|(n, v)| ((*n).into(), (*v).into()));
        settings.extend(more);
        settings.extend(self.settings.iter().cloned());
        let parts: Vec<String> = settings
            .iter()
            .map(|(name, value)| match value.parse::<f64>() {
                Ok(_) => format!("{name} = {value}"),
                Err(_) => format!("{name} = {}", names::literal(value)),
            })
            .collect();
        parts.join(", ")
    }

    /// CREATE TABLE of the base (or, in mode `sign_version`, of the table) under `name`.
    pub(crate) fn create_base(&self, name: &str) -> String {
        let added = &self.added;
        let mut lines = self.column_lines();
        let hidden = self.mode == Mode::Mvcc && self.style == Layout::Clean;
        let word = |hidden| if hidden { "MATERIALIZED" } else { "DEFAULT" };
        lines.push(format!("{} Int8 {} 1", quote(&added.sign), word(hidden)));
        lines.push(format!(
            "{} UInt64 {} 0",
            quote(&added.version),
            word(hidden)
        ));
        let mut more: Vec<(&str, &str)> = Vec::new();
        let engine = match (self.mode, self.engine) {
            (Mode::Mvcc, _) => {
                lines.push(format!("{} UInt64 MATERIALIZED 0", quote(&added.dversion)));
                "MergeTree".to_owned()
            }
            (Mode::SignVersion, Engine::Replacing) => {
                lines.push(format!(
                    "{} UInt8 MATERIALIZED {} < 0",
                    quote(&added.is_deleted),
                    quote(&added.sign)
                ));
                more.push(("allow_experimental_replacing_merge_with_cleanup", "1"));
                format!(
                    "ReplacingMergeTree({}, {})",
                    quote(&added.version),
                    quote(&added.is_deleted)
                )
            }
            (Mode::SignVersion, Engine::VersionedCollapsing) => {
                lines.push(format!("{} UInt64 MATERIALIZED 0", quote(&added.event)));
                format!(
                    "VersionedCollapsingMergeTree({}, {})",
                    quote(&added.sign),
                    quote(&added.version)
                )
            }
        };
        if self.is_keyless() {
            lines.push(format!("{} UInt128 MATERIALIZED 0", quote(&added.row)));
            lines.push(format!(
                "{} UInt32 MATERIALIZED 0",
                quote(&added.occurrence)
            ));
        }
        let partition = match self.partition_by.is_empty() {
            true => String::new(),
            false => format!(" PARTITION BY {}", self.partition_by),
        };
        format!(
            "CREATE TABLE IF NOT EXISTS {name} ({}) ENGINE = {engine}{partition} ORDER BY {} SETTINGS {} \
             COMMENT {}",
            lines.join(", "),
            self.order_by(),
            self.settings_text(&more),
            names::literal(&self.schema.comment)
        )
    }

    /// CREATE TABLE of the delta under `name`.
    pub(crate) fn create_delta(&self, name: &str) -> String {
        let added = &self.added;
        let mut lines = self.column_lines();
        lines.push(format!("{} UInt64", quote(&added.version)));
        lines.push(format!("{} UInt64", quote(&added.dversion)));
        lines.push(format!("{} UInt64", quote(&added.row_version)));
        lines.push(format!("{} DateTime64(3, 'UTC')", quote(&added.dts)));
        lines.push(format!("{} UInt64", quote(&added.epoch)));
        if self.is_keyless() {
            lines.push(format!("{} UInt128", quote(&added.row)));
            lines.push(format!("{} UInt32", quote(&added.occurrence)));
        }
        format!(
            "CREATE TABLE IF NOT EXISTS {name} ({}) ENGINE = MergeTree PARTITION BY {} ORDER BY ({}, {}) \
             SETTINGS {}",
            lines.join(", "),
            quote(&added.epoch),
            list(self.key_names()),
            quote(&added.version),
            self.settings_text(&[])
        )
    }

    /// Columns that a view shows: of the source, in layout `libra` the sign and the version too.
    fn view_columns(&self, sign: &str) -> String {
        let mut columns = list(self.column_names());
        if self.style == Layout::Libra {
            columns.push_str(&format!(", {sign}, {}", quote(&self.added.version)));
        }
        columns
    }

    /// The live view over `base` and `delta`, for changes after `folded`; `watermark` is a subquery.
    pub(crate) fn create_live_view(
        &self,
        view: &str,
        (base, delta): (&str, &str),
        folded: u64,
        watermark: &str,
    ) -> String {
        let added = &self.added;
        let key = self.key_tuple();
        let keys = list(self.key_names());
        let version = quote(&added.version);
        let pending = format!(
            "FROM {delta} WHERE {} > {folded} AND {version} <= {watermark}",
            quote(&added.epoch)
        );
        let sign = quote(&added.sign);
        let base_columns = self.view_columns(&sign);
        let delta_columns = self.view_columns(&format!("toInt8(1) AS {sign}"));
        let mut inner = self.column_names();
        inner.extend([added.version.clone(), added.dversion.clone()]);
        format!(
            "CREATE OR REPLACE VIEW {view} AS SELECT {base_columns} FROM {base} WHERE (SELECT count() \
             {pending}) = 0 OR {key} NOT IN (SELECT {keys} {pending}) UNION ALL SELECT {delta_columns} \
             FROM (SELECT {} {pending} ORDER BY {keys}, {version} DESC LIMIT 1 BY {keys}) WHERE {} = 0",
            list(inner),
            quote(&added.dversion)
        )
    }

    /// In mode `sign_version`, the view that reads with FINAL.
    pub(crate) fn create_final_view(&self, view: &str, base: &str) -> String {
        format!(
            "CREATE OR REPLACE VIEW {view} AS SELECT {} FROM {base} FINAL WHERE {} > 0",
            list(self.column_names()),
            quote(&self.added.sign)
        )
    }

    /// Latest row of each key of the delta up to an epoch, those that live: the fold's insert.
    pub(crate) fn select_fold(&self, delta: &str, epoch: u64) -> String {
        let added = &self.added;
        let mut columns = self.column_names();
        columns.push(added.version.clone());
        if self.is_keyless() {
            columns.extend([added.row.clone(), added.occurrence.clone()]);
        }
        let keys = list(self.key_names());
        let mut inner = columns.clone();
        inner.push(added.dversion.clone());
        format!(
            "SELECT {} FROM (SELECT {} FROM {delta} WHERE {} <= {epoch} ORDER BY {keys}, {} DESC LIMIT 1 \
             BY {keys}) WHERE {} = 0",
            list(&columns),
            list(&inner),
            quote(&added.epoch),
            quote(&added.version),
            quote(&added.dversion)
        )
    }

    /// Columns of [`select_fold`](Self::select_fold), for its INSERT.
    pub(crate) fn fold_columns(&self) -> String {
        let added = &self.added;
        let mut columns = self.column_names();
        columns.push(added.version.clone());
        if self.is_keyless() {
            columns.extend([added.row.clone(), added.occurrence.clone()]);
        }
        list(columns)
    }
}

fn find(schema: &TableSchema, names: &[String], what: &str) -> Result<Vec<usize>, NoLayout> {
    let found = schema
        .columns_named(names)
        .map_err(|name| NoLayout(format!("{what} names `{name}`, which it does not have")))?;
    if let Some(index) = found.iter().find(|index| schema.columns[**index].nullable) {
        return Err(NoLayout(format!(
            "{what} names `{}`, which may be NULL",
            schema.columns[*index].name
        )));
    }
    Ok(found)
}

fn key(schema: &TableSchema, own: &TableConfig, keyless: Keyless) -> Result<Vec<usize>, NoLayout> {
    if !own.key.is_empty() {
        return find(schema, &own.key, "key");
    }
    let key: Vec<usize> = schema.key().iter().map(|index| *index as usize).collect();
    if key.is_empty() && keyless == Keyless::Refuse {
        return Err(NoLayout(
            "it has no key: give it a primary key, name one under tables.<table>.key, or set keyless: \
             identity"
                .into(),
        ));
    }
    Ok(key)
}
