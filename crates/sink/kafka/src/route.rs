//! Which topic and which partition a row goes to.

use crate::config::{KafkaConfig, Keyless, PartitionBy};
use crate::error::invalid;
use crate::partition::partition_of;
use crate::template::Template;
use change::{Image, SinkError, TableSchema};
use format::key_text;
use format::name_template::PerTable;
use std::sync::Arc;

/// What is known of one table's topic; compiled once per schema version.
pub(crate) struct Route {
    pub topic: Arc<str>,
    pub partition_count: i32,
    /// Where the rows of a snapshot go; none for `topic`.
    pub snapshot: Option<(Arc<str>, i32)>,
    pub table: Arc<str>,
    spread: Spread,
}

/// What decides a row's partition.
enum Spread {
    First,
    Table,
    Key,
    Columns(Vec<usize>),
}

/// The topics that a config names.
pub(crate) struct Topics {
    of_tables: PerTable<Template>,
    pub ddl: Option<Template>,
    pub snapshot: Option<Template>,
}

impl Topics {
    /// Errors: `Invalid` for a template with an unknown placeholder.
    pub fn new(config: &KafkaConfig) -> Result<Self, SinkError> {
        let optional = |text: &Option<String>| text.as_deref().map(Template::parse).transpose();
        let default = || Template::parse(&config.topic);
        Ok(Self {
            of_tables: PerTable::new(&config.topics, Template::parse, invalid, default)?,
            ddl: optional(&config.ddl_topic)?,
            snapshot: optional(&config.snapshot_topic)?,
        })
    }

    /// The topic of a table's rows.
    pub fn of(&self, database: &str, table: &str) -> String {
        self.of_tables.of(database, table).render(database, table)
    }

    /// The one topic that everything goes to; none where the topic depends on the table.
    pub fn only(&self) -> Option<String> {
        let only = self.of_tables.only().filter(|only| only.is_constant());
        only.map(|only| only.render("", ""))
    }
}

/// Whether a change of the key moves a row of this table to another partition, so that each key's part
/// has to go out by itself.
pub(crate) fn splits_key_changes(config: &KafkaConfig, table: &TableSchema) -> bool {
    let has_columns = || {
        let columns = &config.partition_columns;
        !columns.is_empty() && columns.contains_key(&format!("{}.{}", table.database, table.name))
    };
    config.partition_by == PartitionBy::PrimaryKey
        && (config.keyless == Keyless::Spread || !table.key().is_empty())
        && !has_columns()
}

impl Route {
    /// Errors: text, for a partition column that the table lacks.
    pub fn new(
        config: &KafkaConfig,
        table: &TableSchema,
        (topic, partition_count): (Arc<str>, i32),
        snapshot: Option<(Arc<str>, i32)>,
    ) -> Result<Self, String> {
        let name = format!("{}.{}", table.database, table.name);
        let spread = match (config.partition_columns.get(&name), &config.partition_by) {
            (Some(columns), _) | (None, PartitionBy::Columns(columns)) => {
                Spread::Columns(table.columns_named(columns).map_err(|lacks| {
                    format!("the partition columns name {lacks}, which it lacks")
                })?)
            }
            (None, PartitionBy::First) => Spread::First,
            (None, PartitionBy::Table) => Spread::Table,
            (None, PartitionBy::PrimaryKey) if splits_key_changes(config, table) => Spread::Key,
            (None, PartitionBy::PrimaryKey) => Spread::First,
        };
        Ok(Self {
            topic,
            partition_count,
            snapshot,
            table: name.into(),
            spread,
        })
    }

    /// See [`splits_key_changes`].
    pub fn splits_key_changes(&self) -> bool {
        matches!(self.spread, Spread::Key)
    }

    /// Whether rows go to different partitions at all.
    pub fn is_spread(&self) -> bool {
        !matches!(self.spread, Spread::First)
    }

    /// The partition of a row; `key` is a buffer, and holds the text that decided, if one did.
    pub fn partition(
        &self,
        config: &KafkaConfig,
        partition_count: i32,
        (table, image): (&TableSchema, Option<&Image<'_>>),
        key: &mut Vec<u8>,
    ) -> i32 {
        let hash = config.partition_hash;
        key.clear();
        match (&self.spread, image) {
            (Spread::First, _) | (_, None) => return 0,
            (Spread::Table, _) => {
                return partition_of(hash, self.table.as_bytes(), partition_count);
            }
            (Spread::Columns(columns), Some(image)) => key_text::put_columns(key, columns, image),
            (Spread::Key, Some(image)) => key_text::put_key(key, table, image),
        }
        partition_of(hash, key, partition_count)
    }
}
