//! From one structure of a table to the next: what has to be done to the target, and what cannot be.

use crate::added_column::OldRows;
use crate::layout::{NoLayout, TableLayout};
use crate::names::quote;
use crate::statement;
use change::{Column, ColumnType};

/// SQL mode bits with which a server refuses a value that does not fit instead of changing it.
const STRICT: u64 = 1 << 21 | 1 << 22;

/// How the target follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The target needs no change.
    Same,
    /// The commands of one ALTER after the other: one ALTER cannot rename a column and change its type.
    Alter(Vec<String>),
    /// The rows move into a table of the new structure: for each of its columns an expression over the
    /// old table; none for a column that is new.
    Rebuild(Vec<(String, Option<String>)>),
}

/// What becomes of one column's type.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    /// The target's type stays: it holds the new one's values too.
    Keep,
    /// The target's type has to change; values stay what they are.
    Widen,
    /// The source may have changed values in a way that the target cannot repeat.
    No,
}

/// Plans the way from `old` to `new`; the types of columns that stay are taken over into `new`.
///
/// Shape: `sql` and `sql_mode` of the statement; without one, renames cannot be told.
pub(crate) fn plan(
    old: &TableLayout,
    new: &mut TableLayout,
    statement: Option<(&str, u64)>,
) -> Result<Plan, NoLayout> {
    if let Some((sql, _)) = statement {
        refuse_unseen(old, new, sql)?;
    }
    let renames = renames(old, new, statement)?;
    let is_strict = statement.is_none_or(|(_, mode)| mode & STRICT != 0);
    let mut steps: Vec<Vec<String>> = Vec::new();
    let mut commands = Vec::new();
    let mut comments = Vec::new();
    let mut sources = Vec::new();
    let mut order: Vec<String> = old.column_names();
    // Columns that go make room for names first.
    for (index, column) in old.schema.columns.iter().enumerate() {
        let stays = renames.iter().any(|(from, _)| *from == index);
        if !stays {
            commands.push(format!("DROP COLUMN IF EXISTS {}", quote(&column.name)));
            order.retain(|name| *name != column.name);
        }
    }
    steps.push(std::mem::take(&mut commands));
    steps.extend(rename_steps(old, new, &renames));
    for name in &mut order {
        let renamed = renames
            .iter()
            .find(|(from, _)| old.columns[*from].name == *name);
        if let Some((_, to)) = renamed {
            name.clone_from(&new.columns[*to].name);
        }
    }
    let mut touches_key = old.key_names() != new.key_names()
        || old.sort_names() != new.sort_names()
        || old.is_keyless() != new.is_keyless();
    for to in 0..new.columns.len() {
        let Some((from, _)) = renames.iter().find(|(_, t)| *t == to) else {
            let before = to.checked_sub(1).map(|at| new.columns[at].name.clone());
            refuse_unknown(new, to)?;
            commands.push(add(new, to, before.as_deref()));
            let at = before.map_or(0, |name| {
                order
                    .iter()
                    .position(|n| *n == name)
                    .map_or(order.len(), |at| at + 1)
            });
            order.insert(at.min(order.len()), new.columns[to].name.clone());
            sources.push((new.columns[to].name.clone(), None));
            continue;
        };
        let was = &old.columns[*from];
        let is_key = new.key.contains(&to) || new.sort.contains(&to);
        let loses_null = is_key && was.type_text.contains("Nullable(");
        sources.push((
            new.columns[to].name.clone(),
            Some(match loses_null {
                true => format!("assumeNotNull({})", quote(&was.name)),
                false => quote(&was.name),
            }),
        ));
        let (a, b) = (&old.schema.columns[*from], &new.schema.columns[to]);
        match change(a, b, is_strict) {
            Change::No => {
                return Err(NoLayout(format!(
                    "column `{}` changes from {} to {}, and what that makes of its values only the \
                     source knows",
                    b.name, a.declared, b.declared
                )));
            }
            Change::Keep => {
                let wanted = &new.columns[to].type_text;
                let needs_null = b.nullable
                    && !a.nullable
                    && !was.type_text.contains("Nullable(")
                    && wanted.contains("Nullable(");
                match needs_null {
                    true => commands.push(modify(new, to)),
                    false if loses_null => {}
                    false => new.columns[to].type_text.clone_from(&was.type_text),
                }
            }
            Change::Widen if new.columns[to].type_text != was.type_text => {
                // NULL stays possible: what was NULL once may be in older rows.
                if was.type_text.starts_with("Nullable(")
                    && !new.columns[to].type_text.contains("Nullable(")
                    && !is_key
                {
                    let plain = new.columns[to].type_text.clone();
                    new.columns[to].type_text = format!("Nullable({plain})");
                }
                touches_key |= is_key;
                commands.push(modify(new, to));
            }
            Change::Widen => {}
        }
        if was.comment != new.columns[to].comment {
            comments.push(format!(
                "COMMENT COLUMN {} {}",
                quote(&new.columns[to].name),
                crate::names::literal(&new.columns[to].comment)
            ));
        }
    }
    steps.push(commands);
    steps.push(comments);
    let changes = steps.iter().any(|step| !step.is_empty());
    if old.is_keyless() && new.is_keyless() && changes {
        return Err(NoLayout(
            "it has no key: its rows are told apart by all columns, and those change".into(),
        ));
    }
    if touches_key {
        if new.is_keyless() {
            return Err(NoLayout("it loses its key".into()));
        }
        return Ok(Plan::Rebuild(sources));
    }
    if order != new.column_names() {
        let mut before: Option<&str> = None;
        let mut moves = Vec::new();
        for column in &new.columns {
            let place = before.map_or("FIRST".to_owned(), |name| format!("AFTER {}", quote(name)));
            moves.push(format!(
                "MODIFY COLUMN {} {} {place}",
                quote(&column.name),
                column.type_text
            ));
            before = Some(&column.name);
        }
        steps.push(moves);
    }
    steps.retain(|step| !step.is_empty());
    Ok(match steps.is_empty() {
        true => Plan::Same,
        false => Plan::Alter(steps.iter().map(|step| step.join(", ")).collect()),
    })
}

/// What the schemas do not show and the target cannot repeat: values that the source made anew.
fn refuse_unseen(old: &TableLayout, new: &TableLayout, sql: &str) -> Result<(), NoLayout> {
    let has =
        |columns: &[Column], name: &str| columns.iter().any(|c| c.name.eq_ignore_ascii_case(name));
    let (before, after) = (&old.schema.columns, &new.schema.columns);
    let renamed = statement::renames(sql);
    let is_made_anew = |name: &String| {
        has(before, name)
            && has(after, name)
            && !renamed.iter().any(|(_, to)| to.eq_ignore_ascii_case(name))
    };
    if let Some(name) = statement::dropped(sql).into_iter().find(is_made_anew) {
        return Err(NoLayout(format!(
            "column `{name}` is dropped and made anew, and what older rows have of it only the source knows"
        )));
    }
    let redefined = statement::redefined(sql);
    let of = |name: &String| after.iter().find(|c| c.name.eq_ignore_ascii_case(name));
    if let Some(column) = redefined.iter().filter_map(of).find(|c| c.generated) {
        return Err(NoLayout(format!(
            "column `{}` is generated and gets another definition: its values only the source knows",
            column.name
        )));
    }
    Ok(())
}

/// Errors: when the rows that are there have values of a new column that only the source knows.
fn refuse_unknown(new: &TableLayout, index: usize) -> Result<(), NoLayout> {
    let name = &new.columns[index].name;
    if new.key.contains(&index) || new.sort.contains(&index) {
        return Err(NoLayout(format!(
            "column `{name}` is new and in the key: what older rows have of it only the source knows"
        )));
    }
    match &new.columns[index].old_rows {
        OldRows::Unknown(why) => Err(NoLayout(format!(
            "what older rows have of the new column `{name}` only the source knows: {why}"
        ))),
        OldRows::Same | OldRows::Constant(_) => Ok(()),
    }
}

/// Renames; where a new name is another column's old one, by way of names that nobody has.
fn rename_steps(
    old: &TableLayout,
    new: &TableLayout,
    renames: &[(usize, usize)],
) -> Vec<Vec<String>> {
    let pairs: Vec<(&str, &str)> = renames
        .iter()
        .map(|(from, to)| (&*old.columns[*from].name, &*new.columns[*to].name))
        .filter(|(was, is)| was != is)
        .collect();
    let line = |was: &str, is: &str| format!("RENAME COLUMN {} TO {}", quote(was), quote(is));
    let collides = pairs
        .iter()
        .any(|(_, is)| pairs.iter().any(|(was, _)| was == is));
    if !collides {
        return vec![pairs.iter().map(|(was, is)| line(was, is)).collect()];
    }
    let between = |number: usize| format!("{}renamed{number}", old.added().sign);
    let numbered = || pairs.iter().enumerate();
    vec![
        numbered()
            .map(|(at, (was, _))| line(was, &between(at)))
            .collect(),
        numbered()
            .map(|(at, (_, is))| line(&between(at), is))
            .collect(),
    ]
}

fn add(new: &TableLayout, index: usize, before: Option<&str>) -> String {
    let column = &new.columns[index];
    let mut line = format!("{} {}", quote(&column.name), column.type_text);
    if let OldRows::Constant(value) = &column.old_rows {
        line.push_str(" DEFAULT ");
        line.push_str(value);
    }
    if !column.comment.is_empty() {
        line.push_str(" COMMENT ");
        line.push_str(&crate::names::literal(&column.comment));
    }
    let place = before.map_or("FIRST".to_owned(), |name| format!("AFTER {}", quote(name)));
    format!("ADD COLUMN IF NOT EXISTS {line} {place}")
}

fn modify(new: &TableLayout, index: usize) -> String {
    let column = &new.columns[index];
    format!("MODIFY COLUMN {} {}", quote(&column.name), column.type_text)
}

/// Pairs of a column's old and new index, for all columns that stay.
fn renames(
    old: &TableLayout,
    new: &TableLayout,
    statement: Option<(&str, u64)>,
) -> Result<Vec<(usize, usize)>, NoLayout> {
    let (old, new) = (&old.schema.columns, &new.schema.columns);
    let named = statement
        .map(|(sql, _)| statement::renames(sql))
        .unwrap_or_default();
    let find = |columns: &[Column], name: &str| {
        columns
            .iter()
            .position(|c| c.name.eq_ignore_ascii_case(name))
    };
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    for (from, to) in &named {
        if let (Some(from), Some(to)) = (find(old, from), find(new, to)) {
            pairs.push((from, to));
        }
    }
    for (to, column) in new.iter().enumerate() {
        let is_taken = |from: usize| pairs.iter().any(|(f, _)| *f == from);
        if pairs.iter().any(|(_, t)| *t == to) {
            continue;
        }
        if let Some(from) = find(old, &column.name)
            && !is_taken(from)
        {
            pairs.push((from, to));
        }
    }
    if statement.is_none() && pairs.len() < old.len() && pairs.len() < new.len() {
        return Err(NoLayout(
            "its columns have other names than before, and the statement that says which is which was \
             not delivered"
                .into(),
        ));
    }
    pairs.sort_unstable_by_key(|(_, to)| *to);
    Ok(pairs)
}

fn change(old: &Column, new: &Column, is_strict: bool) -> Change {
    use ColumnType as T;
    // NULL becomes another value where the server does not refuse it; a generated value is the source's.
    if old.nullable && !new.nullable && !is_strict || new.generated && !old.generated {
        return Change::No;
    }
    if old.kind == new.kind {
        return Change::Keep;
    }
    let when_strict = |fits: bool| match fits || is_strict {
        true => Change::Keep,
        false => Change::No,
    };
    match (&old.kind, &new.kind) {
        (
            T::Int {
                bytes: a,
                unsigned: x,
            },
            T::Int {
                bytes: b,
                unsigned: y,
            },
        ) => {
            let holds = if x == y { b >= a } else { *x && !*y && b > a };
            match holds {
                true => Change::Widen,
                // The values fitted, or the statement had failed; but the other sign needs another type.
                false if x == y => when_strict(false),
                false => Change::No,
            }
        }
        (
            T::Decimal {
                precision: p,
                scale: s,
                ..
            },
            T::Decimal {
                precision: q,
                scale: t,
                ..
            },
        ) => match (t >= s, t == s, q - t >= p - s) {
            (true, _, true) => Change::Widen,
            (_, true, false) => when_strict(false),
            _ => Change::No,
        },
        (T::Float, T::Double) => Change::Widen,
        (T::Bit { width: a }, T::Bit { width: b }) if b >= a => Change::Widen,
        (T::DateTime { digits: a }, T::DateTime { digits: b })
        | (T::Timestamp { digits: a }, T::Timestamp { digits: b })
        | (T::Time { digits: a }, T::Time { digits: b })
            if b >= a =>
        {
            Change::Widen
        }
        // It cuts trailing blanks off.
        (T::Varchar { .. } | T::Text { .. }, T::Char { .. }) => Change::No,
        (a, b) if text_length(a).is_some() && text_length(b).is_some() => {
            let shorter = text_length(b) < text_length(a);
            when_strict(!shorter)
        }
        (T::Varbinary { .. } | T::Blob { .. }, T::Varbinary { .. } | T::Blob { .. }) => {
            when_strict(byte_length(&new.kind) >= byte_length(&old.kind))
        }
        (T::Enum { members: a }, T::Enum { members: b })
        | (T::Set { members: a }, T::Set { members: b }) => {
            when_strict(a.iter().all(|member| b.contains(member)))
        }
        (T::Enum { .. } | T::Set { .. }, b)
            if text_length(b) > Some(255) && !matches!(b, T::Char { .. }) =>
        {
            Change::Keep
        }
        _ => Change::No,
    }
}

/// Characters that a text type holds.
fn text_length(kind: &ColumnType) -> Option<u64> {
    match kind {
        ColumnType::Varchar { length } => Some(u64::from(*length)),
        ColumnType::Text { length_bytes } => Some((1 << (8 * u64::from(*length_bytes))) - 1),
        // CHAR cuts trailing blanks off, on both sides alike.
        ColumnType::Char { length } => Some(u64::from(*length)),
        _ => None,
    }
}

fn byte_length(kind: &ColumnType) -> u64 {
    match kind {
        ColumnType::Varbinary { length } => u64::from(*length),
        ColumnType::Blob { length_bytes } => (1 << (8 * u64::from(*length_bytes))) - 1,
        _ => 0,
    }
}
