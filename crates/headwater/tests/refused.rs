//! A broker that refuses a record itself: the key is parked, the rest goes on, and it heals once the
//! topic takes larger ones.

use std::time::Duration;
use testkit::topics::Topics;
use testkit::{Flavour, Kafka, MysqlServer, Pipeline};

const BINARY: &str = env!("CARGO_BIN_EXE_headwater");
const LIMIT: Duration = Duration::from_secs(90);

#[test]
fn a_record_that_the_broker_refuses_parks_its_key_and_heals() {
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let kafka = Kafka::start(&[]);
    let topics = Topics::new(&kafka.bootstrap());
    topics.create("shop.t", 1, &[("max.message.bytes", "20000")]);
    let mut sql = server.sql();
    sql.exec("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, v MEDIUMBLOB)");
    sql.exec("CREATE TABLE shop.other (id INT PRIMARY KEY, v TEXT)");
    let config = server.source_yaml("\"shop.*\"", &[])
        + &format!(
            "sinks:\n  - {{name: events, kafka: {{brokers: [\"{}\"], compression: none}}}}\n",
            kafka.bootstrap()
        );
    let mut pipeline = Pipeline::new(BINARY, &config);
    pipeline.start();
    pipeline.wait_streaming(LIMIT);
    sql.exec("INSERT INTO shop.t VALUES (1, 'small'), (2, 'small')");
    topics.wait_for("shop.t", "\"id\":\"2\"", LIMIT);
    // One transaction: three that fit, two that do not, and a row of another table.
    sql.exec("BEGIN");
    sql.exec("INSERT INTO shop.t VALUES (3, 'fits')");
    // What came before the refused change of the same key, in the same batch, is delivered.
    sql.exec("INSERT INTO shop.t VALUES (5, 'before it')");
    sql.exec("UPDATE shop.t SET v = REPEAT('y', 60000) WHERE id = 5");
    sql.exec("UPDATE shop.t SET v = REPEAT('x', 60000) WHERE id = 1");
    sql.exec("INSERT INTO shop.other VALUES (1, 'beside it')");
    sql.exec("COMMIT");
    sql.exec("DELETE FROM shop.t WHERE id = 1; INSERT INTO shop.t VALUES (1, 'again')");
    sql.exec("INSERT INTO shop.t VALUES (4, 'after it')");
    topics.wait_for("shop.t", "after it", LIMIT);
    topics.wait_for("shop.other", "beside it", LIMIT);
    let status = pipeline.wait_status("the key is parked", LIMIT, |status| {
        status["sinks"]["events"]["parked"][0]["keys"] == 2
    });
    let parked = &status["sinks"]["events"]["parked"][0];
    assert_eq!(parked["table"], "shop.t", "{parked}");
    let reason = parked["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("id") && !reason.contains("xxx"), "{parked}");
    let before = topics.rebuild("shop.");
    before.assert_clean("while the key is parked");
    assert_eq!(
        before.table("shop.t").map(testkit::rebuild::Table::rows),
        Some(5)
    );

    topics.configure("shop.t", &[("max.message.bytes", "1000000")]);
    pipeline.done(&["heal"], &["shop.t"]);
    sql.exec("UPDATE shop.t SET v = 'last' WHERE id = 1");
    topics.wait_for("shop.t", "last", LIMIT);
    pipeline.stop();
    let mut rebuilt = topics.rebuild("shop.");
    let tables = ["shop.t".to_owned(), "shop.other".to_owned()];
    rebuilt.assert_equals("Kafka", &mut sql, &tables);
}
