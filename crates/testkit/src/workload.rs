//! Random work on a server: tables with all sorts of keys, and writers that insert, update, delete
//! and change keys in transactions of all sizes until they are stopped.

use crate::rng::Rng;
use crate::sql::{Sql, Went};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The database of the tests.
pub const DATABASE: &str = "shop";

const VALUES: [&str; 9] = [
    "num", "amount", "label", "at", "doc", "color", "raw", "seen", "ratio",
];

const COLUMNS: &str = "num INT, amount DECIMAL(18,4), label VARCHAR(200), at DATETIME(6), doc JSON, \
                       color ENUM('red','grün','blue'), raw BLOB, seen TIMESTAMP(3) NULL, \
                       ratio DOUBLE";

/// What a table's key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// `BIGINT`.
    Signed,
    /// `BIGINT UNSIGNED`, also past 2^63.
    Unsigned,
    /// `VARCHAR(40)` in a case-insensitive collation.
    Text,
    /// `INT`, `VARCHAR(20)`.
    Pair,
    /// `DATETIME(6)`.
    Time,
    /// `VARBINARY(16)`.
    Bytes,
    /// `DECIMAL(20,4)`.
    Decimal,
}

const KEYS: [Key; 7] = [
    Key::Signed,
    Key::Text,
    Key::Pair,
    Key::Unsigned,
    Key::Time,
    Key::Bytes,
    Key::Decimal,
];

/// A table that is worked on.
#[derive(Debug, Clone)]
pub struct Table {
    /// `database.table`.
    pub name: String,
    key: Key,
    /// Keys are made of numbers below this.
    keys: u64,
}

impl Table {
    /// A table with one kind of key.
    pub fn new(name: &str, key: Key, keys: u64) -> Self {
        Self {
            name: format!("{DATABASE}.{name}"),
            key,
            keys,
        }
    }

    fn create(&self) -> String {
        let key = match self.key {
            Key::Signed => "id BIGINT PRIMARY KEY",
            Key::Unsigned => "id BIGINT UNSIGNED PRIMARY KEY",
            Key::Text => "id VARCHAR(40) PRIMARY KEY",
            Key::Pair => "a INT, b VARCHAR(20), PRIMARY KEY (a, b)",
            Key::Time => "id DATETIME(6) PRIMARY KEY",
            Key::Bytes => "id VARBINARY(16) PRIMARY KEY",
            Key::Decimal => "id DECIMAL(20,4) PRIMARY KEY",
        };
        let name = &self.name;
        format!("CREATE TABLE {name} ({key}, {COLUMNS}) DEFAULT CHARACTER SET utf8mb4")
    }

    /// Key columns and their values for one number.
    fn key(&self, number: u64) -> Vec<(&'static str, String)> {
        let one = |text: String| vec![("id", text)];
        match self.key {
            Key::Signed => one((number as i64 - self.keys as i64 / 4).to_string()),
            Key::Unsigned => one(match number % 5 {
                0 => (u64::MAX - number).to_string(),
                _ => number.to_string(),
            }),
            Key::Text => one(format!(
                "'{}{number}'",
                ["k", "Ä", "ключ-", "ß"][number as usize % 4]
            )),
            Key::Pair => {
                let names = ["north", "South", "østre", "x"];
                let name = names[number as usize % 4];
                vec![
                    ("a", (number / 8).to_string()),
                    ("b", format!("'{name}{}'", number % 8)),
                ]
            }
            Key::Time => one(format!(
                "'20{:02}-{:02}-{:02} 10:11:12.{:06}'",
                number % 30,
                number / 30 % 12 + 1,
                number / 360 % 28 + 1,
                number
            )),
            Key::Bytes => one(format!("x'{:02x}00{:06x}'", number * 37 % 256, number)),
            Key::Decimal => one(format!("{}.{:04}", number / 3, number % 3 * 1111)),
        }
    }

    fn condition(&self, number: u64) -> String {
        let parts = self.key(number);
        let parts: Vec<String> = parts.iter().map(|(n, v)| format!("{n}={v}")).collect();
        parts.join(" AND ")
    }

    fn values(&self, number: u64) -> String {
        let parts: Vec<String> = self.key(number).into_iter().map(|(_, v)| v).collect();
        parts.join(",")
    }
}

/// A big table and small ones.
pub fn tables(small: usize, keys: u64) -> Vec<Table> {
    let one = |n: usize| Table::new(&format!("small_{n:02}"), KEYS[n % KEYS.len()], keys);
    (0..small).map(one).collect()
}

/// Names of tables, for comparing.
pub fn names(tables: &[Table]) -> Vec<String> {
    tables.iter().map(|table| table.name.clone()).collect()
}

fn value(rng: &mut Rng, column: usize) -> String {
    if rng.chance(12) {
        return "NULL".into();
    }
    let n = rng.draw();
    match column {
        0 => (n as i32).to_string(),
        1 => format!("{}.{:04}", n as i32, n >> 40 & 0xFFF),
        2 => {
            let words = [
                "",
                "tea",
                "ünï",
                "日本",
                "🦆",
                "a''b",
                "back\\\\slash",
                "line\\nbreak",
            ];
            format!("'{}{}'", rng.pick(&words), n % 1000)
        }
        3 => format!(
            "'19{:02}-0{}-1{} 0{}:00:00.{:06}'",
            n % 99,
            n % 9 + 1,
            n % 9,
            n % 9,
            n % 999_983
        ),
        4 => format!(
            "'{{\"n\": {}, \"s\": \"ä{}\", \"l\": [1, null, true]}}'",
            n % 100_000,
            n % 77
        ),
        5 => format!("'{}'", rng.pick(&["red", "grün", "blue"])),
        6 => format!("x'{:016x}'", n | 0x0505_0505_0505_0505),
        7 => format!(
            "'2026-0{}-0{} 03:04:05.{:03}'",
            n % 9 + 1,
            n % 9 + 1,
            n % 1000
        ),
        _ => format!("{}.5", n % 100_000),
    }
}

fn all_values(rng: &mut Rng) -> String {
    let values: Vec<String> = (0..VALUES.len()).map(|column| value(rng, column)).collect();
    values.join(",")
}

/// Makes the tables and puts rows in: half of the keys of each.
pub fn create(sql: &mut Sql, tables: &[Table], rng: &mut Rng) {
    sql.exec(&format!(
        "CREATE DATABASE IF NOT EXISTS {DATABASE} CHARACTER SET utf8mb4"
    ));
    for table in tables {
        sql.exec(&table.create());
        for from in (0..table.keys).step_by(1000) {
            let mut rows = Vec::new();
            for number in from..(from + 1000).min(table.keys) {
                if rng.chance(50) {
                    rows.push(format!("({},{})", table.values(number), all_values(rng)));
                }
            }
            if !rows.is_empty() {
                sql.exec(&format!(
                    "INSERT INTO {} VALUES {}",
                    table.name,
                    rows.join(",")
                ));
            }
        }
    }
}

/// The value of the last row of all: once it has arrived, everything has.
pub const FENCE: &str = "424242";

/// Writes it, in a table of its own.
pub fn fence(sql: &mut Sql) {
    sql.exec(&format!(
        "CREATE TABLE {DATABASE}.fence (id INT PRIMARY KEY)"
    ));
    sql.exec(&format!("INSERT INTO {DATABASE}.fence VALUES ({FENCE})"));
}

/// Makes one table of at least `rows` rows quickly, by doubling, without writing it to the binlog.
/// Every second key is free.
pub fn create_big(sql: &mut Sql, name: &str, rows: u64) -> Table {
    let table = Table::new(name, Key::Signed, 0);
    sql.exec(&format!(
        "CREATE DATABASE IF NOT EXISTS {DATABASE} CHARACTER SET utf8mb4"
    ));
    sql.exec(&table.create());
    sql.exec("SET SESSION sql_log_bin = 0");
    let mut rng = Rng::new(rows);
    let seeds = 256;
    let seed_rows: Vec<String> = (0..seeds)
        .map(|n| format!("({},{})", n * 2, all_values(&mut rng)))
        .collect();
    sql.exec(&format!(
        "INSERT INTO {} VALUES {}",
        table.name,
        seed_rows.join(",")
    ));
    let mut count = seeds;
    while count < rows {
        sql.exec(&format!(
            "INSERT INTO {0} SELECT id + {1}, (id + {1}) % 1000003, amount, label, at, doc, color, \
             raw, seen, ratio FROM {0} WHERE id < {1}",
            table.name,
            count * 2,
        ));
        count *= 2;
    }
    sql.exec("SET SESSION sql_log_bin = 1");
    // Of its keys, which begin at -keys/4, most are there.
    Table {
        keys: count * 2,
        ..table
    }
}

/// Writers at work.
pub struct Writers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    transactions: Arc<AtomicU64>,
}

/// How writers work.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// How many.
    pub writers: usize,
    /// Pause after each transaction.
    pub pause: Duration,
}

impl Writers {
    /// Starts them.
    pub fn start(port: u16, tables: &[Table], seed: u64, pace: Pace) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let transactions = Arc::new(AtomicU64::new(0));
        let one = |number: usize| {
            let (stop, tables) = (Arc::clone(&stop), tables.to_vec());
            let transactions = Arc::clone(&transactions);
            let mut rng = Rng::new(seed ^ (number as u64 + 1).wrapping_mul(0x51_7C_C1_B7));
            std::thread::spawn(move || {
                let mut sql = Sql::root(port);
                while !stop.load(Ordering::Relaxed) {
                    transaction(&mut sql, &tables, &mut rng);
                    transactions.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(pace.pause);
                }
            })
        };
        let threads = (0..pace.writers).map(one).collect();
        Self {
            stop,
            threads,
            transactions,
        }
    }

    /// Transactions so far.
    pub fn transactions(&self) -> u64 {
        self.transactions.load(Ordering::Relaxed)
    }

    /// Waits until they have made so many more.
    pub fn wait_more(&self, count: u64, limit: Duration) {
        let (until, end) = (self.transactions() + count, Instant::now() + limit);
        while self.transactions() < until {
            assert!(Instant::now() < end, "the writers are too slow");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends them; returns how many transactions they made.
    pub fn stop(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("the writers do not fail");
        }
        self.transactions()
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn transaction(sql: &mut Sql, tables: &[Table], rng: &mut Rng) {
    if rng.chance(25) {
        let table = rng.pick(tables);
        let statement = statement(table, rng);
        sql.attempt(&statement);
        return;
    }
    sql.exec("BEGIN");
    for _ in 0..=rng.below(6) {
        let savepoint = rng.chance(10);
        if savepoint {
            sql.exec("SAVEPOINT here");
        }
        let table = rng.pick(tables);
        let statement = statement(table, rng);
        if sql.attempt(&statement) == Went::RolledBack {
            sql.exec("ROLLBACK");
            return;
        }
        if savepoint && rng.chance(70) {
            sql.exec("ROLLBACK TO SAVEPOINT here");
        }
    }
    sql.exec(if rng.chance(6) { "ROLLBACK" } else { "COMMIT" });
}

/// One statement: single-row mostly, sometimes of many rows.
fn statement(table: &Table, rng: &mut Rng) -> String {
    let name = &table.name;
    let number = rng.below(table.keys);
    match rng.below(100) {
        0..25 => {
            let many = if rng.chance(8) { 2 + rng.below(60) } else { 1 };
            let mut rows = Vec::new();
            for step in 0..many {
                let number = (number + step) % table.keys;
                rows.push(format!("({},{})", table.values(number), all_values(rng)));
            }
            let verb = if many > 1 || rng.chance(20) {
                "REPLACE"
            } else {
                "INSERT"
            };
            format!("{verb} INTO {name} VALUES {}", rows.join(","))
        }
        25..60 => {
            let mut set = Vec::new();
            for _ in 0..=rng.below(3) {
                let column = rng.below(VALUES.len() as u64) as usize;
                set.push(format!("{}={}", VALUES[column], value(rng, column)));
            }
            format!(
                "UPDATE {name} SET {} WHERE {}",
                set.join(","),
                table.condition(number)
            )
        }
        60..68 => {
            let field = rng.below(100);
            let mut text = format!("UPDATE {name} SET doc=JSON_SET(doc, '$.n', {field})");
            let _ = write!(text, " WHERE {}", table.condition(number));
            text
        }
        68..88 => format!("DELETE FROM {name} WHERE {}", table.condition(number)),
        _ => {
            let other = rng.below(table.keys);
            let set: Vec<String> = table
                .key(other)
                .into_iter()
                .map(|(n, v)| format!("{n}={v}"))
                .collect();
            format!(
                "UPDATE {name} SET {} WHERE {}",
                set.join(","),
                table.condition(number)
            )
        }
    }
}
