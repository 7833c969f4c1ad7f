//! The sockets over a real journal: how fast records come out, what a stopped capture answers, CBOR and TLS-free basics.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "../../stream/tests/support/mod.rs"]
mod world;

use http::{HeaderMap, HeaderValue, Method, Uri};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;
use stream::EnableStream;
use stream_api::signature::{Signed, authorization};
use stream_api::wire::Service;
use stream_api::{Api, ApiConfig, ApiParts, KeyFile, Keys, Sealer, Server};
use world::{Row, Step, TempDir, TestClock, World};

const KEYS: &str = "keys: [{access_key: A, secret: s, user: u, policies: [all]}]\npolicies:\n  all: {Statement: {Effect: \
                    Allow, Action: '*', Resource: '*'}}\n";

fn serve(world: &World, change: impl FnOnce(&mut ApiConfig)) -> Server {
    let mut settings = ApiConfig {
        listen: "127.0.0.1:0".into(),
        ..ApiConfig::default()
    };
    change(&mut settings);
    let keys = Keys::parse(KEYS, "keys", world.streams.identity()).unwrap();
    let api = Api::new(ApiParts {
        streams: world.streams.clone(),
        settings,
        keys: KeyFile::fixed(keys),
        sealer: Sealer::new(&[7; 32]),
        audit: None,
    });
    Server::start(Arc::new(api)).unwrap()
}

/// A client on one connection.
struct Client {
    socket: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    fn new(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        Self {
            socket,
            buffer: Vec::new(),
        }
    }

    fn send(&mut self, service: Service, name: &str, body: &str) {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        let label = stream::Label(now.as_millis() as i64).to_string();
        let digits: String = label
            .chars()
            .filter(|c| c.is_ascii_digit() || *c == 'T')
            .collect();
        let target = format!("{}.{name}", service.target_prefix());
        let mut headers = HeaderMap::new();
        headers.insert("host", HeaderValue::from_static("x"));
        headers.insert(
            "x-amz-date",
            HeaderValue::from_str(&format!("{}Z", &digits[..15])).unwrap(),
        );
        headers.insert("x-amz-target", HeaderValue::from_str(&target).unwrap());
        let signed = Signed {
            method: &Method::POST,
            uri: &Uri::from_static("/"),
            headers: &headers,
            body: body.as_bytes(),
        };
        let authorization = authorization(("A", "s"), (service, "us-east-1"), &signed).unwrap();
        let date = headers["x-amz-date"].to_str().unwrap();
        let head = format!(
            "POST / HTTP/1.1\r\nhost: x\r\nx-amz-date: {date}\r\nx-amz-target: {target}\r\nauthorization: \
             {authorization}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.socket.write_all(head.as_bytes()).unwrap();
        self.socket.write_all(body.as_bytes()).unwrap();
    }

    /// The answer's status and body.
    fn receive(&mut self) -> (u16, &[u8]) {
        self.buffer.clear();
        let mut piece = vec![0; 256 << 10];
        loop {
            let count = self.socket.read(&mut piece).unwrap();
            assert!(count > 0, "the connection ended");
            self.buffer.extend_from_slice(&piece[..count]);
            let Some(at) = self.buffer.windows(4).position(|end| end == b"\r\n\r\n") else {
                continue;
            };
            let head = String::from_utf8_lossy(&self.buffer[..at]).to_ascii_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.unwrap().parse().unwrap();
            if self.buffer.len() < at + 4 + length {
                continue;
            }
            let status = head[9..12].parse().unwrap();
            return (status, &self.buffer[at + 4..]);
        }
    }

    fn call(&mut self, service: Service, name: &str, body: Value) -> (u16, Value) {
        self.send(service, name, &body.to_string());
        let (status, body) = self.receive();
        (status, serde_json::from_slice(body).unwrap())
    }

    fn iterator(&mut self, arn: &str, shard: &str) -> String {
        let asked =
            json!({"streamArn": arn, "shardId": shard, "shardIteratorType": "TRIM_HORIZON"});
        let (status, answer) = self.call(Service::Streams, "GetShardIterator", asked);
        assert_eq!(status, 200, "{answer}");
        answer["shardIterator"].as_str().unwrap().to_owned()
    }
}

fn enable(world: &mut World, shards: u32) -> String {
    let request = EnableStream {
        keyspace: "shop".into(),
        table: "t".into(),
        shards: Some(stream::ShardLimits {
            initial: shards,
            ..stream::ShardLimits::default()
        }),
        ..EnableStream::default()
    };
    world
        .ask(move |streams| streams.enable(request))
        .unwrap()
        .arn
        .clone()
}

/// The text after a member's name, without reading the whole page.
fn member(body: &[u8], name: &str) -> Option<String> {
    let name = format!("\"{name}\":\"");
    let at = body
        .windows(name.len())
        .rposition(|window| window == name.as_bytes())?
        + name.len();
    let rest = &body[at..];
    let end = rest.iter().position(|byte| *byte == b'"')?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}

/// Reads a shard to its tip; records, bytes of answers.
fn read_all(address: SocketAddr, arn: &str, shard: &str) -> (usize, usize) {
    let mut client = Client::new(address);
    let mut at = client.iterator(arn, shard);
    let (mut records, mut bytes) = (0, 0);
    loop {
        client.send(
            Service::Streams,
            "GetRecords",
            &format!("{{\"shardIterator\":\"{at}\",\"maxResults\":1000}}"),
        );
        let (status, body) = client.receive();
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(body));
        let mark = b"\"eventVersion\"";
        records += body
            .windows(mark.len())
            .filter(|window| window == mark)
            .count();
        bytes += body.len();
        let is_tip = member(body, "iteratorPosition").unwrap() == "AT_TIP";
        if is_tip {
            return (records, bytes);
        }
        at = member(body, "nextShardIterator").unwrap();
    }
}

#[test]
fn many_small_records_a_second_come_out() {
    const ROWS: i64 = 200_000;
    let dir = TempDir::new();
    let mut world = World::open(&dir.0.join("j"), TestClock::new());
    let arn = enable(&mut world, 2);
    for from in (0..ROWS).step_by(1000) {
        let row = |id| Row {
            id,
            v: Some(id),
            s: "a small row".into(),
        };
        let steps: Vec<Step> = (from..from + 1000)
            .map(|id| Step::Insert(row(id)))
            .collect();
        world.transaction(&steps);
    }
    world.settle();
    let mut server = serve(&world, |_| {});
    let address = server.addresses()[0];
    let listed = world.streams.shards(&arn, None, None, 10).unwrap().shards;
    let shards: Vec<String> = listed.iter().map(|shard| shard.id.to_string()).collect();
    let mut best = 0.0f64;
    for _ in 0..3 {
        let began = Instant::now();
        let readers: Vec<_> = shards
            .iter()
            .map(|shard| {
                let (arn, shard) = (arn.clone(), shard.clone());
                std::thread::spawn(move || read_all(address, &arn, &shard))
            })
            .collect();
        let read: Vec<(usize, usize)> =
            readers.into_iter().map(|one| one.join().unwrap()).collect();
        let records: usize = read.iter().map(|(records, _)| records).sum();
        let bytes: usize = read.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(records as i64, ROWS);
        let rate = records as f64 / began.elapsed().as_secs_f64();
        eprintln!("{rate:.0} records/s, {} bytes a record", bytes / records);
        best = best.max(rate);
    }
    server.stop();
    // The target is 100,000 on a machine without other work.
    assert!(best >= 30_000.0, "{best:.0} records/s");
}

#[test]
fn what_capture_cannot_do_now_is_a_server_fault() {
    let dir = TempDir::new();
    let mut world = World::open(&dir.0.join("j"), TestClock::new());
    let arn = enable(&mut world, 1);
    world.driver.end();
    let server = serve(&world, |_| {});
    let mut client = Client::new(server.addresses()[0]);
    let asked = json!({"keyspaceName": "shop", "tableName": "t", "cdcSpecification": {"status": "DISABLED"}});
    let (status, answer) = client.call(Service::Keyspaces, "UpdateTable", asked);
    assert_eq!(
        (status, &answer["__type"]),
        (500, &json!("InternalServerException")),
        "{answer}"
    );
    let (status, answer) = client.call(Service::Streams, "GetStream", json!({"streamArn": arn}));
    assert_eq!((status, &answer["streamStatus"]), (200, &json!("ENABLED")));
    boto3_tries_three_times(server.addresses()[0]);
}

/// AWS's client for Python meets the fault: its own class of error, after three requests.
fn boto3_tries_three_times(address: SocketAddr) {
    const SCRIPT: &str = r#"
import boto3, sys
client = boto3.client("keyspaces", endpoint_url="http://" + sys.argv[1], region_name="us-east-1",
                      aws_access_key_id="A", aws_secret_access_key="s")
sent = []
client.meta.events.register("before-send.*", lambda **about: sent.append(1))
try:
    client.update_table(keyspaceName="shop", tableName="t", cdcSpecification={"status": "DISABLED"})
except client.exceptions.InternalServerException as error:
    assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    assert len(sent) == 3, sent
    print("three")
"#;
    let judges = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../testkit/judges/boto3/venv.sh"
    );
    let made = std::process::Command::new(judges)
        .arg("boto3")
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let python = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    let ran = std::process::Command::new(python)
        .args(["-c", SCRIPT, &address.to_string()])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&ran.stdout).trim(),
        "three",
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

#[test]
fn rates_are_kept_and_a_stopping_server_ends_its_connections() {
    let dir = TempDir::new();
    let mut world = World::open(&dir.0.join("j"), TestClock::new());
    enable(&mut world, 1);
    let mut server = serve(&world, |settings| {
        settings.limits.calls_per_key = 0.1;
        settings.limits.burst_seconds = 30.0;
    });
    let mut client = Client::new(server.addresses()[0]);
    for _ in 0..3 {
        assert_eq!(
            client.call(Service::Streams, "ListStreams", json!({})).0,
            200
        );
    }
    let (status, answer) = client.call(Service::Streams, "ListStreams", json!({}));
    assert_eq!(
        (status, &answer["__type"]),
        (400, &json!("ThrottlingException"))
    );
    let began = Instant::now();
    server.stop();
    assert!(
        began.elapsed().as_secs() < 4,
        "idle connections hold nothing up"
    );
    let mut byte = [0];
    assert_eq!(client.socket.read(&mut byte).unwrap(), 0);
}

#[test]
fn a_connection_may_idle_longer_than_a_request_may_take() {
    let dir = TempDir::new();
    let mut world = World::open(&dir.0.join("j"), TestClock::new());
    enable(&mut world, 1);
    let server = serve(&world, |settings| {
        settings.limits.request_seconds = 1;
        settings.limits.idle_seconds = 4;
    });
    let mut client = Client::new(server.addresses()[0]);
    for _ in 0..2 {
        assert_eq!(
            client.call(Service::Streams, "ListStreams", json!({})).0,
            200
        );
        // Time is what this is about.
        std::thread::sleep(std::time::Duration::from_millis(1500));
    }
    // A head that has begun has a request's time.
    let began = Instant::now();
    client
        .socket
        .write_all(b"POST / HTTP/1.1\r\nhost: x")
        .unwrap();
    let mut byte = [0];
    assert!(matches!(client.socket.read(&mut byte), Ok(0) | Err(_)));
    assert!(began.elapsed().as_millis() < 3000, "{:?}", began.elapsed());
    // And one who never asks does not stay.
    let began = Instant::now();
    let mut silent = Client::new(server.addresses()[0]);
    assert!(matches!(silent.socket.read(&mut byte), Ok(0) | Err(_)));
    assert!(began.elapsed().as_millis() < 3000, "{:?}", began.elapsed());
}

fn is_closed(client: &mut Client) -> bool {
    let wait = std::time::Duration::from_secs(20);
    client.socket.set_read_timeout(Some(wait)).unwrap();
    matches!(client.socket.read(&mut [0]), Ok(0) | Err(_))
}

#[test]
fn strangers_are_sent_away_and_one_address_has_so_many_connections() {
    let dir = TempDir::new();
    let mut world = World::open(&dir.0.join("j"), TestClock::new());
    enable(&mut world, 1);
    let server = serve(&world, |settings| {
        settings.limits.connections_per_address = 3;
        settings.limits.request_seconds = 600;
    });
    let address = server.addresses()[0];
    let mut known = Client::new(address);
    let list = |client: &mut Client| client.call(Service::Streams, "ListStreams", json!({})).0;
    assert_eq!(list(&mut known), 200);
    let mut stranger = Client::new(address);
    let unsigned = "POST / HTTP/1.1\r\nhost: x\r\nx-amz-target: KeyspacesStreams.ListStreams\r\ncontent-length: 2\r\n\r\n{}";
    stranger.socket.write_all(unsigned.as_bytes()).unwrap();
    assert_eq!(stranger.receive().0, 400);
    assert!(is_closed(&mut stranger), "it may not idle");
    // Two more are let in, silent as they are; the next is not.
    let _held = [Client::new(address), Client::new(address)];
    assert!(is_closed(&mut Client::new(address)));
    assert_eq!(list(&mut known), 200, "who is there goes on");
}

#[test]
fn readers_do_not_wait_for_calls_that_wait_for_capture() {
    let dir = TempDir::new();
    let mut world = World::open(&dir.0.join("j"), TestClock::new());
    let arn = enable(&mut world, 1);
    let server = serve(&world, |settings| settings.limits.calls_at_once = 1);
    let address = server.addresses()[0];
    let asked = json!({"keyspaceName": "shop", "tableName": "t", "cdcSpecification": {"status": "DISABLED"}});
    // Nobody serves them.
    let mut waiting: Vec<Client> = (0..6).map(|_| Client::new(address)).collect();
    for client in &mut waiting {
        client.send(Service::Keyspaces, "UpdateTable", &asked.to_string());
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    let began = Instant::now();
    let mut reader = Client::new(address);
    let asked = json!({"streamArn": arn});
    assert_eq!(reader.call(Service::Streams, "GetStream", asked).0, 200);
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
    world.driver.end();
    for client in &mut waiting {
        assert_eq!(client.receive().0, 500);
    }
}

#[test]
fn a_third_reader_is_throttled_or_by_setting_served() {
    for readers_per_shard in [2, 0] {
        let dir = TempDir::new();
        let mut world = World::open(&dir.0.join("j"), TestClock::new());
        let arn = enable(&mut world, 1);
        let shard = world.streams.shards(&arn, None, None, 1).unwrap().shards[0].id;
        let server = serve(&world, |settings| {
            settings.limits.readers_per_shard = readers_per_shard;
        });
        let mut readers: Vec<(Client, String)> = (0..3)
            .map(|_| {
                let mut client = Client::new(server.addresses()[0]);
                let at = client.iterator(&arn, &shard.to_string());
                (client, at)
            })
            .collect();
        let mut refused = Vec::new();
        for _ in 0..4 {
            for (index, (client, at)) in readers.iter_mut().enumerate() {
                let asked = json!({"shardIterator": at});
                let (status, answer) = client.call(Service::Streams, "GetRecords", asked);
                match status {
                    200 => *at = answer["nextShardIterator"].as_str().unwrap().to_owned(),
                    _ => refused.push((index, answer["__type"].clone())),
                }
            }
        }
        let throttled = json!("ThrottlingException");
        match readers_per_shard {
            0 => assert_eq!(refused, []),
            _ => assert!(
                !refused.is_empty() && refused.iter().all(|one| *one == (2, throttled.clone())),
                "{refused:?}"
            ),
        }
    }
}
