//! From a source into a ClickHouse engine, for tests.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::time::Duration;
use testkit::clickhouse::Http;
use testkit::mirror::{assert_same, difference};
use testkit::sql::Sql;
use testkit::{ClickHouse, Flavour, MysqlServer, Pipeline};

pub const BINARY: &str = env!("CARGO_BIN_EXE_headwater");
pub const LIMIT: Duration = Duration::from_secs(120);
pub const FLAVOURS: [Flavour; 2] = [Flavour::Mysql97, Flavour::Mariadb10];

/// Folds soon and often.
pub const QUICK: &str = "fold: {rows: 1000, age_ms: 100, duty_percent: 90, grace_ms: 50}";

/// A source, a target and the pipeline between them.
pub struct Way {
    pub server: MysqlServer,
    pub target: ClickHouse,
    pub pipeline: Pipeline,
    fences: u64,
}

impl Way {
    pub fn new(flavour: Flavour, create: &str, settings: &str) -> Self {
        let server = MysqlServer::start(flavour, &[]);
        let mut sql = server.sql();
        sql.exec("CREATE DATABASE shop; CREATE TABLE shop.fence (id INT PRIMARY KEY)");
        sql.exec(create);
        let target = ClickHouse::start();
        let config = server.source_yaml("\"shop.*\"", &[])
            + &format!(
                "sinks:\n  - {{name: wh, batch_delay: 20ms, clickhouse: {{url: \"{}\", {settings}}}}}\n",
                target.url()
            );
        let mut pipeline = Pipeline::new(BINARY, &config);
        pipeline.start();
        pipeline.wait_streaming(LIMIT);
        Self {
            server,
            target,
            pipeline,
            fences: 0,
        }
    }

    /// Waits until everything that was committed is visible.
    pub fn fence(&mut self) {
        self.fences += 1;
        let number = self.fences;
        self.server
            .sql()
            .exec(&format!("INSERT INTO shop.fence VALUES ({number})"));
        let sql = format!("SELECT count() FROM shop.fence WHERE id = {number}");
        let end = std::time::Instant::now() + LIMIT;
        let mut http = self.target.client();
        while http.try_query(&sql).unwrap_or_default() != b"1\n" {
            assert!(self.pipeline.is_alive(), "{}", self.pipeline.standing());
            assert!(
                std::time::Instant::now() < end,
                "the fence does not come: {}",
                self.pipeline.standing()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn sides(&self) -> (Sql, Http) {
        (self.server.sql(), self.target.client())
    }

    /// The view is the source's table at once; the base is, once nothing is pending.
    pub fn assert_same(&mut self, table: &str) {
        self.fence();
        let (mut sql, mut http) = self.sides();
        assert_same(&mut sql, &mut http, table, table);
        self.wait_folded();
        // What `status` said of folds may be a moment old.
        let base = format!("{table}__base");
        let end = std::time::Instant::now() + Duration::from_secs(10);
        while difference(&mut sql, &mut http, table, &base).is_some()
            && std::time::Instant::now() < end
        {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_same(&mut sql, &mut http, table, &base);
        assert_same(&mut sql, &mut http, table, table);
    }

    pub fn wait_folded(&mut self) {
        let what = "everything is folded";
        self.pipeline.wait_status(what, LIMIT, |status| {
            let details = status["sinks"]["wh"]["details"].as_array();
            details.is_some_and(|all| {
                all.iter().all(|one| {
                    one[1]
                        .as_str()
                        .is_some_and(|t| t.starts_with("nothing pending"))
                })
            })
        });
    }

    /// What the sink has set aside, as `status` shows it.
    pub fn parked(&mut self) -> serde_json::Value {
        let status = self.pipeline.status().expect("it answers");
        status["sinks"]["wh"]["parked"].clone()
    }

    /// Waits until this is all that is set aside: tables' names.
    pub fn wait_parked(&mut self, tables: &[&str]) {
        let what = format!("parked: {tables:?}");
        self.pipeline.wait_status(&what, LIMIT, |status| {
            let parked = status["sinks"]["wh"]["parked"].as_array();
            parked.is_some_and(|all| {
                let names: Vec<&str> = all.iter().filter_map(|one| one["table"].as_str()).collect();
                names == tables
            })
        });
    }

    /// Tables of the target whose names begin so.
    pub fn tables_like(&self, prefix: &str) -> String {
        self.target.query(&format!(
            "SELECT arrayStringConcat(arraySort(groupArray(name)), ' ') FROM system.tables WHERE database = \
             'shop' AND startsWith(name, '{prefix}')"
        ))
    }

    /// Copies a table again, and waits until nothing of it is set aside.
    pub fn resnapshot(&mut self, table: &str) {
        self.pipeline.done(&["heal"], &[table, "--resnapshot"]);
        self.pipeline.wait_status("it is healed", LIMIT, |status| {
            status["sinks"]["wh"]["parked"] == serde_json::json!([])
                && status["source"]["phase"] == "streaming"
        });
    }

    /// As [`fence`](Self::fence), in either mode.
    pub fn fence_in(&mut self, is_mvcc: bool) {
        if is_mvcc {
            return self.fence();
        }
        self.fences += 1;
        let number = self.fences;
        self.server
            .sql()
            .exec(&format!("INSERT INTO shop.fence VALUES ({number})"));
        let sql = format!("SELECT count() FROM shop.fence FINAL WHERE id = {number}");
        self.target.client().wait(&sql, "1", LIMIT);
        // In this mode a table is visible with its own insert: the cursor comes after all of them.
        self.pipeline
            .wait_status("all is delivered", LIMIT, |status| {
                status["sinks"]["wh"]["lag_rows"] == 0
            });
    }
}
