//! Statements and the table they lead to, as SHOW CREATE TABLE would tell it.

use change::DdlKind;
use source_mysql_ddl::{Catalog, CatalogOptions, Session};

fn catalog() -> Catalog {
    Catalog::new(CatalogOptions {
        default_charset: "utf8mb4".into(),
        ..CatalogOptions::default()
    })
}

const SHOP: Session<'_> = Session {
    database: "shop",
    sql_mode: 0,
    charset: "utf8mb4",
};

fn run(catalog: &mut Catalog, sql: &str) -> Vec<source_mysql_ddl::Effect> {
    catalog
        .apply(sql, &SHOP)
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// `name type[!] [pk]`, comma-separated: `!` for NOT NULL.
fn shape(catalog: &Catalog, table: &str) -> String {
    let schema = catalog.get("shop", table).expect("the table is known");
    let columns: Vec<String> = schema
        .columns
        .iter()
        .map(|c| {
            format!(
                "{} {}{}",
                c.name,
                c.declared,
                if c.nullable { "" } else { "!" }
            )
        })
        .collect();
    format!(
        "{} pk{:?} uk{:?}",
        columns.join(", "),
        schema.primary_key,
        {
            schema
                .unique_keys
                .iter()
                .map(|k| (&*k.name, &*k.columns))
                .collect::<Vec<_>>()
        }
    )
}

#[test]
fn every_spelling_of_a_type_becomes_the_servers_own() {
    let mut catalog = catalog();
    run(
        &mut catalog,
        "CREATE TABLE t (a INT(11) UNSIGNED, b TINYINT(1), c BOOL, d INTEGER ZEROFILL, e DEC(5),
         f NUMERIC(10,2) unsigned, g DOUBLE PRECISION, h FLOAT(53), i FLOAT(7,3), j BIT, k YEAR(4),
         l CHARACTER VARYING(30), m NATIONAL CHAR(3), n LONG, o TEXT(100), p TEXT(70000), q JSON,
         r GEOMETRYCOLLECTION, s SERIAL, t ENUM('a','it''s') CHARSET latin1, u CHAR(4) BYTE,
         v VECTOR(3), w datetime(6), x REAL, y VARCHAR(10) CHARACTER SET binary, z MIDDLEINT)",
    );
    assert_eq!(
        shape(&catalog, "t"),
        "a int unsigned, b tinyint(1), c tinyint(1), d int(10) unsigned zerofill, e decimal(5,0), \
         f decimal(10,2) unsigned, g double, h double, i float(7,3), j bit(1), k year, \
         l varchar(30), m char(3), n mediumtext, o text, p mediumtext, q json, r geomcollection, \
         s bigint unsigned!, t enum('a','it''s'), u binary(4), v vector(3), w datetime(6), x double, \
         y varbinary(10), z mediumint pk[] uk[(\"s\", [18])]"
    );
}

#[test]
fn mariadb_keeps_widths_and_its_own_types() {
    let mut catalog = Catalog::new(CatalogOptions {
        mariadb: true,
        display_width: true,
        default_charset: "latin1".into(),
        lower_case_table_names: 0,
    });
    run(
        &mut catalog,
        "CREATE OR REPLACE TABLE t (a INT, b BIGINT UNSIGNED, j JSON, u UUID, i INET6, \
         c blob /*M!100301 COMPRESSED*/) WITH SYSTEM VERSIONING",
    );
    assert_eq!(
        shape(&catalog, "t"),
        "a int(11), b bigint(20) unsigned, j longtext, u uuid, i inet6, c blob, \
         row_start timestamp(6)!, row_end timestamp(6)! pk[] uk[]"
    );
    let json = &catalog.get("shop", "t").unwrap().columns[2];
    assert_eq!(json.charset.as_deref(), Some("utf8mb4"));
    run(&mut catalog, "ALTER TABLE t ADD d int");
    assert!(shape(&catalog, "t").contains("c blob, d int(11), row_start"));
}

#[test]
fn show_create_table_seeds_the_same_schema_as_the_statement() {
    let mut seeded = catalog();
    let schema = seeded
        .seed(
            "shop",
            "CREATE TABLE `o` (\n  `id` bigint unsigned NOT NULL AUTO_INCREMENT,\n  \
             `s` enum('new','paid') COLLATE utf8mb4_bin NOT NULL DEFAULT 'new' COMMENT 'it''s',\n  \
             `t` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,\n  \
             `g` int GENERATED ALWAYS AS ((`id` + 1)) STORED,\n  \
             `h` int DEFAULT NULL /*!80023 INVISIBLE */,\n  \
             PRIMARY KEY (`id`),\n  UNIQUE KEY `s_t` (`s`,`t`),\n  \
             KEY `f` ((cast(`s` as char(3) charset utf8mb4))),\n  \
             CONSTRAINT `c` CHECK ((`id` > 0))\n) ENGINE=InnoDB AUTO_INCREMENT=5 \
             DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci COMMENT='the orders'\n\
             /*!50100 PARTITION BY HASH (id) PARTITIONS 4 */",
        )
        .unwrap();
    assert_eq!(
        shape(&seeded, "o"),
        "id bigint unsigned!, s enum('new','paid')!, t timestamp, g int, h int pk[0] \
         uk[(\"s_t\", [1, 2])]"
    );
    assert_eq!(schema.comment, "the orders");
    assert_eq!(schema.columns[1].comment, "it's");
    assert_eq!(schema.columns[1].collation.as_deref(), Some("utf8mb4_bin"));
    assert_eq!(schema.columns[1].default.as_deref(), Some("'new'"));
    assert_eq!(
        schema.columns[2].default.as_deref(),
        Some("CURRENT_TIMESTAMP")
    );
    assert!(schema.columns[3].generated && schema.columns[4].invisible);
}

#[test]
fn alter_actions_move_columns_and_keys_along() {
    let mut catalog = catalog();
    run(
        &mut catalog,
        "CREATE TABLE t (a int, b int, c int, PRIMARY KEY (c, a), UNIQUE u (b))",
    );
    run(
        &mut catalog,
        "ALTER TABLE t ADD COLUMN z varchar(5) FIRST, ADD (y int, x int)",
    );
    assert_eq!(
        shape(&catalog, "t"),
        "z varchar(5), a int!, b int, c int!, y int, x int pk[3, 1] uk[(\"u\", [2])]"
    );
    run(
        &mut catalog,
        "ALTER TABLE t MODIFY c bigint AFTER z, CHANGE b bb text, DROP y, DROP KEY u",
    );
    assert_eq!(
        shape(&catalog, "t"),
        "z varchar(5), c bigint!, a int!, bb text, x int pk[1, 2] uk[]"
    );
    run(
        &mut catalog,
        "ALTER TABLE t DROP PRIMARY KEY, RENAME COLUMN x TO k, ADD UNIQUE (k)",
    );
    assert_eq!(
        shape(&catalog, "t"),
        "z varchar(5), c bigint!, a int!, bb text, k int pk[] uk[(\"k\", [4])]"
    );
    let before = catalog.get("shop", "t").unwrap().version;
    let effects = run(
        &mut catalog,
        "ALTER TABLE t ENGINE=InnoDB, ALGORITHM = INPLACE, LOCK=NONE",
    );
    assert_eq!(effects[0].schema, None);
    assert_eq!(catalog.get("shop", "t").unwrap().version, before);
}

#[test]
fn a_ghost_swap_keeps_each_names_id_and_gives_a_new_version() {
    let mut catalog = catalog();
    run(&mut catalog, "CREATE TABLE a (id int primary key)");
    run(&mut catalog, "CREATE TABLE `_a_gho` LIKE a");
    run(&mut catalog, "ALTER TABLE _a_gho ADD n int");
    let id = catalog.get("shop", "a").unwrap().table;
    let effects = run(
        &mut catalog,
        "RENAME TABLE a TO _a_del, shop._a_gho TO shop.a",
    );
    assert_eq!(effects.len(), 2);
    assert_eq!(effects[1].renamed_from, "shop._a_gho");
    assert_eq!(shape(&catalog, "a"), "id int!, n int pk[0] uk[]");
    let now = catalog.get("shop", "a").unwrap();
    assert_eq!((now.table, now.version.0), (id, 2));
}

#[test]
fn if_not_exists_on_a_known_table_changes_nothing() {
    let mut catalog = catalog();
    run(&mut catalog, "CREATE TABLE t (a int)");
    run(&mut catalog, "CREATE TABLE IF NOT EXISTS t (b int)");
    assert_eq!(shape(&catalog, "t"), "a int pk[] uk[]");
}

#[test]
fn statements_have_their_class_and_their_table() {
    let mut catalog = catalog();
    run(&mut catalog, "CREATE TABLE t (a int, b text)");
    let kinds = [
        ("ALTER TABLE t ADD INDEX (a)", DdlKind::CreateIndex),
        (
            "ALTER TABLE t DROP INDEX a, ADD INDEX q (a)",
            DdlKind::DropIndex,
        ),
        ("CREATE FULLTEXT INDEX i ON t (b)", DdlKind::CreateIndex),
        ("DROP INDEX i ON t", DdlKind::DropIndex),
        ("TRUNCATE t", DdlKind::TruncateTable),
        ("ALTER TABLE t RENAME TO t2", DdlKind::RenameTable),
        (
            "ALTER TABLE t2 DEFAULT CHARACTER SET latin1",
            DdlKind::AlterTable,
        ),
        (
            "SET STATEMENT max_statement_time=1 FOR ALTER TABLE t2 ADD c int",
            DdlKind::AlterTable,
        ),
        ("ALTER DATABASE CHARACTER SET latin1", DdlKind::Database),
        ("GRANT ALL ON *.* TO x", DdlKind::Other),
        ("CREATE TEMPORARY TABLE t (a int)", DdlKind::Other),
        (
            "/* ghost */ DROP TABLE IF EXISTS t2 /* generated by server */",
            DdlKind::DropTable,
        ),
    ];
    for (sql, kind) in kinds {
        assert_eq!(run(&mut catalog, sql)[0].kind, kind, "{sql}");
    }
    assert!(catalog.get("shop", "t2").is_none());
}

#[test]
fn what_cannot_be_read_names_its_table_and_changes_nothing() {
    let mut catalog = catalog();
    run(&mut catalog, "CREATE TABLE t (a int)");
    for bad in [
        "ALTER TABLE t ADD b wibble",
        "CREATE TABLE u (a int",
        "ALTER TABLE t DROP nope",
        "ALTER TABLE t MODIFY 'x",
        "CREATE TABLE v (a int, PRIMARY KEY (q))",
    ] {
        assert!(catalog.apply(bad, &SHOP).is_err(), "{bad}");
    }
    assert_eq!(shape(&catalog, "t"), "a int pk[] uk[]");
    let error = catalog
        .apply("ALTER TABLE t ADD b wibble", &SHOP)
        .unwrap_err();
    assert_eq!(error.table, Some(("shop".into(), "t".into())));
}

#[test]
fn any_prefix_and_any_damage_is_an_error_or_an_effect_never_a_panic() {
    let sql = "ALTER TABLE `t` ADD (`q` enum('a','b') DEFAULT 'a' /*!80023 INVISIBLE */), \
               CHANGE `a` `b` decimal(10,2) unsigned NOT NULL DEFAULT (1+(2)) FIRST, \
               ADD CONSTRAINT `c` UNIQUE KEY `u` (`b`(10) DESC, (lower(`q`)))";
    for cut in 0..sql.len() {
        for replacement in ["", "(", ")", "'", "`", ",", "/*!", "\\"] {
            let mut catalog = catalog();
            run(&mut catalog, "CREATE TABLE t (a int)");
            let damaged = format!("{}{replacement}{}", &sql[..cut], &sql[cut + 1..]);
            let _ = catalog.apply(&damaged, &SHOP);
            let _ = catalog.apply(&sql[..cut], &SHOP);
        }
    }
}

#[test]
fn a_default_tells_a_text_from_an_expression_and_a_row_that_numbers_itself() {
    let mut catalog = catalog();
    run(
        &mut catalog,
        "CREATE TABLE t (a VARCHAR(9) DEFAULT 'f(x)', b VARCHAR(36) DEFAULT (uuid()), c INT DEFAULT 7, d INT \
         DEFAULT '7', e VARCHAR(9) DEFAULT 'it''s', f VARCHAR(9) DEFAULT N'n', g BIT(3) DEFAULT b'101', h BOOL \
         DEFAULT TRUE, i DATETIME DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, j INT NULL DEFAULT \
         NULL, k TIMESTAMP, id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY)",
    );
    run(
        &mut catalog,
        "ALTER TABLE t ADD s SERIAL, ALTER c SET DEFAULT 'x'",
    );
    let schema = catalog.get("shop", "t").unwrap();
    let defaults: Vec<String> = schema
        .columns
        .iter()
        .map(|column| {
            format!(
                "{} {}",
                column.name,
                column.default.as_deref().unwrap_or("-")
            )
        })
        .collect();
    assert_eq!(
        defaults.join(", "),
        "a 'f(x)', b (uuid()), c 'x', d '7', e 'it''s', f N'n', g b'101', h TRUE, i CURRENT_TIMESTAMP, j -, k -, \
         id AUTO_INCREMENT, s AUTO_INCREMENT"
    );
    // Where the server's setting decides, that is said.
    let mut old = Catalog::new(CatalogOptions {
        mariadb: true,
        ..CatalogOptions::default()
    });
    run(&mut old, "CREATE TABLE t (a TIMESTAMP, b TIMESTAMP NULL)");
    let columns = &old.get("shop", "t").unwrap().columns;
    assert_eq!(
        columns[0].default.as_deref(),
        Some("EXPLICIT_DEFAULTS_FOR_TIMESTAMP")
    );
    assert_eq!(columns[1].default, None);
}
