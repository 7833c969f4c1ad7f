//! What one sink has set aside: keys of tables, and whole tables.

use crate::status::ParkedStatus;
use change::contract::{Parked, Rejection};
use journal::Sequence;
use std::collections::{BTreeMap, HashMap};

/// What of one table is set aside.
///
/// What is set aside begins at a sequence: what lies before it was delivered, or comes again after a
/// batch that was taken back, and passes.
#[derive(Debug, Clone)]
struct ParkedTable {
    /// Keys, and from which sequence on.
    keys: HashMap<u64, u64>,
    /// The whole table, from this sequence on.
    whole_from: Option<u64>,
    target: String,
    reason: String,
}

impl ParkedTable {
    fn holds_key(&self, sequence: u64, key: u64) -> bool {
        self.keys.get(&key).is_some_and(|from| sequence >= *from)
    }

    fn oldest_sequence(&self) -> u64 {
        let keys = self.keys.values().copied();
        keys.chain(self.whole_from).min().unwrap_or(u64::MAX)
    }
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
    pub fn holds(&self, table: &str, sequence: u64, key: u64, old_key: Option<u64>) -> bool {
        let Some(parked) = self.tables.get(table) else {
            return false;
        };
        parked.whole_from.is_some_and(|from| sequence >= from)
            || parked.holds_key(sequence, key)
            || old_key.is_some_and(|old| parked.holds_key(sequence, old))
    }

    /// Notes a held row. A key change with one parked key parks the other key too, since its row would
    /// otherwise be lost or doubled.
    pub fn spread(&mut self, table: &str, sequence: u64, key: u64, old_key: Option<u64>) {
        if let Some(parked) = self.tables.get_mut(table)
            && parked.whole_from.is_none_or(|from| sequence < from)
        {
            for key in std::iter::once(key).chain(old_key) {
                parked.keys.entry(key).or_insert(sequence);
            }
            self.limit(table, sequence);
        }
    }

    /// Whether the table was set aside because of this target.
    pub fn is_of(&self, table: &str, target: &str) -> bool {
        self.tables
            .get(table)
            .is_some_and(|parked| parked.target == target)
    }

    /// Whether the whole table is set aside as of a sequence.
    pub fn holds_table(&self, table: &str, sequence: u64) -> bool {
        let parked = self.tables.get(table);
        let from = parked.and_then(|parked| parked.whole_from);
        from.is_some_and(|from| sequence >= from)
    }

    /// Since when the whole table is set aside; none when it is not.
    pub fn whole_table_since(&self, table: &str) -> Option<u64> {
        self.tables.get(table)?.whole_from
    }

    /// Too many keys: from here on the whole table waits.
    fn limit(&mut self, table: &str, sequence: u64) {
        if let Some(parked) = self.tables.get_mut(table)
            && parked.whole_from.is_none()
            && parked.keys.len() > self.keys_max
        {
            parked.whole_from = Some(sequence);
        }
    }

    /// Sets a refused record's key, or table, aside; false when that changes nothing: it is set aside
    /// already from there on, and was refused all the same.
    pub fn reject(&mut self, rejection: &Rejection) -> bool {
        if self.is_known(rejection) {
            return false;
        }
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
        true
    }

    fn is_known(&self, rejection: &Rejection) -> bool {
        let Some(parked) = self.tables.get(&rejection.table) else {
            return false;
        };
        let from = match rejection.key_token {
            Some(key) => parked.keys.get(&key).copied(),
            None => parked.whole_from,
        };
        from.is_some_and(|from| from <= rejection.sequence)
    }

    /// All that is set aside, as of `sequence` where it began before.
    pub fn not_before(&self, sequence: u64) -> Vec<Parked> {
        let mut parked = self.to_cursor();
        for one in &mut parked {
            one.from_sequence = one.from_sequence.max(sequence);
        }
        parked
    }

    /// Sets a key, or a table, aside.
    pub fn add(&mut self, new: &Parked) {
        let from = new.from_sequence;
        let parked = self
            .tables
            .entry(new.table.clone())
            .or_insert_with(|| ParkedTable {
                keys: HashMap::new(),
                whole_from: None,
                target: new.target.clone(),
                reason: new.reason.clone(),
            });
        match new.key_token {
            Some(key) => {
                let known = parked.keys.entry(key).or_insert(from);
                *known = from.min(*known);
            }
            None => {
                let known = parked.whole_from.get_or_insert(from);
                *known = from.min(*known);
            }
        }
        self.limit(&new.table, from);
    }

    /// Forgets what was set aside of a table before `sequence`: a copy that began there brings it again.
    pub fn forget_before(&mut self, table: &str, sequence: u64) {
        let Some(parked) = self.tables.get_mut(table) else {
            return;
        };
        parked.keys.retain(|_, from| *from >= sequence);
        parked.whole_from = parked.whole_from.filter(|from| *from >= sequence);
        if parked.keys.is_empty() && parked.whole_from.is_none() {
            self.tables.remove(table);
        }
    }

    /// Whether something of the table is set aside.
    pub fn has(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    /// Tables of a database of which something is set aside.
    pub fn tables_of(&self, database: &str) -> Vec<String> {
        let is_in = |table: &&String| {
            table
                .strip_prefix(database)
                .is_some_and(|rest| rest.starts_with('.'))
        };
        self.tables.keys().filter(is_in).cloned().collect()
    }

    /// A table was renamed: what was set aside of it goes to its new name, and with it why.
    pub fn rename(&mut self, from: &str, to: &str, target: &str) {
        let Some(moved) = self.remove(from) else {
            return;
        };
        // What waits under the new name already was refused for the same rows.
        let known = self.remove(to);
        for parked in moved.to_cursor() {
            let reason = format!(
                "it was {from}, of which this was set aside: {}; fix: headwater heal CONFIG {to} \
                 --resnapshot",
                parked.reason
            );
            self.add(&Parked {
                table: to.to_owned(),
                target: target.to_owned(),
                reason,
                ..parked
            });
        }
        for parked in known.iter().flat_map(Parking::to_cursor) {
            self.add(&parked);
        }
    }

    /// Takes a table out; what is returned says what has to be read again.
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
        self.tables.values().map(ParkedTable::oldest_sequence).min()
    }

    /// For the cursor: a table that waits as a whole before its keys, which then do not count as too many.
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
            let mut keys: Vec<_> = parked.keys.iter().collect();
            keys.sort();
            let keys = keys.iter().map(|(key, from)| (Some(**key), **from));
            let whole = parked.whole_from.map(|from| (None, from));
            out.extend(
                whole
                    .into_iter()
                    .chain(keys)
                    .map(|(key, from)| one(table, parked, key, from)),
            );
        }
        out
    }

    /// For `status`.
    pub fn to_status(&self) -> Vec<ParkedStatus> {
        let one = |(table, parked): (&String, &ParkedTable)| ParkedStatus {
            table: table.clone(),
            keys: parked.whole_from.is_none().then_some(parked.keys.len()),
            from_sequence: Sequence(parked.oldest_sequence()).to_string(),
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
        let held = parking.holds(table, sequence, key, old);
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
        assert!(!parking.holds("a.t", 30, 7, None) && parking.holds("a.t", 30, 8, None));
        parking.forget_before("a.t", 21);
        assert!(parking.is_empty());
    }

    #[test]
    fn what_lies_before_the_refused_record_passes_when_it_comes_again() {
        let mut parking = Parking::new(&[], 10);
        parking.add(&parked(7, 5));
        assert!(!parking.holds("a.t", 4, 7, None));
        assert!(parking.holds("a.t", 5, 7, None));
        // Of two keys that were set aside at different places, each is read again from its own.
        parking.add(&parked(8, 20));
        let healing = parking.remove("a.t").expect("it is parked");
        assert_eq!(healing.from_sequence(), Some(5));
        assert!(healing.holds("a.t", 6, 7, None) && !healing.holds("a.t", 6, 8, None));
        // Refused again, and earlier.
        parking.add(&parked(7, 5));
        parking.add(&parked(7, 3));
        assert!(parking.holds("a.t", 3, 7, None) && !parking.holds("a.t", 2, 7, None));
    }

    #[test]
    fn what_is_set_aside_goes_with_a_renamed_table_and_says_from_where() {
        let mut parking = Parking::new(&[], 10);
        parking.add(&parked(7, 5));
        parking.rename("a.t", "b.u", "renamed");
        assert!(!parking.has("a.t") && parking.is_of("b.u", "renamed"));
        assert!(parking.holds("b.u", 6, 7, None) && !parking.holds("b.u", 6, 8, None));
        let reason = &parking.to_status()[0].reason;
        assert!(
            reason.contains("it was a.t") && reason.contains("too large"),
            "{reason}"
        );
        // A table that waits as a whole stays so, whichever name it waits under.
        parking.add(&Parked {
            key_token: None,
            ..parked(0, 9)
        });
        parking.rename("a.t", "b.u", "renamed");
        assert!(parking.holds_table("b.u", 9));
        assert!(parking.is_of("b.u", "renamed"));
        assert_eq!(parking.tables_of("b"), ["b.u"]);
        assert!(parking.tables_of("").is_empty());
    }

    #[test]
    fn too_many_keys_park_the_table_from_there_on() {
        let mut parking = Parking::new(&[], 2);
        for key in 0..3 {
            parking.add(&parked(key, key + 10));
        }
        assert!(parking.holds_table("a.t", 12) && !parking.holds_table("a.t", 11));
        // Other keys were delivered up to there.
        assert!(!parking.holds("a.t", 11, 99, None) && parking.holds("a.t", 12, 99, None));
        let again = Parking::new(&parking.to_cursor(), 2);
        assert_eq!(again.to_cursor(), parking.to_cursor());
        assert!(again.holds("a.t", 10, 0, None) && !again.holds("a.t", 11, 99, None));
        assert_eq!(parking.to_status()[0].keys, None);
        assert!(parking.remove("a.t").is_some() && parking.is_empty());
    }
}
