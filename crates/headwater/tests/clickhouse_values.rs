//! Values of every type arrive as the source has them, or set their key aside; and other people's clients
//! read the tables.

use std::process::Command;
use std::time::{Duration, Instant};
use testkit::mirror::assert_same;
use testkit::{ClickHouse, Flavour, MysqlServer, Pipeline, one_at_a_time, script};

const BINARY: &str = env!("CARGO_BIN_EXE_headwater");
const LIMIT: Duration = Duration::from_secs(120);

fn pipeline(server: &MysqlServer, target: &ClickHouse, settings: &str) -> Pipeline {
    let config = server.source_yaml("\"shop.*\"", &[])
        + &format!(
            "sinks:\n  - {{name: wh, clickhouse: {{url: \"{}\", fold: {{age_ms: 200, grace_ms: 50}}{settings}}}}}\n",
            target.url()
        );
    let mut pipeline = Pipeline::new(BINARY, &config);
    pipeline.start();
    pipeline.wait_streaming(LIMIT);
    pipeline
}

const TYPES: &str = "id INT PRIMARY KEY, i1 TINYINT, u1 TINYINT UNSIGNED, i2 SMALLINT, i3 MEDIUMINT, u3 MEDIUMINT \
    UNSIGNED, u4 INT UNSIGNED, i8 BIGINT, u8 BIGINT UNSIGNED, d DECIMAL(65,30), f FLOAT, g DOUBLE, b1 BIT(1), b64 \
    BIT(64), y YEAR, da DATE, dz DATE NOT NULL, ti TIME(6), t0 TIME, dt DATETIME(6), ts TIMESTAMP(3) NULL, c CHAR(9), v \
    VARCHAR(40) CHARACTER SET latin1, tx MEDIUMTEXT, bi BINARY(4), vb VARBINARY(9), bl LONGBLOB, e \
    ENUM('x','größe',''), s SET('a','b','c'), j JSON, p POINT";

#[test]
fn every_type_arrives_from_the_copy_and_from_the_stream() {
    let _turn = one_at_a_time();
    for flavour in [Flavour::Mysql97, Flavour::Mariadb10] {
        let server = MysqlServer::start(flavour, &["--sql-mode="]);
        let target = ClickHouse::start();
        let mut sql = server.sql();
        sql.exec(&format!(
            "CREATE DATABASE shop; CREATE TABLE shop.t ({TYPES})"
        ));
        let row = |id: u32| {
            format!(
                "({id}, -128, 255, -32768, -8388608, 16777215, 4294967295, -9223372036854775808, \
                 18446744073709551615, -12345678901234567890123456789012345.123456789012345678901234567890, 1.5, \
                 -2.2250738585072014e-308, b'1', 0xFFFFFFFFFFFFFFFF, 2155, '9999-12-31', '0000-00-00', \
                 '-838:59:58.999999', '12:00:00', '1000-01-01 00:00:00.000001', '2038-01-19 03:14:07.999', 'ab ', \
                 'Zürich', CONCAT('tab\\t nul\\0 quote'' back\\\\ ', REPEAT('é', 300000)), 0x00010000, 0x00FF, \
                 REPEAT(0x00FF, 500000), 'größe', 'a,c', '{{\"a\": [1, null, \"ž\"]}}', POINT(1, -2))"
            )
        };
        let odd = |id: u32| {
            format!(
                "({id}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -0.0, 0, 0, 0, '0001-01-01', '2024-01-10', '838:59:59', \
                 '-00:00:01', '9999-12-31 23:59:59.999999', '1970-01-01 00:00:01', '', '', '', '', '', '', '', '', \
                 '[]', NULL)"
            )
        };
        let null = |id: u32| {
            let nulls = ["NULL"; 14].join(", ");
            let rest = ["NULL"; 14].join(", ");
            format!("({id}, {nulls}, NULL, '2024-02-29', {rest})")
        };
        let insert = |first: u32| {
            format!(
                "INSERT INTO shop.t VALUES {}; INSERT INTO shop.t VALUES {}; INSERT INTO shop.t VALUES {}",
                row(first),
                odd(first + 1),
                null(first + 2)
            )
        };
        sql.exec_each(&insert(1).split("; ").map(str::to_owned).collect::<Vec<_>>());
        let mut pipeline = pipeline(&server, &target, "");
        sql.exec_each(
            &insert(11)
                .split("; ")
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        );
        let mut http = target.client();
        let end = Instant::now() + LIMIT;
        while http
            .try_query("SELECT count() FROM shop.t")
            .unwrap_or_default()
            != b"6\n"
        {
            assert!(
                Instant::now() < end && pipeline.is_alive(),
                "{}",
                pipeline.standing()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_same(&mut sql, &mut http, "shop.t", "shop.t");
        // The copy and the stream write the same.
        let twice =
            http.query("SELECT count() FROM (SELECT DISTINCT * EXCEPT(id, _version) FROM shop.t)");
        assert_eq!(twice, "3");
        pipeline.stop();
    }
}

#[test]
fn what_does_not_fit_is_set_aside_and_never_changed() {
    let _turn = one_at_a_time();
    let server = MysqlServer::start(Flavour::Mysql97, &["--sql-mode="]);
    let target = ClickHouse::start();
    let mut sql = server.sql();
    sql.exec(
        "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, e ENUM('new','paid','gone'), d DATE, m \
         DECIMAL(20,4), i BIGINT)",
    );
    let types = ", tables: {shop.t: {types: {e: \"Enum8('new' = 1, 'paid' = 2)\", d: \"Nullable(Date)\", m: \
                 \"Nullable(Decimal(5, 2))\", i: \"Nullable(Int8)\"}}}";
    let mut pipeline = pipeline(&server, &target, types);
    sql.exec(
        "INSERT INTO shop.t VALUES (1,'new','2024-01-01',1.23,1); INSERT INTO shop.t VALUES (2,'gone',NULL,1,1); \
         INSERT INTO shop.t VALUES (3,'new','1969-12-31',1,1); INSERT INTO shop.t VALUES (4,'new',NULL,1234.5,1); \
         INSERT INTO shop.t VALUES (5,'new',NULL,1.239,1); INSERT INTO shop.t VALUES (6,'new',NULL,1,128); \
         INSERT INTO shop.t VALUES (7,'paid','0000-00-00',999.99,-128)",
    );
    let mut http = target.client();
    http.wait(
        "SELECT id, e, d, m, i FROM shop.t ORDER BY id",
        "1\tnew\t2024-01-01\t1.23\t1\n7\tpaid\t\\N\t999.99\t-128",
        LIMIT,
    );
    let status = pipeline.wait_status("five keys are set aside", LIMIT, |status| {
        status["sinks"]["wh"]["parked"][0]["keys"] == 5
    });
    let reason = status["sinks"]["wh"]["parked"][0]["reason"].to_string();
    assert!(
        reason.contains("column `e`") && !reason.contains("gone"),
        "{reason}"
    );
    pipeline.stop();
}

#[test]
fn a_thousand_columns_arrive() {
    let _turn = one_at_a_time();
    let server = MysqlServer::start(Flavour::Mariadb10, &[]);
    let target = ClickHouse::start();
    let mut sql = server.sql();
    let columns: Vec<String> = (0..1000).map(|n| format!("c{n} INT")).collect();
    sql.exec(&format!(
        "CREATE DATABASE shop; CREATE TABLE shop.wide (id INT PRIMARY KEY, {})",
        columns.join(", ")
    ));
    let values: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
    sql.exec(&format!(
        "INSERT INTO shop.wide VALUES (1, {})",
        values.join(", ")
    ));
    let mut pipeline = pipeline(&server, &target, "");
    sql.exec(&format!(
        "INSERT INTO shop.wide VALUES (2, {})",
        values.join(", ")
    ));
    sql.exec("UPDATE shop.wide SET c999 = -1 WHERE id = 1");
    let mut http = target.client();
    http.wait(
        "SELECT id, c0, c998, c999 FROM shop.wide ORDER BY id",
        "1\t0\t998\t-1\n2\t0\t998\t999",
        LIMIT,
    );
    assert_same(&mut sql, &mut http, "shop.wide", "shop.wide");
    pipeline.stop();
}

#[test]
fn other_peoples_clients_read_the_tables() {
    let _turn = one_at_a_time();
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let target = ClickHouse::start();
    let mut sql = server.sql();
    sql.exec(
        "CREATE DATABASE shop; CREATE TABLE shop.t (id BIGINT PRIMARY KEY, name VARCHAR(20), amount DECIMAL(20,4), at \
         DATETIME(3)); INSERT INTO shop.t VALUES (1,'größe',-1.5000,'2024-01-02 03:04:05.678'), (2,NULL,NULL,NULL)",
    );
    let mut pipeline = pipeline(&server, &target, "");
    sql.exec("UPDATE shop.t SET name = 'neu' WHERE id = 1");
    target
        .client()
        .wait("SELECT name FROM shop.t WHERE id = 1", "neu", LIMIT);
    let wanted = "1 neu -1.5000 2024-01-02 03:04:05.678\n2 null null null";
    let port = target.port().to_string();
    for reader in ["clickhouse-connect", "jdbc"] {
        for table in ["shop.t", "shop.t__base"] {
            let mut command = Command::new(script::folder().join("../judges/clickhouse.sh"));
            let output = command
                .args([reader, &port, table])
                .output()
                .expect("the judge runs");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{reader}: {said}");
            let found = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if table == "shop.t" {
                assert_eq!(found, wanted, "{reader} of {table}");
            } else {
                assert!(
                    found.contains("2 null null null"),
                    "{reader} of {table}: {found}"
                );
            }
        }
    }
    pipeline.stop();
}

#[test]
fn check_says_what_is_there_and_what_is_refused() {
    let _turn = one_at_a_time();
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let target = ClickHouse::start();
    let mut sql = server.sql();
    sql.exec("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY)");
    let config = server.source_yaml("\"shop.*\"", &[])
        + &format!(
            "sinks:\n  - {{name: wh, clickhouse: {{url: \"{}\"}}}}\n",
            target.url()
        );
    let pipeline = Pipeline::new(BINARY, &config);
    let said = pipeline.command(&["check"], &[]);
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(
        text.contains("✓ sink wh: clickhouse 26.") && text.contains("✓ sink wh: database `shop`"),
        "{text}"
    );
    let mut http = target.client();
    http.query("CREATE DATABASE shop ENGINE = Memory");
    let said = pipeline.command(&["check"], &[]);
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(
        text.contains("✗ sink wh: the database `shop` has the engine Memory"),
        "{text}"
    );
    assert!(text.contains("fix: CREATE DATABASE"), "{text}");
    assert_eq!(said.status.code(), Some(4));
}
