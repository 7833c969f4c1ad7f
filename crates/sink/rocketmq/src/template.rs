//! Names from a template, legal in RocketMQ and readable back: `{database}-{table}`.
//!
//! RocketMQ allows letters, digits, `_`, `-`, `%` and `|` in the names of topics and groups. A name that
//! is put in keeps its letters, digits and `_`; each other byte becomes `%` and two hex digits, so that
//! no two tables share a name: `order items` is `order%20items`.

use crate::error::invalid;
use change::SinkError;
use format::name_template::NameTemplate;
use std::fmt::Write;

/// The longest topic name that brokers take, bytes.
pub(crate) const TOPIC_BYTES_MAX: usize = 127;

/// A parsed template of a topic or tag.
#[derive(Debug, Clone)]
pub(crate) struct Template(NameTemplate);

impl Template {
    /// Errors: `Invalid` for a placeholder that is unknown or not closed; `key` names the setting.
    pub fn parse(key: &str, text: &str) -> Result<Self, SinkError> {
        let parsed = NameTemplate::parse(text);
        parsed
            .map(Self)
            .map_err(|fault| invalid(format!("{key} `{text}` {}", fault.what), fault.hint))
    }

    /// The name of a table's topic or tag.
    pub fn render(&self, database: &str, table: &str) -> String {
        self.0.render((database, table), put_text, put_escaped)
    }

    /// Whether every table has the same name.
    pub fn is_constant(&self) -> bool {
        self.0.is_constant()
    }
}

/// The template's own text: legal characters stay, also those that stand between names.
fn put_text(out: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'-' | b'|' | b'%' => out.push(byte as char),
            _ => put_byte(out, byte),
        }
    }
}

/// Appends a name so that it can be read back.
pub(crate) fn put_escaped(out: &mut String, name: &str) {
    name.bytes().for_each(|byte| put_byte(out, byte));
}

fn put_byte(out: &mut String, byte: u8) {
    match byte {
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' => out.push(byte as char),
        _ => write!(out, "%{byte:02X}").expect("writing to a String does not fail"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(text: &str, database: &str, table: &str) -> Option<String> {
        Template::parse("topic", text)
            .ok()
            .map(|template| template.render(database, table))
    }

    #[test]
    fn names_are_filled_in_and_made_legal() {
        let name = render("cdc-{database}-{table}", "shop", "order_items");
        assert_eq!(name.as_deref(), Some("cdc-shop-order_items"));
        assert_eq!(
            render("{database}.{table}", "shop", "t").as_deref(),
            Some("shop%2Et")
        );
        assert_eq!(render("all", "shop", "t").as_deref(), Some("all"));
        assert_eq!(render("{table}", "", "价").as_deref(), Some("%E4%BB%B7"));
        assert_eq!(render("{schema}", "", ""), None);
        assert_eq!(render("{table", "", ""), None);
    }

    #[test]
    fn no_two_tables_share_a_name() {
        let names = [
            ("a", "b-c"),
            ("a-b", "c"),
            ("a", "b%2Dc"),
            ("a.b", "c"),
            ("a b", "c"),
            ("a_b", "c"),
        ];
        let mut seen: Vec<_> = names
            .iter()
            .map(|(database, table)| render("{database}-{table}", database, table))
            .collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), names.len());
    }
}
