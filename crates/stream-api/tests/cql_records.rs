//! Records of tables of CQL as AWS's own client sees them, over a journal that was written as a source of CQL would: the
//! items of the checklist that a row of MySQL cannot show.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "../../stream/tests/support/mod.rs"]
mod world;

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;
use stream_api::{Api, ApiConfig, ApiParts, KeyFile, Keys, Sealer, Server};
use world::{TempDir, TestClock, World, cql};

const KEYS: &str = "keys: [{access_key: A, secret: s, user: u, policies: [all]}]\npolicies:\n  all: {Statement: {Effect: \
                    Allow, Action: '*', Resource: '*'}}\n";
const JUDGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testkit/judges/boto3");

#[test]
fn boto3_finds_what_the_checklist_asks_of_cql() {
    let dir = TempDir::new();
    let mut world = World::open(&dir.0.join("j"), TestClock::new());
    cql::fill(&mut world);
    let keys = Keys::parse(KEYS, "keys", world.streams.identity()).unwrap();
    let api = Api::new(ApiParts {
        streams: world.streams.clone(),
        settings: ApiConfig {
            listen: "127.0.0.1:0".into(),
            ..ApiConfig::default()
        },
        keys: KeyFile::fixed(keys),
        sealer: Sealer::new(&[7; 32]),
        audit: None,
    });
    let server = Server::start(Arc::new(api)).unwrap();
    let made = Command::new(format!("{JUDGE}/venv.sh"))
        .arg("boto3")
        .output()
        .unwrap();
    assert!(made.status.success(), "boto3 cannot be installed");
    let ran = Command::new(String::from_utf8_lossy(&made.stdout).trim())
        .arg(format!("{JUDGE}/cql.py"))
        .arg(format!("http://{}", server.addresses()[0]))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let trouble = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}{trouble}");
    let passed: BTreeSet<u32> = said
        .lines()
        .filter_map(|line| line.strip_prefix("PASS ")?.split(':').next())
        .flat_map(|items| items.split(' ').map(|item| item.parse().unwrap()))
        .collect();
    let asked: BTreeSet<u32> = (54..=72).chain([74]).collect();
    assert_eq!(passed, asked, "{said}");
}
