//! The CQL door: the statements that have to do with change streams, for whoever is at the machine.
//!
//! `ALTER TABLE … WITH cdc = …`, `CUSTOM_PROPERTIES`, `ADD TAGS_FOR_CDC`, `DROP TAGS_FOR_CDC`, and SELECT on
//! `system_schema_mcs.tables`, `.streams`, `.tags` and `.keyspaces`. Each does what the operation of the API does, and is
//! recorded like it. Anything else of CQL is refused with what there is.

mod execute;
mod lexer;
mod statement;
mod tables;

use crate::api::Api;
use crate::call::LocalUser;
use crate::error::ApiError;
use serde::Serialize;
use serde_json::Value;

/// What a statement gives back: rows of a SELECT, nothing of an ALTER.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Rows {
    /// The columns' names.
    pub columns: Vec<String>,
    /// One value for each column.
    pub rows: Vec<Vec<Value>>,
}

/// Does one statement.
///
/// Errors: `ValidationException` for a statement that is not understood, with the place; else as the API's operation.
pub fn execute(api: &Api, user: &LocalUser, text: &str) -> Result<Rows, ApiError> {
    let statement = statement::parse(text).map_err(ApiError::invalid)?;
    execute::run(api, user, statement)
}

impl Rows {
    /// As `cqlsh` shows them.
    pub fn to_text(&self) -> String {
        if self.columns.is_empty() {
            return String::new();
        }
        let shown = |value: &Value| match value {
            Value::Null => "null".to_owned(),
            Value::String(text) => text.clone(),
            Value::Bool(flag) => (if *flag { "True" } else { "False" }).to_owned(),
            other => other.to_string().replace('"', "'"),
        };
        let mut lines: Vec<Vec<String>> = vec![self.columns.clone()];
        lines.extend(self.rows.iter().map(|row| row.iter().map(shown).collect()));
        let width = |column: usize| {
            lines
                .iter()
                .map(|line| line[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut out = String::new();
        for (index, line) in lines.iter().enumerate() {
            let cells: Vec<String> = line
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!(" {cell:<width$} "))
                .collect();
            out.push_str(cells.join("|").trim_end());
            out.push('\n');
            if index == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
                out.push_str(&rules.join("+"));
                out.push('\n');
            }
        }
        out.push_str(&format!("\n({} rows)", self.rows.len()));
        out
    }
}
