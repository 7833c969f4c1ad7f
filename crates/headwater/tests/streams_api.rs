//! The stream API as AWS's own client for Python sees it: the checklist of what an SDK expects, on a real MySQL.

use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::{Flavour, MysqlServer, Pipeline, one_at_a_time, ports};

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

/// The Python with boto3, made in the cache when it is not there.
fn python() -> String {
    let made = Command::new(judge_folder().join("venv.sh"))
        .stderr(Stdio::inherit())
        .output()
        .expect("venv.sh can be started");
    assert!(made.status.success(), "boto3 cannot be installed");
    String::from_utf8_lossy(&made.stdout).trim().to_owned()
}

fn private_file(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).expect("the file can be written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
}

struct World {
    server: MysqlServer,
    pipeline: Pipeline,
    clock: PathBuf,
    endpoints: [String; 2],
}

impl World {
    fn start() -> World {
        let server = MysqlServer::start(Flavour::Mysql97, &[]);
        server
            .sql()
            .exec("CREATE DATABASE shop; CREATE TABLE shop.fence (id BIGINT PRIMARY KEY)");
        let port = ports::free(2);
        let [first, second] = [port, port + 1].map(|port| format!("127.0.0.1:{port}"));
        let config = server.source_yaml("\"shop.*\"", &[])
            + &format!(
                "journal: {{retention: 24h, segment_size: 1MiB}}\napi:\n  listen: {first}\n  credentials_file: keys.yaml\n  listeners: \
                 [{{listen: \"{second}\", policy_file: private.json}}]\n  limits: {{request_seconds: 3}}\n"
            );
        let mut pipeline = Pipeline::new(BINARY, &config);
        private_file(&pipeline.folder().join("keys.yaml"), KEYS);
        private_file(&pipeline.folder().join("private.json"), PRIVATE);
        let clock = pipeline.folder().join("clock");
        std::fs::write(&clock, "0").expect("the clock can be written");
        pipeline.start_with_env(&[("HEADWATER_CLOCK_OFFSET_FILE", clock.as_path())]);
        pipeline.wait_streaming(MINUTES);
        pipeline.wait_said(&second, MINUTES);
        let endpoints = [first, second].map(|address| format!("http://{address}"));
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
        let mut child = Command::new(python())
            .arg(judge_folder().join("checklist.py"))
            .args(&self.endpoints)
            .args(items)
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
                println!("{line}");
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
    let mut world = World::start();
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
    audited(&mut world);
}

/// What was done above stands in the trail, whole, and a forged trail is found.
fn audited(world: &mut World) {
    let pipeline = &mut world.pipeline;
    let tailed = pipeline.command(&["tail"], &["--from", "earliest", "--no-follow"]);
    assert!(tailed.status.success());
    pipeline.stop();
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
    let text = serde_json::to_string(&events).expect("JSON");
    assert!(
        !text.contains("-secret") && !text.contains("plain text"),
        "no secret stands there"
    );
    let said = |output: std::process::Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let whole = pipeline.command(&["audit", "verify"], &[]);
    assert!(whole.status.success(), "{}", said(whole));
    let dir = pipeline.folder().join("shop.audit");
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
