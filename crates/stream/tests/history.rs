//! For each key the sequence of images equals the source's history, whatever happens to shards, readers and processes.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may fail")]

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use stream::{EnableStream, ErrorKind, ShardId, ShardLimits, Streams};
use support::walker::Walker;
use support::*;

const CHILD: &str = "STREAM_KILL_CHILD";
const KEYS: u64 = 60;

fn request(initial: u32) -> EnableStream {
    EnableStream {
        keyspace: "shop".into(),
        table: "t".into(),
        shards: Some(ShardLimits {
            initial,
            ..ShardLimits::default()
        }),
        ..EnableStream::default()
    }
}

fn open_shards(streams: &Streams, arn: &str) -> Vec<(u64, ShardId)> {
    let page = streams.shards(arn, None, None, 10_000).unwrap();
    let open = page.shards.iter().filter(|shard| shard.ending.is_none());
    let mut open: Vec<_> = open.map(|shard| (shard.from_hash, shard.id)).collect();
    open.sort_unstable();
    open
}

/// Splits or merges something, if it can be.
fn reshard(world: &mut World, arn: &str, random: &mut Rng) {
    let open = open_shards(&world.streams, arn);
    let at = random.below(open.len() as u64) as usize;
    let arn = arn.to_owned();
    if random.chance(55) && open.len() < 20 {
        let (shard, pieces) = (open[at].1, 2 + random.below(3) as u32);
        world
            .ask(move |streams| streams.split(&arn, shard, pieces))
            .unwrap();
    } else if at + 1 < open.len() {
        let pair = [open[at].1, open[at + 1].1];
        world
            .ask(move |streams| streams.merge(&arn, &pair))
            .unwrap();
    }
}

#[test]
fn random_changes_splits_merges_and_restarts_give_each_key_its_history() {
    let seed = seed("history");
    let mut random = Rng(seed);
    let dir = TempDir::new();
    let dir = dir.0.join("j");
    let clock = TestClock::new();
    let mut world = World::open(&dir, clock.clone());
    let info = world.ask(|streams| streams.enable(request(2))).unwrap();
    let (arn, mut walker) = (info.arn.clone(), Walker::default());
    let (mut workload, mut history) = (Workload::new(seed, KEYS), History::new());
    for round in 0..600 {
        let steps = workload.next();
        steps.iter().for_each(|step| remember(&mut history, step));
        world.transaction(&steps);
        if random.chance(30) {
            world.settle();
            walker.step(&world.streams, &arn, &mut random);
        }
        if random.chance(12) {
            reshard(&mut world, &arn, &mut random);
        }
        if random.chance(3) {
            world.close();
            world = World::open(&dir, clock.clone());
        }
        if round == 300 {
            // What the consumer had goes, its place does not: it keeps sequences, not iterators.
            walker.step(&world.streams, &arn, &mut random);
        }
    }
    let close = arn.clone();
    world.ask(move |streams| streams.disable(&close)).unwrap();
    walker.drain(&world.streams, &arn, &mut random);
    assert_eq!(walker.seen, history);
    assert!(walker.records > 1000);
}

/// Appends the workload of `seed` for ever, and changes shards.
fn child(dir: &Path, seed: u64) {
    let mut world = World::open(dir, TestClock::new());
    let mut workload = Workload::new(seed, KEYS);
    for _ in 0..world.transactions {
        workload.next();
    }
    let listed = world.streams.list(None, None, None, 10).unwrap();
    let arn = match listed.streams.first() {
        Some(info) => info.arn.clone(),
        None => world
            .ask(|streams| streams.enable(request(1)))
            .unwrap()
            .arn
            .clone(),
    };
    println!("\nready");
    let mut random = Rng(seed ^ world.transactions);
    loop {
        let steps = workload.next();
        world.transaction(&steps);
        if random.chance(20) {
            world.settle();
        }
        if random.chance(10) {
            reshard(&mut world, &arn, &mut random);
        }
    }
}

#[test]
fn a_killed_process_loses_and_doubles_nothing() {
    if let Ok(text) = std::env::var(CHILD) {
        let (seed, dir) = text.split_once(' ').unwrap();
        return child(dir.as_ref(), seed.parse().unwrap());
    }
    let seed = seed("killed");
    let mut random = Rng(seed);
    let dir = TempDir::new();
    let dir = dir.0.join("j");
    let mut walker = Walker::default();
    let mut arn = String::new();
    for _ in 0..8 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--nocapture",
                "--exact",
                "a_killed_process_loses_and_doubles_nothing",
            ])
            .env(CHILD, format!("{seed} {}", dir.display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        lines
            .map_while(Result::ok)
            .find(|line| line == "ready")
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(30 + random.below(250)));
        child.kill().unwrap();
        child.wait().unwrap();
        // A reader of another process looks at what is there.
        let world = World::open(&dir, TestClock::new());
        arn = world.streams.list(None, None, None, 10).unwrap().streams[0]
            .arn
            .clone();
        walker.drain(&world.streams, &arn, &mut random);
        world.close();
    }
    let world = World::open(&dir, TestClock::new());
    walker.drain(&world.streams, &arn, &mut random);
    // The stream was enabled before the first transaction, so its history is the workload's.
    let (mut workload, mut history) = (Workload::new(seed, KEYS), History::new());
    for _ in 0..world.transactions {
        workload
            .next()
            .iter()
            .for_each(|step| remember(&mut history, step));
    }
    assert!(world.transactions > 20, "the children did something");
    assert_eq!(walker.seen, history);
}

#[test]
fn a_shard_change_that_cannot_be_is_refused() {
    let dir = TempDir::new();
    let mut world = World::open(&dir.0.join("j"), TestClock::new());
    let arn = world
        .ask(|streams| streams.enable(request(4)))
        .unwrap()
        .arn
        .clone();
    let open = open_shards(&world.streams, &arn);
    let ids: Vec<ShardId> = open.iter().map(|(_, id)| *id).collect();
    let kind =
        |result: stream::Result<_>| result.map(|_: std::sync::Arc<_>| ()).unwrap_err().kind();
    let (a, far) = (arn.clone(), [ids[0], ids[2]]);
    assert_eq!(
        kind(world.ask(move |s| s.merge(&a, &far))),
        ErrorKind::Conflict
    );
    let (a, one) = (arn.clone(), [ids[0]]);
    assert_eq!(
        kind(world.ask(move |s| s.merge(&a, &one))),
        ErrorKind::Invalid
    );
    let (a, first) = (arn.clone(), ids[0]);
    assert_eq!(
        kind(world.ask(move |s| s.split(&a, first, 1))),
        ErrorKind::Invalid
    );
    let a = arn.clone();
    world.ask(move |s| s.split(&a, first, 2)).unwrap();
    let a = arn.clone();
    assert_eq!(
        kind(world.ask(move |s| s.split(&a, first, 2))),
        ErrorKind::Conflict
    );
    let children = world
        .streams
        .shards(&arn, Some(first), None, 10)
        .unwrap()
        .shards;
    assert_eq!(children.len(), 2);
    assert!(children.iter().all(|child| child.parents == [first]));
    assert_eq!(
        world
            .streams
            .shards(&arn, Some(ids[1]), None, 10)
            .unwrap()
            .shards,
        []
    );
}
