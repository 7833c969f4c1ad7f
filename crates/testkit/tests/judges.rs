//! The judges themselves: each on things whose meaning is known, so that a test that fails elsewhere
//! blames the right one.

use std::collections::BTreeMap;
use testkit::canal_server::{CanalEnd, CanalRun, CanalSchema, without_annotations};
use testkit::dts::DtsRecord;
use testkit::flink::{RowKind, fold_by_key};
use testkit::rocketmq::{Part, RocketSend};
use testkit::{
    CanalServer, DtsJudge, Flavour, FlinkJudge, MysqlServer, RocketMq, canal, one_at_a_time,
};

// ---------------------------------------------------------------- DTS Avro

/// What most of the datums begin with: version 0, id, time, position 72469@78, safe position 72347@78,
/// transaction 0, source MySQL.
const HEAD: &str = "00bcc8cf01b0b5afd20c103732343639403738103732333437403738023000";
/// `bornTimestamp`, the last field: 1696984408.
const BORN: &str = "b0b5afd20c";
/// Version 8.0.28.
const NEW: &str = "0c382e302e3238";
/// Version 1.
const OLD: &str = "0231";
/// The name mydb.t1, and no processing times.
const TABLE: &str = "020e6d7964622e743100";
/// The tag pk_uk_info with the primary key (a).
const KEY_TAG: &str = "0214706b5f756b5f696e666f227b225052494d415259223a5b2261225d7d00";
/// The value 123456789 in eight bytes.
const NUMBER: &str = "021012313233343536373839";

fn bytes(parts: &[&str]) -> Vec<u8> {
    let text = parts.concat();
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("the vector is hex");
    (0..text.len()).step_by(2).map(digit).collect()
}

/// An insert of one column `c` with the type number and the value as they stand in the datum. The
/// source is MySQL (00) or PostgreSQL (06).
fn one_column(source: &str, number: &str, value: &str) -> Vec<u8> {
    let head = HEAD.strip_suffix("00").expect("MySQL is the last of it");
    bytes(&[
        head, source, OLD, "00", TABLE, "00", "04020263", number, "00", "00", "0402", value, "00",
        BORN,
    ])
}

/// The text of `c` after the change, with its kind before it.
fn shown(record: &DtsRecord) -> String {
    let value = record.after.as_ref().and_then(|image| image.get("c"));
    value.map_or_else(String::new, |value| {
        format!("{} {}", value.kind, value.text)
    })
}

#[test]
fn the_dts_sdk_reads_rows() {
    let fields = "040402611002";
    let insert = bytes(&[
        HEAD,
        NEW,
        "00",
        TABLE,
        KEY_TAG,
        fields,
        "62fa0300",
        "00",
        "0404",
        NUMBER,
        "040e",
        "757466386d6234",
        "2c7465737420696e736572742073746174656d656e742e",
        "00",
        BORN,
    ]);
    let update = bytes(&[
        "00b0cacf018ab7afd20c103735323539403738103735313033403738023000",
        NEW,
        "02",
        TABLE,
        KEY_TAG,
        fields,
        "62fa0300",
        "0404",
        NUMBER,
        "040e757466386d6234066f6c64",
        "00",
        "0404",
        NUMBER,
        "00",
        "00",
        "8ab7afd20c",
    ]);
    let delete = bytes(&[
        HEAD,
        NEW,
        "04",
        TABLE,
        KEY_TAG,
        "0402026110",
        "00",
        "0402",
        NUMBER,
        "00",
        "00",
        BORN,
    ]);
    assert_eq!((insert.len(), update.len(), delete.len()), (143, 139, 107));
    let records = DtsJudge::shared().decode(&[insert, update, delete]);

    let insert = &records[0];
    assert_eq!(insert.operation, "INSERT");
    assert_eq!(
        (insert.id, insert.source_timestamp),
        (1_700_382, 1_696_984_408)
    );
    assert_eq!(
        (&*insert.position, &*insert.safe_position),
        ("72469@78", "72347@78")
    );
    assert_eq!(
        (&*insert.source_type, &*insert.source_version),
        ("MySQL", "8.0.28")
    );
    assert_eq!(insert.object_name.as_deref(), Some("mydb.t1"));
    assert_eq!(insert.database.as_deref(), Some("mydb"));
    assert_eq!(insert.table.as_deref(), Some("t1"));
    assert_eq!(insert.primary_key, ["a"]);
    let types: Vec<_> = insert
        .fields
        .iter()
        .map(|f| (&*f.name, f.data_type, f.is_primary))
        .collect();
    assert_eq!(types, [("a", 8, true), ("b", 253, false)]);
    assert!(insert.before.is_none());
    let after = insert.after.as_ref().expect("an insert has a row");
    assert_eq!(after.text("a"), Some("123456789"));
    assert_eq!(after.text("b"), Some("test insert statement."));
    let text = after.get("b").and_then(testkit::dts::DtsValue::bytes);
    assert_eq!(text.as_deref(), Some(&b"test insert statement."[..]));

    let update = &records[1];
    assert_eq!((&*update.operation, update.id), ("UPDATE", 1_700_504));
    let row = |image: &Option<testkit::dts::DtsImage>| {
        let image = image.as_ref().expect("an update has both");
        [image.text("a"), image.text("b")].map(|text| text.map(str::to_owned))
    };
    let number = Some("123456789".to_owned());
    assert_eq!(
        row(&update.before),
        [number.clone(), Some("old".to_owned())]
    );
    assert_eq!(row(&update.after), [number, None]);

    let delete = &records[2];
    assert_eq!(delete.operation, "DELETE");
    assert!(delete.before.is_some() && delete.after.is_none());
}

#[test]
fn the_dts_sdk_reads_what_has_no_row() {
    let ddl = "create table t1(a bigint primary key, b varchar(100))";
    let ddl_hex: String = ddl.bytes().map(|byte| format!("{byte:02x}")).collect();
    let thread = "02127468726561645f69640231";
    let datums = [
        bytes(&[
            HEAD,
            NEW,
            "06",
            "02086d796462",
            "00",
            "00",
            "00",
            "00",
            "026a",
            &ddl_hex,
            BORN,
        ]),
        bytes(&[HEAD, NEW, "10", "0000", "00", "000000", BORN]),
        bytes(&[HEAD, NEW, "08", "0000", thread, "00", "000000", BORN]),
        bytes(&[
            HEAD,
            NEW,
            "0a",
            "02086d79646200",
            thread,
            "00",
            "000000",
            BORN,
        ]),
        bytes(&[
            HEAD,
            NEW,
            "20",
            TABLE,
            "00",
            "0402026110",
            "00",
            "00",
            "0402",
            "02100231",
            "00",
            BORN,
        ]),
    ];
    assert_eq!(datums.each_ref().map(Vec::len), [109, 50, 63, 68, 69]);
    let records = DtsJudge::shared().decode(&datums);
    let operations: Vec<&str> = records.iter().map(|record| &*record.operation).collect();
    // The SDK has no word of its own for INIT.
    assert_eq!(
        operations,
        ["DDL", "HEARTBEAT", "BEGIN", "COMMIT", "UNKNOWN"]
    );
    assert_eq!(records[4].avro_operation, "INIT");
    let statement = records[0]
        .after
        .as_ref()
        .and_then(|image| image.text("ddl"));
    assert_eq!(statement, Some(ddl));
    assert_eq!(records[0].database.as_deref(), Some("mydb"));
    assert_eq!(records[1].object_name, None);
    assert_eq!(
        records[2].tags,
        BTreeMap::from([("thread_id".to_owned(), "1".to_owned())])
    );
}

#[test]
fn the_dts_sdk_reads_every_kind_of_value() {
    const MYSQL: &str = "00";
    const POSTGRES: &str = "06";
    let stamp = "02cc1f0204021e02200220027002e0dc2a";
    let zoned = format!("0e{stamp}0c2b30383a3030");
    let instant = format!("0c{stamp}");
    let vectors: [(&str, &str, &str, &str); 11] = [
        (MYSQL, "18", &instant, "DATETIME 2022-02-15 16:16:56.35"),
        (
            MYSQL,
            "14",
            "0c02cc1f0204021e00000000",
            "DATETIME 2022-02-15",
        ),
        (MYSQL, "1a", "0c02cc1f000000000000", "DATETIME 2022"),
        (
            MYSQL,
            "16",
            "0c00000002c701023b020902ffd20e",
            "DATETIME -100:30:05.12",
        ),
        (
            MYSQL,
            "0e",
            "0ab2f993900c10",
            "UNIX_TIMESTAMP 2021-07-29 10:09:29.000008",
        ),
        (
            MYSQL,
            "ec03",
            "060c3334382e30300a04",
            "DECIMAL_NUMERIC 348.00",
        ),
        (
            MYSQL,
            "10",
            "0210283138343436373434303733373039353531363135",
            "INTEGER_NUMERIC 18446744073709551615",
        ),
        (
            MYSQL,
            "ea03",
            "16084a534f4e0e7b2261223a317d",
            "TEXT_ENCODING_OBJECT {\"a\":1}",
        ),
        (
            MYSQL,
            "f803",
            "1408424c4f420400ff",
            "BINARY_ENCODING_OBJECT 00FF",
        ),
        (
            MYSQL,
            "fe03",
            "1006574b422a0101000000000000000000f03f0000000000000040",
            "WKB_GEOMETRY POINT (1 2)",
        ),
        // The zone is there, but the SDK does not show it.
        (POSTGRES, "c012", &zoned, "DATETIME 2022-02-15 16:16:56.35"),
    ];
    let datums: Vec<Vec<u8>> = vectors
        .iter()
        .map(|(source, number, value, _)| one_column(source, number, value))
        .collect();
    let lengths: Vec<usize> = datums.iter().map(Vec::len).collect();
    assert_eq!(lengths, [78, 72, 70, 75, 67, 71, 83, 75, 70, 88, 86]);
    let records = DtsJudge::shared().decode(&datums);
    for (record, (.., expected)) in records.iter().zip(vectors) {
        assert_eq!(shown(record), expected);
    }
    let blob = records[8].after.as_ref().and_then(|image| image.get("c"));
    assert_eq!(
        blob.and_then(testkit::dts::DtsValue::bytes),
        Some(vec![0, 0xff])
    );
}

#[test]
fn the_dts_sdk_refuses_what_it_does_not_understand() {
    let good = one_column("00", "10", "02100231");
    // A kind of value that the schema does not have; a number that is none.
    let bad = [
        one_column("00", "10", "3e100231"),
        one_column("00", "ec03", "06024e0a04"),
        vec![1],
    ];
    let [first, second, third] = bad;
    let results = DtsJudge::shared().try_decode(&[first, good, second, third]);
    let went: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(went, [false, true, false, false], "{results:?}");
}

// ---------------------------------------------------------------- Flink

#[test]
fn flink_makes_a_table_of_canal_json_and_debezium_json() {
    let columns = "id BIGINT, name STRING, price DECIMAL(10, 2)";
    let canal = [
        r#"{"data":[{"id":"1","name":"a","price":"1.5"},{"id":"2","name":null,"price":"-0.01"}],"old":null,"type":"INSERT"}"#,
        r#"{"data":[{"id":"1","name":"🙂","price":"1.5"}],"old":[{"name":"a"}],"type":"UPDATE"}"#,
        r#"{"data":null,"old":null,"type":"CREATE"}"#,
        r#"{"data":[{"id":"2","name":null,"price":"-0.01"}],"old":null,"type":"DELETE"}"#,
    ];
    let debezium = [
        r#"{"before":null,"after":{"id":1,"name":"a","price":1.5},"op":"r"}"#,
        r#"{"before":{"id":1,"name":"a","price":1.5},"after":{"id":1,"name":"🙂","price":1.5},"op":"u"}"#,
        r#"{"before":null,"after":{"id":2,"name":null,"price":-0.01},"op":"c"}"#,
        r#"{"before":{"id":2,"name":null,"price":-0.01},"after":null,"op":"d"}"#,
    ];
    let judge = FlinkJudge::shared();
    let by_canal = judge.canal_json(columns, &canal).expect("Flink reads it");
    let by_debezium = judge
        .debezium_json(columns, &debezium)
        .expect("Flink reads it");
    let kinds: Vec<(usize, RowKind)> = by_canal.iter().map(|c| (c.message, c.kind)).collect();
    use RowKind::{Delete, Insert, UpdateAfter, UpdateBefore};
    assert_eq!(
        kinds,
        [
            (0, Insert),
            (0, Insert),
            (1, UpdateBefore),
            (1, UpdateAfter),
            (3, Delete)
        ]
    );
    let table = fold_by_key(&by_canal, &["id"]).expect("the changelog is sound");
    assert_eq!(fold_by_key(&by_debezium, &["id"]), Ok(table.clone()));
    let row = &table[&vec![Some("1".to_owned())]];
    let cell = |name: &str| row[name].as_deref();
    assert_eq!((cell("name"), cell("price")), (Some("🙂"), Some("1.50")));
    assert_eq!(table.len(), 1);
}

#[test]
fn flink_refuses_an_alter_and_tells_which_message_it_was() {
    let messages = [
        r#"{"data":[{"id":"1"}],"type":"INSERT"}"#,
        r#"{"data":null,"isDdl":true,"type":"ALTER"}"#,
    ];
    let refusal = FlinkJudge::shared().canal_json("id BIGINT", &messages);
    let refusal = refusal.expect_err("Flink knows no ALTER");
    assert_eq!(refusal.message, 1);
    assert!(refusal.error.contains("ALTER"), "{}", refusal.error);
}

// ---------------------------------------------------------------- the Canal server

/// Canal reads a history with an `ALTER` in it; Flink makes the table of what Canal writes.
fn canal_and_flink(flavour: Flavour) {
    let _turn = one_at_a_time();
    let server = MysqlServer::start(flavour, &[]);
    let mut sql = server.sql();
    sql.exec(
        "CREATE DATABASE shop; \
         CREATE TABLE shop.item (id BIGINT UNSIGNED PRIMARY KEY, name VARCHAR(20), raw VARBINARY(9)); \
         INSERT INTO shop.item VALUES (18446744073709551615, 'ä🙂', x'00ff'), (2, NULL, NULL); \
         ALTER TABLE shop.item ADD COLUMN price DECIMAL(10,2) DEFAULT 1.5 AFTER id; \
         UPDATE shop.item SET name = 'b', price = -0.01 WHERE id = 2; \
         DELETE FROM shop.item WHERE id > 2; \
         CREATE TABLE shop.mark (id INT PRIMARY KEY); \
         INSERT INTO shop.mark VALUES (1); \
         INSERT INTO shop.item (id) VALUES (9)",
    );
    let marker = CanalEnd::Marker("shop.mark".to_owned());
    let run = CanalRun::new(r"shop\..*", marker);
    let canal = CanalServer::shared();
    // From the table on: before it come the database, and on MariaDB what the account was made with.
    let read = |run: &CanalRun| -> Vec<Vec<u8>> {
        without_annotations(canal.lines(&server, run))
            .into_iter()
            .skip_while(|line| line.ends_with(b"\"type\":\"QUERY\"}"))
            .collect()
    };
    let lines = read(&run);
    let messages: Vec<canal::Message<'_>> = lines
        .iter()
        .map(|line| canal::parse(line).expect("Canal writes Canal JSON"))
        .collect();
    let kinds: Vec<&str> = messages.iter().map(|message| &*message.kind).collect();
    assert_eq!(
        kinds,
        ["CREATE", "INSERT", "ALTER", "UPDATE", "DELETE", "CREATE"]
    );
    let first = &messages[1].data.as_ref().expect("an insert has rows")[0];
    assert_eq!(first.get("id"), Some(Some("18446744073709551615")));
    // Bytes stand as ISO 8859-1.
    assert_eq!(first.get("raw"), Some(Some("\0ÿ")));
    assert_eq!(first.get("price"), None, "the column came later");

    // The first three rows of the same, and with the columns of now: the wrong ones for the first two.
    let three = |schema| {
        let end = CanalEnd::Rows(3);
        let run = CanalRun {
            schema,
            end,
            ..run.clone()
        };
        read(&run)
    };
    assert_eq!(three(CanalSchema::Replayed).len(), 4);
    let now = three(CanalSchema::Now);
    let now = canal::parse(&now[1]).expect("Canal writes Canal JSON");
    assert!(
        now.data.expect("an insert has rows")[0]
            .get("price")
            .is_some()
    );

    // What Flink makes of the rows; it knows no ALTER.
    let rows: Vec<&Vec<u8>> = lines
        .iter()
        .zip(&messages)
        .filter_map(|(line, message)| (!message.is_ddl).then_some(line))
        .collect();
    let flink = |columns| {
        let changes = FlinkJudge::shared().canal_json(columns, &rows);
        fold_by_key(&changes.expect("Flink reads it"), &["id"])
    };
    // The rows from before the ALTER have no price, which Flink takes for null; the update and the
    // delete have the column's default. So the changelog does not add up, and the judge says so.
    let trouble = flink("id DECIMAL(20, 0), name STRING, price DECIMAL(10, 2)");
    let trouble = trouble.expect_err("the rows differ");
    assert!(trouble.contains("no such row"), "{trouble}");
    let table = flink("id DECIMAL(20, 0), name STRING").expect("names add up");
    let row = &table[&vec![Some("2".to_owned())]];
    assert_eq!((table.len(), row["name"].as_deref()), (1, Some("b")));
}

#[test]
fn canal_reads_mysql_97() {
    canal_and_flink(Flavour::Mysql97);
}

#[test]
fn canal_reads_mysql_80() {
    canal_and_flink(Flavour::Mysql80);
}

#[test]
fn canal_reads_mariadb_10() {
    canal_and_flink(Flavour::Mariadb10);
}

#[test]
fn canal_follows_what_is_written_while_it_reads() {
    let _turn = one_at_a_time();
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let mut sql = server.sql();
    sql.exec("CREATE DATABASE shop; CREATE TABLE shop.item (id INT PRIMARY KEY)");
    let run = CanalRun::new(r"shop\..*", CanalEnd::Rows(2));
    let lines = CanalServer::shared().follow(&server, &run);
    sql.exec("INSERT INTO shop.item VALUES (1); INSERT INTO shop.item VALUES (2)");
    assert_eq!(lines.finish().len(), 4);
}

// ---------------------------------------------------------------- RocketMQ

#[test]
fn rocketmq_keeps_its_messages_over_a_crash() {
    let _turn = one_at_a_time();
    let rocketmq = RocketMq::start(&[]);
    rocketmq.create_topic("orders", 3);
    let send = |queue: u32, tags, keys, body| {
        let topic = "orders";
        rocketmq.send(&[RocketSend {
            topic,
            queue,
            tags,
            keys,
            body,
        }]);
    };
    send(2, "shop.item", "1 2", b"\0\xff");
    send(0, "", "", b"first");
    send(2, "", "", b"last");
    assert_eq!(rocketmq.topics(), ["orders"]);
    let before = rocketmq.messages("orders");
    let places: Vec<(u32, u64)> = before.iter().map(|m| (m.queue, m.offset)).collect();
    assert_eq!(places, [(0, 0), (2, 0), (2, 1)]);
    assert_eq!(before[0].text(), "first");
    assert_eq!((&before[0].tags, &before[0].keys), (&None, &None));
    assert_eq!(before[1].tags.as_deref(), Some("shop.item"));
    assert_eq!(before[1].keys.as_deref(), Some("1 2"));
    assert_eq!(before[1].body, b"\0\xff");

    rocketmq.kill_part(Part::Broker);
    rocketmq.restart_part(Part::Broker);
    assert_eq!(rocketmq.messages("orders"), before);
}
