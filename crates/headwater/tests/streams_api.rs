//! The stream API as AWS's own clients see it, on a real MySQL: the checklist of what an SDK expects through boto3, and
//! the Keyspaces adapter of the Kinesis Client Library over splits and an end.

use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::{Flavour, MysqlServer, Pipeline, one_at_a_time, ports, script};

const BINARY: &str = env!("CARGO_BIN_EXE_headwater");
const MINUTES: Duration = Duration::from_secs(120);
const KEYS: &str = r#"
keys:
  - {access_key: admin, secret: admin-secret, user: admin, policies: [all]}
  - {access_key: reader, secret: reader-secret, user: reader, policies: [read]}
  - {access_key: nobody, secret: nobody-secret, user: nobody}
policies:
  all: {Version: "2012-10-17", Statement: [{Effect: Allow, Action: "*", Resource: "*"}]}
  read:
    Version: "2012-10-17"
    Statement:
      - Effect: Allow
        Action: ["cassandra:GetStream", "cassandra:GetShardIterator", "cassandra:GetRecords"]
        Resource: "arn:aws:cassandra:us-east-1:000000000000:/keyspace/shop/table/secret_a/stream/*"
"#;
const PRIVATE: &str = r#"{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "cassandra:ListStreams", "Resource": "*"}}"#;

fn judge_folder() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../testkit/judges/boto3"
    ))
}

/// A Python with a package, made in the cache when it is not there.
fn python(package: &str) -> String {
    let made = Command::new(judge_folder().join("venv.sh"))
        .arg(package)
        .stderr(Stdio::inherit())
        .output()
        .expect("venv.sh can be started");
    assert!(made.status.success(), "{package} cannot be installed");
    String::from_utf8_lossy(&made.stdout).trim().to_owned()
}

struct World {
    server: MysqlServer,
    pipeline: Pipeline,
    clock: PathBuf,
    endpoints: [String; 2],
}

impl World {
    fn start(flavour: Flavour) -> World {
        let server = MysqlServer::start(flavour, &[]);
        server
            .sql()
            .exec("CREATE DATABASE shop; CREATE TABLE shop.fence (id BIGINT PRIMARY KEY)");
        let port = ports::free(2);
        let [first, second] = [port, port + 1].map(|port| format!("127.0.0.1:{port}"));
        let config = server.source_yaml("\"shop.*\"", &[])
            + "journal: {retention: 24h, segment_size: 1MiB}\n"
            + &format!(
                "api:\n  listen: {first}\n  credentials_file: keys.yaml\n  limits: {{request_seconds: 3}}\n  listeners:\n"
            )
            + &format!(
                "    - {{listen: \"{second}\", policy_file: private.json, tls: {{certificate: tls/server-cert.pem, key: \
                 tls/server-key.pem}}}}\n"
            );
        let mut pipeline = Pipeline::new(BINARY, &config);
        pipeline.write_private("keys.yaml", KEYS);
        pipeline.write_private("private.json", PRIVATE);
        let tls = pipeline.folder().join("tls").display().to_string();
        script::run("tls.sh", &[tls]).expect("certificates can be made");
        let clock = pipeline.folder().join("clock");
        std::fs::write(&clock, "0").expect("the clock can be written");
        pipeline.start_with_env(&[("HEADWATER_CLOCK_OFFSET_FILE", clock.as_path())]);
        pipeline.wait_streaming(MINUTES);
        pipeline.wait_said(&second, MINUTES);
        let endpoints = [format!("http://{first}"), format!("https://{second}")];
        World {
            server,
            pipeline,
            clock,
            endpoints,
        }
    }

    /// What the checklist cannot do itself.
    fn answer(&mut self, line: &str) -> Result<String, String> {
        let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
        match what {
            "sql" => {
                self.server.sql().exec(rest);
                Ok(String::new())
            }
            "clock" => {
                std::fs::write(&self.clock, rest).map_err(|error| error.to_string())?;
                std::thread::sleep(Duration::from_millis(60));
                Ok(String::new())
            }
            // What the journal holds, so that it cannot be read for a while.
            "journal" => {
                let (from, to) = match rest {
                    "away" => ("seg", "away"),
                    _ => ("away", "seg"),
                };
                let dir = self.pipeline.folder().join("shop.journal");
                let files = std::fs::read_dir(dir).map_err(|error| error.to_string())?;
                let paths = files.filter_map(|entry| Some(entry.ok()?.path()));
                for path in paths.filter(|path| path.extension().is_some_and(|end| end == from)) {
                    std::fs::rename(&path, path.with_extension(to))
                        .map_err(|error| error.to_string())?;
                }
                Ok(String::new())
            }
            "cli" => {
                let arguments: Vec<String> =
                    serde_json::from_str(rest).map_err(|error| error.to_string())?;
                let at = arguments.iter().position(|argument| argument == "CONFIG");
                let at = at.ok_or("no CONFIG")?;
                let texts: Vec<&str> = arguments.iter().map(String::as_str).collect();
                let output = self.pipeline.command(&texts[..at], &texts[at + 1..]);
                match output.status.success() {
                    true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
                    false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
                }
            }
            other => Err(format!("`{other}` is not understood")),
        }
    }

    /// Runs the checklist; every line that it printed.
    fn run_checklist(&mut self, items: &[&str]) -> (bool, Vec<String>) {
        let mut child = Command::new(python("boto3"))
            .arg(judge_folder().join("checklist.py"))
            .args(&self.endpoints)
            .args(items)
            .env("AWS_CA_BUNDLE", self.pipeline.folder().join("tls/ca.pem"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python can be started");
        let mut to = child.stdin.take().expect("stdin is piped");
        let from = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut said = Vec::new();
        for line in from.lines() {
            let line = line.expect("the checklist writes text");
            let Some(asked) = line.strip_prefix("! ") else {
                eprintln!("{line}");
                said.push(line);
                continue;
            };
            let answer = match self.answer(asked) {
                Ok(text) => json!({"ok": true, "text": text}),
                Err(text) => json!({"ok": false, "text": text}),
            };
            writeln!(to, "{answer}").expect("the checklist reads");
        }
        let status = child.wait().expect("the checklist ends");
        (status.success(), said)
    }
}

/// Every record of the audit trail.
fn audit(pipeline: &Pipeline) -> Vec<serde_json::Value> {
    let dir = pipeline.folder().join("shop.audit");
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .expect("there is a trail")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "jsonl")
        })
        .collect();
    files.sort();
    let text: String = files
        .iter()
        .map(|path| std::fs::read_to_string(path).expect("text"))
        .collect();
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn boto3_finds_everything_that_the_checklist_asks() {
    let _turn = one_at_a_time();
    let items = std::env::var("HEADWATER_ITEMS").unwrap_or_default();
    let items: Vec<&str> = items.split_whitespace().collect();
    let mut world = World::start(Flavour::Mysql97);
    let (good, said) = world.run_checklist(&items);
    let failed: Vec<&String> = said
        .iter()
        .filter(|line| line.starts_with("FAIL"))
        .collect();
    assert!(good && failed.is_empty(), "{}", said.join("\n"));
    if items.is_empty() {
        assert!(
            said.iter().filter(|line| line.starts_with("PASS")).count() >= 25,
            "{said:?}"
        );
    }
    audited(&mut world, items.is_empty());
}

#[test]
fn boto3_finds_the_types_that_only_mariadb_has() {
    let _turn = one_at_a_time();
    let mut world = World::start(Flavour::Mariadb11);
    let (good, said) = world.run_checklist(&["61 of MariaDB"]);
    let passed = said.iter().any(|line| line.starts_with("PASS"));
    assert!(good && passed, "{}", said.join("\n"));
}

/// What was done above stands in the trail, whole, and a forged trail is found.
fn audited(world: &mut World, said_all: bool) {
    let pipeline = &mut world.pipeline;
    let tailed = pipeline.command(&["tail"], &["--from", "earliest", "--no-follow"]);
    assert!(tailed.status.success());
    let listed = pipeline.command(&["streams", "list"], &["--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    assert!(listed.as_array().is_some_and(|all| !all.is_empty()));
    pipeline.stop();
    let stopped = pipeline.command(&["tail"], &["--from", "earliest", "--no-follow"]);
    assert!(stopped.status.success());
    let events = audit(pipeline);
    let of = |name: &'static str| {
        events
            .iter()
            .filter(move |event| event["eventName"] == name)
    };
    let read = of("GetRecords").next().expect("reads are recorded");
    assert_eq!(read["eventCategory"], "Data");
    assert_eq!(read["managementEvent"], false);
    assert_eq!(read["readOnly"], true);
    assert_eq!(read["eventSource"], "cassandra-streams.amazonaws.com");
    assert_eq!(read["userIdentity"]["userName"], "admin");
    assert_eq!(read["resources"][0]["type"], "AWS::Cassandra::Table");
    let changed = of("AlterTable").next().expect("changes are recorded");
    assert_eq!(changed["eventCategory"], "Management");
    assert_eq!(changed["eventSource"], "cassandra.amazonaws.com");
    let tailed = of("Tail").next().expect("a tail is recorded");
    assert_eq!(tailed["userIdentity"]["type"], "LocalUser");
    assert_eq!(tailed["sourceIPAddress"], "local");
    assert_eq!(of("Tail").count(), 2, "also of the stopped pipeline");
    let by_command = |event: &&serde_json::Value| event["userIdentity"]["type"] == "LocalUser";
    assert_eq!(of("ListStreams").filter(by_command).count(), 1);
    if said_all {
        let encrypted = events
            .iter()
            .find(|event| event["tlsDetails"]["tlsVersion"] == "TLSv1.3");
        assert!(encrypted.is_some(), "calls over TLS tell so");
        let refused = of("GetStream").find(|event| event["errorCode"] == "AccessDenied");
        assert_eq!(
            refused.expect("refusals are recorded")["userIdentity"]["userName"],
            "reader"
        );
    }
    let text = serde_json::to_string(&events).expect("JSON");
    assert!(
        !text.contains("-secret") && !text.contains("plain text"),
        "no secret stands there"
    );
    let said = |output: std::process::Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let whole = pipeline.command(&["audit", "verify"], &[]);
    assert!(whole.status.success(), "{}", said(whole));
    let dir = pipeline.folder().join("shop.audit");
    let (head, away) = (dir.join("head"), dir.join("away"));
    std::fs::rename(&head, &away).expect("there is a head");
    let headless = pipeline.command(&["audit", "verify"], &[]);
    assert!(!headless.status.success());
    std::fs::rename(&away, &head).expect("it can be put back");
    let file = std::fs::read_dir(&dir)
        .expect("there is a trail")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| {
            path.extension()
                .is_some_and(|extension| extension == "jsonl")
        })
        .expect("there is a file");
    let forged = std::fs::read_to_string(&file)
        .expect("text")
        .replacen("admin", "nimda", 1);
    std::fs::write(&file, forged).expect("the file can be written");
    let found = pipeline.command(&["audit", "verify"], &[]);
    assert!(!found.status.success());
    assert!(said(found).contains("was changed"));
}

/// moto in DynamoDB's place; gone with the test.
struct Leases(std::process::Child, u16);

impl Leases {
    fn start() -> Leases {
        let port = ports::free(1);
        let number = port.to_string();
        let child = Command::new(python("moto"))
            .args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &number])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("moto can be started");
        let leases = Leases(child, port);
        for _ in 0..600 {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return leases;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("moto does not listen");
    }
}

impl Drop for Leases {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_kinesis_client_library_reads_every_record_once_over_splits_and_the_end() {
    const KEYS: u64 = 60;
    let _turn = one_at_a_time();
    let world = World::start(Flavour::Mysql97);
    let leases = Leases::start();
    let mut sql = world.server.sql();
    sql.exec("CREATE TABLE shop.orders (id BIGINT PRIMARY KEY, v INT); INSERT INTO shop.orders VALUES (0, 0)");
    let streams = |before: &[&str], after: &[&str]| {
        let mut all = vec!["streams"];
        all.extend(before);
        world.pipeline.command(&all, after)
    };
    while !streams(&["enable"], &["shop.orders", "--name", "orders"])
        .status
        .success()
    {
        std::thread::sleep(Duration::from_millis(100));
    }
    let described = |what: &str| -> Vec<String> {
        let said = streams(&["describe"], &["orders"]);
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        let words = text
            .lines()
            .filter(|line| line.starts_with(what))
            .map(str::to_owned);
        words.collect()
    };
    let arn = described("arn")[0]
        .split_whitespace()
        .nth(1)
        .expect("an ARN")
        .to_owned();
    let mut judge = Command::new(judge_folder().join("../run.sh"))
        .arg("keyspaces-kcl")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the judge can be started");
    let mut to = judge.stdin.take().expect("stdin is piped");
    let request = format!(
        "arn\t{arn}\nstreams\t{}\ndynamodb\thttp://127.0.0.1:{}\nkey\tadmin\nends\t6\nseconds\t120\n\n",
        world.endpoints[0], leases.1
    );
    to.write_all(request.as_bytes()).expect("the judge reads");
    let mut lines = BufReader::new(judge.stdout.take().expect("stdout is piped")).lines();
    let mut next = || -> Option<serde_json::Value> {
        let line = lines.next()?.expect("text");
        (!line.is_empty()).then(|| serde_json::from_str(&line).expect("JSON"))
    };
    // Writes begin once it reads, so that it meets each split at work.
    assert_eq!(next().expect("it begins")["event"], "begin");
    let write = |statement: &str| {
        let mut sql = world.server.sql();
        for id in 1..=KEYS {
            sql.exec(&statement.replace('$', &id.to_string()));
        }
    };
    write("INSERT INTO shop.orders VALUES ($, 1)");
    assert!(
        streams(&["split"], &["orders", "--pieces", "3"])
            .status
            .success()
    );
    write("UPDATE shop.orders SET v = 2 WHERE id = $");
    let open = described("shard")
        .into_iter()
        .find(|line| line.contains("to open"))
        .expect("one");
    let open = open
        .split_whitespace()
        .nth(1)
        .expect("a shard id")
        .to_owned();
    assert!(streams(&["split"], &["orders", &open]).status.success());
    write("UPDATE shop.orders SET v = 3 WHERE id = $; DELETE FROM shop.orders WHERE id = $");
    // What was written is in the journal before the stream ends.
    let is_captured = || {
        let status = world.pipeline.status().unwrap_or_default();
        let mut all = status["streams"].as_array().into_iter().flatten();
        all.any(|stream| stream["name"] == "orders" && stream["records_captured"] == 4 * KEYS)
    };
    let since = std::time::Instant::now();
    while !is_captured() {
        assert!(since.elapsed() < MINUTES, "{}", world.pipeline.standing());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(streams(&["disable"], &["orders"]).status.success());
    let mut ends = 0;
    let mut seen: std::collections::BTreeMap<String, Vec<(u128, String)>> = Default::default();
    while let Some(event) = next() {
        match event["event"].as_str() {
            Some("end") => ends += 1,
            Some("record") => {
                let image = match (event["old"].as_bool(), event["new"].as_str()) {
                    (Some(true), Some(v)) => format!("update {v}"),
                    (_, Some(v)) => format!("insert {v}"),
                    _ => "delete".to_owned(),
                };
                let sequence = event["sequence"]
                    .as_str()
                    .expect("text")
                    .parse()
                    .expect("digits");
                let id = event["id"].as_str().expect("text").to_owned();
                seen.entry(id).or_default().push((sequence, image));
            }
            Some("begin") => {}
            _ => panic!("{event}"),
        }
    }
    let _ = judge.wait();
    assert_eq!(ends, 6, "every shard was read to its end");
    assert_eq!(seen.len() as u64, KEYS);
    for (id, history) in seen {
        let images: Vec<&str> = history.iter().map(|(_, image)| image.as_str()).collect();
        assert_eq!(
            images,
            ["insert 1", "update 2", "update 3", "delete"],
            "key {id}"
        );
        assert!(
            history.windows(2).all(|pair| pair[0].0 < pair[1].0),
            "key {id}"
        );
    }
}
