//! What comes out of the pipeline, judged by the consumers that it is written for.

use std::time::Duration;
use testkit::canal_server::{CanalEnd, CanalRun, CanalSchema, CanalServer, without_annotations};
use testkit::rng::Rng;
use testkit::workload::{self, Pace, Writers};
use testkit::{Flavour, MysqlServer, Pipeline, one_at_a_time};

const BINARY: &str = env!("CARGO_BIN_EXE_headwater");
const MINUTES: Duration = Duration::from_secs(240);

/// Random work over tables with all kinds of keys, ended by a last table, all of it in the log.
fn random_history(flavour: Flavour, transactions: u64) -> (MysqlServer, Vec<workload::Table>) {
    let server = MysqlServer::start(flavour, &[]);
    let tables = workload::tables(7, 300);
    workload::create(&mut server.sql(), &tables, &mut Rng::new(29));
    let pace = Pace {
        writers: 2,
        pause: Duration::from_millis(1),
    };
    let writers = Writers::start(server.port(), &tables, 31, pace);
    writers.wait_more(transactions, MINUTES);
    writers.stop();
    let mut sql = server.sql();
    sql.exec("CREATE TABLE shop.fence (id INT PRIMARY KEY)");
    sql.exec("INSERT INTO shop.fence VALUES (424242)");
    (server, tables)
}

/// Reads the whole log of a server into a file, in one format.
fn whole_log_to_file(server: &MysqlServer, format: &str, options: &str) -> Pipeline {
    let first = server.sql().row("SHOW BINARY LOGS").swap_remove(0);
    let start = format!("start: {{file: {first}, position: 4}}");
    let config = server.source_yaml("\"shop.*\"", &["snapshot: never", &start])
        + &format!(
            "sinks:\n  - {{name: archive, file: {{path: out, format: {format}, format_options: \
             {options}}}}}\n"
        );
    let mut pipeline = Pipeline::new(BINARY, &config);
    pipeline.start();
    pipeline.wait_file("out", "424242", MINUTES);
    pipeline.stop();
    pipeline
}

/// `id` is Canal's batch number and `ts` its clock: neither can be the same twice.
fn without_id_and_ts(line: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(line).into_owned();
    for (from, to) in [(",\"id\":", ",\"isDdl\":"), (",\"ts\":", ",\"type\":")] {
        // Values cannot hold these: their quotes are escaped.
        if let Some(start) = text.rfind(from)
            && let Some(length) = text[start..].find(to)
        {
            text.replace_range(start..start + length, "");
        }
    }
    text
}

/// Where two texts part, and what is around it.
fn difference(ours: &str, theirs: &str) -> String {
    let same = |(a, b): &(char, char)| a == b;
    let at = ours.chars().zip(theirs.chars()).take_while(same).count();
    let around = |text: &str| -> String {
        let from = at.saturating_sub(60);
        text.chars().skip(from).take(200).collect()
    };
    format!(
        "at character {at}\n ours   …{}\n theirs …{}",
        around(ours),
        around(theirs)
    )
}

fn canal_writes_the_same(flavour: Flavour) {
    let _turn = one_at_a_time();
    let (server, _) = random_history(flavour, 400);
    let marker = CanalEnd::Marker("shop.fence".into());
    // With the columns that the server has now: in its own history Canal keeps types as they were typed.
    let run = CanalRun {
        schema: CanalSchema::Now,
        ..CanalRun::new(r"shop\..*", marker)
    };
    let canal = CanalServer::shared().lines(&server, &run);
    let canal: Vec<String> = without_annotations(canal)
        .iter()
        .map(|line| without_id_and_ts(line))
        .filter(|line| !line.contains("\"table\":\"fence\""))
        .collect();
    let pipeline = whole_log_to_file(&server, "canal-json", "{canal_exact: true}");
    let ours = std::fs::read(pipeline.folder().join("out")).expect("the sink wrote");
    let ours: Vec<String> = ours
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(without_id_and_ts)
        .filter(|line| !line.contains("\"table\":\"fence\""))
        .collect();
    for (number, (ours, canals)) in ours.iter().zip(&canal).enumerate() {
        assert!(
            ours == canals,
            "message {number}: {}",
            difference(ours, canals)
        );
    }
    assert_eq!(ours.len(), canal.len());
    assert!(ours.len() > 300);
}

#[test]
fn canals_own_server_writes_the_same_lines_from_mysql() {
    canal_writes_the_same(Flavour::Mysql97);
}
