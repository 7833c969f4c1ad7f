//! Which topic a table's messages go to, and which queue of it a row.

use crate::config::{Keyless, PartitionBy, RocketMqConfig};
use crate::error::invalid;
use crate::template::Template;
use crate::topics::Topic;
use change::{SinkError, TableSchema};
use cheetah_string::CheetahString;
use format::name_template::PerTable;
use std::sync::Arc;

/// What is known of one table's topics; compiled once per schema version.
pub(crate) struct Route {
    pub topic: Arc<Topic>,
    /// Where the rows of a snapshot go; none for `topic`.
    pub snapshot: Option<Arc<Topic>>,
    pub table: Arc<str>,
    pub tag: CheetahString,
    pub spread: Spread,
}

/// What decides a row's queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Spread {
    First,
    Table,
    Key,
    Columns(Vec<usize>),
}

impl Spread {
    /// Errors: the column of `partition_by` that the table lacks.
    pub fn of(config: &RocketMqConfig, table: &TableSchema) -> Result<Self, String> {
        Ok(match &config.partition_by {
            PartitionBy::PrimaryKey if splits_key_changes(config, table) => Self::Key,
            PartitionBy::PrimaryKey | PartitionBy::First => Self::First,
            PartitionBy::Table => Self::Table,
            PartitionBy::Columns(wanted) => {
                let columns = table.columns_named(wanted).map_err(str::to_owned)?;
                Self::Columns(columns)
            }
        })
    }
}

/// Whether a change of the key moves a row of this table to another queue, so that each key's part has to
/// go out by itself.
pub(crate) fn splits_key_changes(config: &RocketMqConfig, table: &TableSchema) -> bool {
    config.partition_by == PartitionBy::PrimaryKey
        && (config.keyless == Keyless::Spread || !table.key().is_empty())
}

/// The names of the topics that a config tells.
#[derive(Debug)]
pub(crate) struct TopicNames {
    of_tables: PerTable<Template>,
    pub ddl: Option<Template>,
    pub snapshot: Option<Template>,
}

impl TopicNames {
    /// Errors: `Invalid` for a template with an unknown placeholder, and for what is no table.
    pub fn new(config: &RocketMqConfig) -> Result<Self, SinkError> {
        let optional = |key: &str, text: &Option<String>| {
            let text = text.as_deref();
            text.map(|text| Template::parse(key, text)).transpose()
        };
        let of_table = |text: &str| Template::parse("topics", text);
        let default = || Template::parse("topic", &config.topic);
        Ok(Self {
            of_tables: PerTable::new(&config.topics, of_table, invalid, default)?,
            ddl: optional("ddl_topic", &config.ddl_topic)?,
            snapshot: optional("snapshot_topic", &config.snapshot_topic)?,
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

    /// The topic of a statement; none for one without a table where no topic is for all tables.
    pub fn of_statement(&self, database: &str, table: &str) -> Option<String> {
        match (&self.ddl, self.only()) {
            (Some(template), _) => Some(template.render(database, table)),
            (None, Some(only)) => Some(only),
            (None, None) if table.is_empty() => None,
            (None, None) => Some(self.of(database, table)),
        }
    }

    /// The topic of marks and heartbeats, which belong to no table: the only one, else that of statements
    /// where that is one.
    pub fn of_marks(&self) -> Option<String> {
        let ddl = self.ddl.as_ref().filter(|ddl| ddl.is_constant());
        self.only().or_else(|| ddl.map(|ddl| ddl.render("", "")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::{Column, ColumnType, SchemaVersion, TableId};

    fn config(more: serde_json::Value) -> RocketMqConfig {
        let mut fields = serde_json::json!({"name_servers": ["localhost:9876"]});
        for (key, value) in more.as_object().unwrap() {
            fields[key] = value.clone();
        }
        serde_json::from_value(fields).unwrap()
    }

    fn names(more: serde_json::Value) -> TopicNames {
        TopicNames::new(&config(more)).unwrap()
    }

    fn table(primary_key: Vec<u32>) -> TableSchema {
        TableSchema {
            table: TableId(1),
            version: SchemaVersion(1),
            database: "shop".into(),
            name: "log".into(),
            columns: vec![Column {
                name: "id".into(),
                declared: "int".into(),
                kind: ColumnType::Int {
                    bytes: 4,
                    unsigned: false,
                },
                charset: None,
                collation: None,
                nullable: true,
                default: None,
                comment: String::new(),
                generated: false,
                invisible: false,
                masked: false,
            }],
            primary_key,
            unique_keys: Vec::new(),
            charset: None,
            comment: String::new(),
        }
    }

    #[test]
    fn a_table_s_own_topic_goes_before_its_database_s_and_the_default() {
        let names = names(serde_json::json!({
            "topic": "all",
            "topics": {"shop.orders": "orders", "shop.*": "shop-{table}"},
        }));
        assert_eq!(names.of("shop", "orders"), "orders");
        assert_eq!(names.of("shop", "items"), "shop-items");
        assert_eq!(names.of("hr", "people"), "all");
        assert_eq!(names.only(), None);
        let refused = TopicNames::new(&config(serde_json::json!({"topics": {"orders": "x"}})));
        assert!(refused.unwrap_err().to_string().contains("`orders`"));
    }

    #[test]
    fn statements_and_marks_go_where_a_topic_is_for_them() {
        let one = names(serde_json::json!({"topic": "all"}));
        assert_eq!(one.of_statement("shop", "").as_deref(), Some("all"));
        assert_eq!(one.of_marks().as_deref(), Some("all"));
        let own = names(serde_json::json!({"topic": "all", "topics": {"shop.orders": "orders"}}));
        assert_eq!(own.of_statement("shop", ""), None);
        let orders = own.of_statement("shop", "orders");
        assert_eq!(orders.as_deref(), Some("orders"));
        assert_eq!(own.of_marks(), None);
        let apart = names(serde_json::json!({"ddl_topic": "ddl"}));
        assert_eq!(apart.of_statement("shop", "").as_deref(), Some("ddl"));
        let orders = apart.of_statement("shop", "orders");
        assert_eq!(orders.as_deref(), Some("ddl"));
        assert_eq!(apart.of_marks().as_deref(), Some("ddl"));
    }

    #[test]
    fn a_table_without_a_key_is_spread_unless_it_is_to_stay_in_one_queue() {
        let (keyed, keyless) = (table(vec![0]), table(vec![]));
        let spread = |more, table: &TableSchema| Spread::of(&config(more), table);
        let none = || serde_json::json!({});
        let first = || serde_json::json!({"keyless": "first"});
        assert_eq!(spread(none(), &keyed), Ok(Spread::Key));
        assert_eq!(spread(none(), &keyless), Ok(Spread::Key));
        assert_eq!(spread(first(), &keyed), Ok(Spread::Key));
        assert_eq!(spread(first(), &keyless), Ok(Spread::First));
        assert!(!splits_key_changes(&config(first()), &keyless));
        let columns = serde_json::json!({"keyless": "first", "partition_by": {"columns": ["id"]}});
        assert_eq!(spread(columns, &keyless), Ok(Spread::Columns(vec![0])));
        let lacks = serde_json::json!({"partition_by": {"columns": ["x"]}});
        assert!(spread(lacks, &keyless).is_err());
    }
}
