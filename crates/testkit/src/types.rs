//! The statements of `vectors/types.sql`: every column type, with the ends of its range.

use crate::Flavour;

const TYPES: &str = include_str!("../vectors/types.sql");

/// The statements for one server, but those with very large values; the database is `types`.
pub fn statements(flavour: Flavour) -> Vec<String> {
    let family = if flavour.is_mariadb() {
        "mariadb"
    } else {
        "mysql"
    };
    let mut wanted = true;
    let mut text = String::new();
    for line in TYPES.lines() {
        let section = line
            .strip_prefix("-- [")
            .and_then(|rest| rest.strip_suffix(']'));
        if let Some(words) = section {
            let has = |wanted: &str| words.split(' ').any(|word| word == wanted);
            wanted = !has("big") && (has("all") || has(family) || has(flavour.name()));
        } else if wanted && !line.starts_with("--") {
            text.push_str(line);
            text.push('\n');
        }
    }
    text.split(";\n")
        .map(|statement| statement.trim().to_owned())
        .filter(|statement| !statement.is_empty())
        .collect()
}
