//! Topic names from a template: `{database}.{table}`.

use crate::error::invalid;
use change::SinkError;

#[derive(Debug, Clone)]
enum Part {
    Text(String),
    Database,
    Table,
}

/// A parsed topic template.
#[derive(Debug, Clone)]
pub(crate) struct Template(Vec<Part>);

impl Template {
    pub fn parse(text: &str) -> Result<Self, SinkError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            parts.push(Part::Text(rest[..open].to_owned()));
            let Some(close) = rest[open..].find('}') else {
                return Err(invalid(
                    format!("topic `{text}` has a `{{` without `}}`"),
                    "",
                ));
            };
            match &rest[open + 1..open + close] {
                "database" => parts.push(Part::Database),
                "table" => parts.push(Part::Table),
                other => {
                    let detail =
                        format!("topic `{text}` has the unknown placeholder `{{{other}}}`");
                    return Err(invalid(detail, "known are {database} and {table}"));
                }
            }
            rest = &rest[open + close + 1..];
        }
        parts.push(Part::Text(rest.to_owned()));
        Ok(Self(parts))
    }

    /// Whether the name does not depend on the table.
    pub fn is_constant(&self) -> bool {
        self.0.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// The topic's name; what Kafka does not allow becomes `_`, and it is at most 249 bytes.
    pub fn render(&self, database: &str, table: &str) -> String {
        let mut name = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => name.push_str(text),
                Part::Database => name.push_str(database),
                Part::Table => name.push_str(table),
            }
        }
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '_'
            }
        };
        name.chars().map(plain).take(249).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_in_and_made_legal() {
        let render = |text: &str| Template::parse(text).map(|t| t.render("shop", "o#1"));
        assert_eq!(
            render("cdc.{database}.{table}").ok(),
            Some("cdc.shop.o_1".into())
        );
        assert_eq!(render("all").ok(), Some("all".into()));
        assert!(render("{schema}").is_err() && render("{table").is_err());
    }
}
