//! Topic names from a template: `{database}.{table}`.

use crate::error::invalid;
use change::SinkError;
use format::name_template::NameTemplate;

/// A parsed topic template.
#[derive(Debug, Clone)]
pub(crate) struct Template(NameTemplate);

impl Template {
    pub fn parse(text: &str) -> Result<Self, SinkError> {
        let parsed = NameTemplate::parse(text);
        parsed
            .map(Self)
            .map_err(|fault| invalid(format!("topic `{text}` {}", fault.what), fault.hint))
    }

    /// Whether the name does not depend on the table.
    pub fn is_constant(&self) -> bool {
        self.0.is_constant()
    }

    /// The topic's name; what Kafka does not allow becomes `_`, and it is at most 249 bytes.
    pub fn render(&self, database: &str, table: &str) -> String {
        let name = self
            .0
            .render((database, table), String::push_str, String::push_str);
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
