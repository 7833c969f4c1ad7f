//! Names made of a table's names: `{database}.{table}`. What a target allows in a name is its sink's to
//! say.

use std::collections::{BTreeMap, HashMap};

/// A parsed template.
#[derive(Debug, Clone)]
pub struct NameTemplate(Vec<Part>);

#[derive(Debug, Clone)]
enum Part {
    Text(String),
    Database,
    Table,
}

/// What is wrong with a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateFault {
    /// What, as a sentence's end: "has the unknown placeholder `{schema}`".
    pub what: String,
    /// What would be right; may be empty.
    pub hint: &'static str,
}

impl NameTemplate {
    /// Errors: for a placeholder that is unknown or not closed.
    pub fn parse(text: &str) -> Result<Self, TemplateFault> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            parts.push(Part::Text(rest[..open].to_owned()));
            let Some(close) = rest[open..].find('}') else {
                return Err(TemplateFault {
                    what: "has a `{` without `}`".into(),
                    hint: "",
                });
            };
            match &rest[open + 1..open + close] {
                "database" => parts.push(Part::Database),
                "table" => parts.push(Part::Table),
                other => {
                    return Err(TemplateFault {
                        what: format!("has the unknown placeholder `{{{other}}}`"),
                        hint: "known are {database} and {table}",
                    });
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

    /// A table's name; `put_text` appends the template's own text, `put_name` what is put in.
    pub fn render(
        &self,
        (database, table): (&str, &str),
        put_text: impl Fn(&mut String, &str),
        put_name: impl Fn(&mut String, &str),
    ) -> String {
        let mut name = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => put_text(&mut name, text),
                Part::Database => put_name(&mut name, database),
                Part::Table => put_name(&mut name, table),
            }
        }
        name
    }
}

/// A template for all tables, and others for single tables (`shop.orders`) or databases (`shop.*`).
#[derive(Debug)]
pub struct PerTable<T> {
    default: T,
    of_tables: HashMap<String, T>,
}

impl<T> PerTable<T> {
    /// Errors: those of `parse` and `default`; `refuse` makes one of a name that is no table's, and what
    /// would be right.
    pub fn new<E>(
        texts: &BTreeMap<String, String>,
        parse: impl Fn(&str) -> Result<T, E>,
        refuse: impl Fn(String, &str) -> E,
        default: impl FnOnce() -> Result<T, E>,
    ) -> Result<Self, E> {
        let mut of_tables = HashMap::new();
        for (table, text) in texts {
            if !table.contains('.') {
                let detail = format!("topics names `{table}`, which is no database.table");
                return Err(refuse(
                    detail,
                    "write shop.orders, or shop.* for a database",
                ));
            }
            of_tables.insert(table.clone(), parse(text)?);
        }
        let default = default()?;
        Ok(Self { default, of_tables })
    }

    /// The template of a table.
    pub fn of(&self, database: &str, table: &str) -> &T {
        self.of_tables
            .get(&format!("{database}.{table}"))
            .or_else(|| self.of_tables.get(&format!("{database}.*")))
            .unwrap_or(&self.default)
    }

    /// The template of all tables; none where single ones have their own.
    pub fn only(&self) -> Option<&T> {
        self.of_tables.is_empty().then_some(&self.default)
    }
}
