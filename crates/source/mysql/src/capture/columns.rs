//! What becomes of columns before anything is stored: excluded or masked.

use crate::binlog::mask::MaskKey;
use crate::binlog::plan::Treatment;
use change::schema::UniqueKey;
use change::{Column, ColumnType, TableSchema};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How one column is masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mask {
    /// SHA-256 in hex, keyed where a key is configured.
    Sha256,
    /// NULL.
    Null,
}

/// The rules of one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableRules {
    /// Columns that are stored nowhere.
    pub exclude: Vec<String>,
    /// Columns whose values are replaced.
    pub mask: BTreeMap<String, Mask>,
}

/// The rules of all tables, by `database.table`.
#[derive(Debug, Clone, Default)]
pub struct ColumnRules {
    /// By `database.table`, as configured.
    pub tables: BTreeMap<String, TableRules>,
    /// Key of the hashes.
    pub key: Arc<MaskKey>,
}

impl ColumnRules {
    fn of(&self, schema: &TableSchema) -> Option<&TableRules> {
        let name = format!("{}.{}", schema.database, schema.name);
        // In the wrong case a name may still be meant: it is better to hide too much than too little.
        self.tables.get(&name).or_else(|| {
            let mut rules = self.tables.iter();
            rules
                .find(|(table, _)| table.eq_ignore_ascii_case(&name))
                .map(|(_, rules)| rules)
        })
    }

    /// What becomes of each column.
    ///
    /// Errors: a text when a key column would be lost.
    pub fn treatments(&self, schema: &TableSchema) -> Result<Vec<Treatment>, String> {
        let Some(rules) = self.of(schema) else {
            return Ok(vec![Treatment::Keep; schema.columns.len()]);
        };
        let treatments: Vec<Treatment> = schema
            .columns
            .iter()
            .map(|column| self.treatment(rules, &column.name))
            .collect();
        for index in schema.key() {
            if matches!(
                treatments[*index as usize],
                Treatment::Exclude | Treatment::Redact
            ) {
                return Err(format!(
                    "column {:?} is part of the key of {}.{}: it can be hashed, not excluded",
                    schema.columns[*index as usize].name, schema.database, schema.name
                ));
            }
        }
        Ok(treatments)
    }

    fn treatment(&self, rules: &TableRules, column: &str) -> Treatment {
        let is = |name: &String| name.eq_ignore_ascii_case(column);
        if rules.exclude.iter().any(is) {
            return Treatment::Exclude;
        }
        match rules.mask.iter().find(|(name, _)| is(name)) {
            Some((_, Mask::Sha256)) => Treatment::Hash(Arc::clone(&self.key)),
            Some((_, Mask::Null)) => Treatment::Redact,
            None => Treatment::Keep,
        }
    }

    /// Names in the rules that the table does not have.
    pub fn unknown_columns<'a>(&'a self, schema: &TableSchema) -> Vec<&'a str> {
        let has = |name: &str| {
            schema
                .columns
                .iter()
                .any(|column| column.name.eq_ignore_ascii_case(name))
        };
        self.of(schema)
            .into_iter()
            .flat_map(|rules| rules.exclude.iter().chain(rules.mask.keys()))
            .map(String::as_str)
            .filter(|name| !has(name))
            .collect()
    }
}

/// The schema of the images: without excluded columns, masked ones marked.
pub fn emitted_schema(schema: &TableSchema, treatments: &[Treatment]) -> TableSchema {
    let mut places = vec![None; schema.columns.len()];
    let mut columns = Vec::with_capacity(schema.columns.len());
    for (index, (column, treatment)) in schema.columns.iter().zip(treatments).enumerate() {
        if *treatment == Treatment::Exclude {
            continue;
        }
        places[index] = Some(columns.len() as u32);
        columns.push(match treatment {
            Treatment::Keep | Treatment::Exclude => column.clone(),
            Treatment::Redact => Column {
                nullable: true,
                default: None,
                masked: true,
                ..column.clone()
            },
            Treatment::Hash(_) => Column {
                declared: "varchar(64)".into(),
                kind: ColumnType::Varchar { length: 64 },
                charset: Some("utf8mb4".into()),
                collation: None,
                default: None,
                masked: true,
                ..column.clone()
            },
        });
    }
    let moved = |key: &Vec<u32>| -> Option<Vec<u32>> {
        key.iter().map(|index| places[*index as usize]).collect()
    };
    TableSchema {
        columns,
        primary_key: moved(&schema.primary_key).unwrap_or_default(),
        unique_keys: schema
            .unique_keys
            .iter()
            .filter_map(|key| {
                Some(UniqueKey {
                    name: key.name.clone(),
                    columns: moved(&key.columns)?,
                })
            })
            .collect(),
        ..schema.clone()
    }
}
