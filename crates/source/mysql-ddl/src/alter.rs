//! The actions of ALTER TABLE.

use crate::DdlError;
use crate::column::{self, ColumnDefinition, KeyDefinition, Place, charset_name};
use crate::statement::{Parser, TableName, TableOptions};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AlterAction {
    AddColumn {
        column: ColumnDefinition,
        place: Place,
        if_not_exists: bool,
    },
    /// MODIFY and CHANGE: the column `old` becomes `column`.
    ChangeColumn {
        old: String,
        column: ColumnDefinition,
        place: Place,
        if_exists: bool,
    },
    DropColumn {
        name: String,
        if_exists: bool,
    },
    RenameColumn {
        old: String,
        new: String,
    },
    SetDefault {
        name: String,
        default: Option<String>,
    },
    SetInvisible {
        name: String,
        invisible: bool,
    },
    AddKey(Option<KeyDefinition>),
    DropPrimaryKey,
    DropIndex {
        name: String,
    },
    RenameIndex {
        old: String,
        new: String,
    },
    RenameTable(TableName),
    /// CONVERT TO CHARACTER SET: columns and default.
    Convert {
        charset: String,
        collation: Option<String>,
    },
    /// Table options: charset for later columns, comment.
    Options(TableOptions),
    DropSystemVersioning,
    /// Engine, partitions, locks: no column changes.
    Other,
}

pub(crate) fn actions(parser: &mut Parser<'_>) -> Result<Vec<AlterAction>, DdlError> {
    let mut out = Vec::new();
    while !parser.cursor.is_end() {
        action(parser, &mut out)?;
        // Table options may follow each other without a comma.
        parser.cursor.mark(',');
    }
    Ok(out)
}

fn action(parser: &mut Parser<'_>, out: &mut Vec<AlterAction>) -> Result<(), DdlError> {
    if parser.cursor.eat("add") {
        add(parser, out)
    } else if parser.cursor.eat("drop") {
        out.push(drop(parser)?);
        Ok(())
    } else if parser.cursor.eat("modify") {
        parser.cursor.eat("column");
        let if_exists = parser.cursor.eat_all(&["if", "exists"]);
        let column = column::definition(&mut parser.cursor, parser.style)?;
        let place = column::place(&mut parser.cursor)?;
        out.push(AlterAction::ChangeColumn {
            old: column.name.clone(),
            column,
            place,
            if_exists,
        });
        Ok(())
    } else if parser.cursor.eat("change") {
        parser.cursor.eat("column");
        let if_exists = parser.cursor.eat_all(&["if", "exists"]);
        let old = parser.cursor.name()?;
        let column = column::definition(&mut parser.cursor, parser.style)?;
        let place = column::place(&mut parser.cursor)?;
        out.push(AlterAction::ChangeColumn {
            old,
            column,
            place,
            if_exists,
        });
        Ok(())
    } else if parser.cursor.eat("rename") {
        out.push(rename(parser)?);
        Ok(())
    } else if parser.cursor.eat("alter") {
        out.push(alter_column(parser)?);
        Ok(())
    } else if parser.cursor.eat_all(&["convert", "to"]) {
        out.push(convert(parser)?);
        Ok(())
    } else {
        option_or_other(parser, out)
    }
}

fn add(parser: &mut Parser<'_>, out: &mut Vec<AlterAction>) -> Result<(), DdlError> {
    let named = parser.cursor.eat("column");
    let if_not_exists = parser.cursor.eat_all(&["if", "not", "exists"]);
    if parser.cursor.mark('(') {
        loop {
            if let Some(key) = column::key(&mut parser.cursor)? {
                out.push(AlterAction::AddKey(key));
            } else {
                let column = column::definition(&mut parser.cursor, parser.style)?;
                out.push(AlterAction::AddColumn {
                    column,
                    place: Place::Unsaid,
                    if_not_exists,
                });
            }
            if parser.cursor.mark(')') {
                return Ok(());
            }
            parser.cursor.need_mark(',')?;
        }
    }
    if !named {
        if let Some(key) = column::key(&mut parser.cursor)? {
            out.push(AlterAction::AddKey(key));
            return Ok(());
        }
        if parser.cursor.eat_all(&["system", "versioning"]) {
            let options = TableOptions {
                system_versioning: true,
                ..TableOptions::default()
            };
            out.push(AlterAction::Options(options));
            return Ok(());
        }
        if parser.cursor.is("partition") || parser.cursor.eat_all(&["period", "for"]) {
            parser.cursor.skip_item();
            out.push(AlterAction::Other);
            return Ok(());
        }
    }
    let column = column::definition(&mut parser.cursor, parser.style)?;
    let place = column::place(&mut parser.cursor)?;
    out.push(AlterAction::AddColumn {
        column,
        place,
        if_not_exists,
    });
    Ok(())
}

fn drop(parser: &mut Parser<'_>) -> Result<AlterAction, DdlError> {
    let cursor = &mut parser.cursor;
    if cursor.eat_all(&["primary", "key"]) {
        return Ok(AlterAction::DropPrimaryKey);
    }
    if cursor.eat_all(&["system", "versioning"]) {
        return Ok(AlterAction::DropSystemVersioning);
    }
    if cursor.eat_any(&["index", "key", "constraint"]) {
        cursor.eat_all(&["if", "exists"]);
        return Ok(AlterAction::DropIndex {
            name: cursor.name()?,
        });
    }
    let other = ["foreign", "check", "partition", "period"];
    if other.iter().any(|word| cursor.is(word)) {
        cursor.skip_item();
        return Ok(AlterAction::Other);
    }
    cursor.eat("column");
    let if_exists = cursor.eat_all(&["if", "exists"]);
    let name = cursor.name()?;
    cursor.eat_any(&["restrict", "cascade"]);
    Ok(AlterAction::DropColumn { name, if_exists })
}

fn rename(parser: &mut Parser<'_>) -> Result<AlterAction, DdlError> {
    if parser.cursor.eat("column") {
        parser.cursor.eat_all(&["if", "exists"]);
        let old = parser.cursor.name()?;
        need_to(parser)?;
        return Ok(AlterAction::RenameColumn {
            old,
            new: parser.cursor.name()?,
        });
    }
    if parser.cursor.eat_any(&["index", "key"]) {
        parser.cursor.eat_all(&["if", "exists"]);
        let old = parser.cursor.name()?;
        need_to(parser)?;
        return Ok(AlterAction::RenameIndex {
            old,
            new: parser.cursor.name()?,
        });
    }
    parser.cursor.eat_any(&["to", "as"]);
    parser.cursor.mark('=');
    Ok(AlterAction::RenameTable(parser.table()?))
}

fn need_to(parser: &mut Parser<'_>) -> Result<(), DdlError> {
    if parser.cursor.eat("to") {
        Ok(())
    } else {
        parser.cursor.fail("expected TO")
    }
}

fn alter_column(parser: &mut Parser<'_>) -> Result<AlterAction, DdlError> {
    let cursor = &mut parser.cursor;
    if cursor.is("index") || cursor.is("key") || cursor.is("check") || cursor.is("constraint") {
        cursor.skip_item();
        return Ok(AlterAction::Other);
    }
    cursor.eat("column");
    cursor.eat_all(&["if", "exists"]);
    let name = cursor.name()?;
    if cursor.eat_all(&["set", "invisible"]) {
        return Ok(AlterAction::SetInvisible {
            name,
            invisible: true,
        });
    }
    if cursor.eat_all(&["set", "visible"]) {
        return Ok(AlterAction::SetInvisible {
            name,
            invisible: false,
        });
    }
    if cursor.eat_all(&["drop", "default"]) {
        return Ok(AlterAction::SetDefault {
            name,
            default: None,
        });
    }
    cursor.eat("set");
    cursor.eat("default");
    let default = column::default_value(cursor)?;
    Ok(AlterAction::SetDefault { name, default })
}

fn convert(parser: &mut Parser<'_>) -> Result<AlterAction, DdlError> {
    let cursor = &mut parser.cursor;
    if !cursor.eat_all(&["character", "set"]) && !cursor.eat("charset") {
        return cursor.fail("expected CHARACTER SET");
    }
    let charset = charset_name(&column::text_or_name(cursor)?);
    let collation = match cursor.eat("collate") {
        true => Some(column::text_or_name(cursor)?.to_ascii_lowercase()),
        false => None,
    };
    Ok(AlterAction::Convert { charset, collation })
}

fn option_or_other(parser: &mut Parser<'_>, out: &mut Vec<AlterAction>) -> Result<(), DdlError> {
    parser.cursor.eat("default");
    let mut options = TableOptions::default();
    if parser.option(&mut options) {
        out.push(AlterAction::Options(options));
        return Ok(());
    }
    // ORDER BY and partition clauses hold commas of their own and stand last.
    if parser.cursor.is("order") || parser.cursor.is("partition") {
        while !parser.cursor.is_end() {
            parser.cursor.skip_one();
        }
    } else {
        parser.cursor.skip_one();
        if parser.cursor.mark('=') {
            parser.cursor.skip_one();
        }
    }
    out.push(AlterAction::Other);
    Ok(())
}
