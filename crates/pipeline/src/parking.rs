//! What one sink has set aside: keys of tables, and whole tables.

use crate::status::ParkedStatus;
use change::contract::{Parked, Rejection};
use journal::Sequence;
use std::collections::{BTreeMap, HashMap};

/// What of one table is set aside.
#[derive(Debug, Clone)]
struct ParkedTable {
    /// None: the whole table.
    keys: Option<HashMap<u64, u64>>,
    from_sequence: u64,
    target: String,
    reason: String,
}

/// The parked set of one sink; part of its cursor.
#[derive(Debug, Clone, Default)]
pub struct Parking {
    tables: BTreeMap<String, ParkedTable>,
    keys_max: usize,
}

impl Parking {
    /// From a cursor.
    pub fn new(parked: &[Parked], keys_max: usize) -> Self {
        let mut parking = Self {
            tables: BTreeMap::new(),
            keys_max,
        };
        for one in parked {
            parking.add(one);
        }
        parking
    }

    /// Whether nothing is set aside: the usual case, tested first.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Whether a row may not be delivered now.
    pub fn holds(&self, table: &str, key: u64, old_key: Option<u64>) -> bool {
        let Some(parked) = self.tables.get(table) else {
            return false;
        };
        let Some(keys) = &parked.keys else {
            return true;
        };
        keys.contains_key(&key) || old_key.is_some_and(|old| keys.contains_key(&old))
    }

    /// Notes a held row. A key change with one parked key parks the other key too, since its row would
    /// otherwise be lost or doubled.
    pub fn spread(&mut self, table: &str, sequence: u64, key: u64, old_key: Option<u64>) {
        if let Some(parked) = self.tables.get_mut(table)
            && let Some(keys) = &mut parked.keys
        {
            keys.entry(key).or_insert(sequence);
            if let Some(old) = old_key {
                keys.entry(old).or_insert(sequence);
            }
            self.limit(table);
        }
    }

    /// Whether the table was set aside because of this target.
    pub fn is_of(&self, table: &str, target: &str) -> bool {
        self.tables
            .get(table)
            .is_some_and(|parked| parked.target == target)
    }

    /// Whether the whole table is set aside.
    pub fn holds_table(&self, table: &str) -> bool {
        self.tables
            .get(table)
            .is_some_and(|parked| parked.keys.is_none())
    }

    /// Since when the whole table is set aside; none when it is not.
    pub fn whole_table_since(&self, table: &str) -> Option<u64> {
        let parked = self.tables.get(table)?;
        parked.keys.is_none().then_some(parked.from_sequence)
    }

    fn limit(&mut self, table: &str) {
        if let Some(parked) = self.tables.get_mut(table)
            && parked
                .keys
                .as_ref()
                .is_some_and(|keys| keys.len() > self.keys_max)
        {
            parked.keys = None;
        }
    }

    /// Sets a refused record's key, or table, aside.
    pub fn reject(&mut self, rejection: &Rejection) {
        let keys = match rejection.key_columns.is_empty() {
            true => String::new(),
            false => format!(" (key columns: {})", rejection.key_columns.join(", ")),
        };
        self.add(&Parked {
            table: rejection.table.clone(),
            key_token: rejection.key_token,
            from_sequence: rejection.sequence,
            target: rejection.target.clone(),
            reason: format!("{}{keys}", rejection.reason),
        });
    }

    /// Sets a key, or a table, aside.
    pub fn add(&mut self, new: &Parked) {
        let from = new.from_sequence;
        let parked = self
            .tables
            .entry(new.table.clone())
            .or_insert_with(|| ParkedTable {
                keys: Some(HashMap::new()),
                from_sequence: from,
                target: new.target.clone(),
                reason: new.reason.clone(),
            });
        parked.from_sequence = parked.from_sequence.min(from);
        match (new.key_token, &mut parked.keys) {
            (Some(key), Some(keys)) => {
                keys.entry(key).or_insert(from);
            }
            (None, keys) => *keys = None,
            (Some(_), None) => {}
        }
        self.limit(&new.table);
    }

    /// Forgets what was set aside of a table before `sequence`: a copy that began there brings it again.
    pub fn forget_before(&mut self, table: &str, sequence: u64) {
        let Some(parked) = self.tables.get_mut(table) else {
            return;
        };
        let is_left = match &mut parked.keys {
            None => parked.from_sequence >= sequence,
            Some(keys) => {
                keys.retain(|_, from| *from >= sequence);
                parked.from_sequence = keys.values().copied().min().unwrap_or(0);
                !keys.is_empty()
            }
        };
        if !is_left {
            self.tables.remove(table);
        }
    }

    /// Takes a table out; returns from which sequence it has to be read again.
    pub fn remove(&mut self, table: &str) -> Option<Parking> {
        let parked = self.tables.remove(table)?;
        let tables = BTreeMap::from([(table.to_owned(), parked)]);
        Some(Parking {
            tables,
            keys_max: self.keys_max,
        })
    }

    /// The oldest sequence that is set aside.
    pub fn from_sequence(&self) -> Option<u64> {
        self.tables
            .values()
            .map(|parked| parked.from_sequence)
            .min()
    }

    /// For the cursor.
    pub fn to_cursor(&self) -> Vec<Parked> {
        let one = |table: &str, parked: &ParkedTable, key, from| Parked {
            table: table.to_owned(),
            key_token: key,
            from_sequence: from,
            target: parked.target.clone(),
            reason: parked.reason.clone(),
        };
        let mut out = Vec::new();
        for (table, parked) in &self.tables {
            match &parked.keys {
                None => out.push(one(table, parked, None, parked.from_sequence)),
                Some(keys) => {
                    let mut keys: Vec<_> = keys.iter().collect();
                    keys.sort();
                    out.extend(
                        keys.iter()
                            .map(|(k, from)| one(table, parked, Some(**k), **from)),
                    );
                }
            }
        }
        out
    }

    /// For `status`.
    pub fn to_status(&self) -> Vec<ParkedStatus> {
        let one = |(table, parked): (&String, &ParkedTable)| ParkedStatus {
            table: table.clone(),
            keys: parked.keys.as_ref().map(HashMap::len),
            from_sequence: Sequence(parked.from_sequence).to_string(),
            target: parked.target.clone(),
            reason: parked.reason.clone(),
        };
        self.tables.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a row is held; if so, it is noted.
    fn meets(
        parking: &mut Parking,
        table: &str,
        sequence: u64,
        key: u64,
        old: Option<u64>,
    ) -> bool {
        let held = parking.holds(table, key, old);
        if held {
            parking.spread(table, sequence, key, old);
        }
        held
    }

    fn parked(key: u64, from_sequence: u64) -> Parked {
        Parked {
            table: "a.t".into(),
            key_token: Some(key),
            from_sequence,
            target: "topic t".into(),
            reason: "too large".into(),
        }
    }

    #[test]
    fn a_parked_key_holds_its_later_changes_and_what_moves_to_or_from_it() {
        let mut parking = Parking::new(&[], 10);
        assert!(!meets(&mut parking, "a.t", 1, 7, None));
        parking.add(&parked(7, 5));
        assert!(meets(&mut parking, "a.t", 6, 7, None));
        assert!(!meets(&mut parking, "a.t", 7, 8, None));
        assert!(meets(&mut parking, "a.t", 8, 9, Some(7)));
        assert!(meets(&mut parking, "a.t", 9, 9, None));
        assert!(!meets(&mut parking, "a.other", 9, 7, None));
        let again = Parking::new(&parking.to_cursor(), 10);
        assert_eq!(again.to_cursor(), parking.to_cursor());
        assert_eq!(again.from_sequence(), Some(5));
    }

    #[test]
    fn a_copy_forgets_what_was_set_aside_before_it_and_nothing_later() {
        let mut parking = Parking::new(&[], 10);
        parking.add(&parked(7, 5));
        parking.add(&parked(8, 20));
        parking.forget_before("a.t", 10);
        assert!(!parking.holds("a.t", 7, None) && parking.holds("a.t", 8, None));
        parking.forget_before("a.t", 21);
        assert!(parking.is_empty());
    }

    #[test]
    fn too_many_keys_park_the_table() {
        let mut parking = Parking::new(&[], 2);
        for key in 0..3 {
            parking.add(&parked(key, key));
        }
        assert!(parking.holds_table("a.t"));
        assert_eq!(parking.to_status()[0].keys, None);
        assert!(parking.remove("a.t").is_some() && parking.is_empty());
    }
}
