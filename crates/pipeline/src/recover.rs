//! After a lost journal: where the source has to begin again, and what each sink already has.

use change::position::Gtids;
use change::position::{TransactionId, file_number};
use change::{Position, TransactionHeader};

/// Whether a transaction is in what a position covers.
///
/// By its GTID where the source gives them out, else by its place in the binlog, which only counts
/// within one server.
pub fn covers(position: &Position, header: &TransactionHeader) -> bool {
    match (&position.gtids, &header.id) {
        (Gtids::Mysql(set), Some(TransactionId::Mysql(gtid))) => set.contains(gtid),
        (Gtids::Mariadb(set), Some(TransactionId::Mariadb(gtid))) => set.contains(gtid),
        _ => (file_number(&header.file), header.begin_offset) < position.place(),
    }
}

/// The position from which nothing that any sink lacks is left out: the one with the least.
pub fn oldest(positions: Vec<Position>) -> Option<Position> {
    positions.into_iter().reduce(|a, b| {
        let a_first = match (&a.gtids, &b.gtids) {
            (Gtids::Mysql(a), Gtids::Mysql(b)) => a.is_subset(b),
            (Gtids::Mariadb(a), Gtids::Mariadb(b)) => a.is_subset(b),
            _ => a.place() <= b.place(),
        };
        if a_first { a } else { b }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "0e4b2c6a-aaaa-11ee-8c90-0242ac120002";

    fn position(number: u64) -> Position {
        Position {
            file: "bin.000001".into(),
            offset: number * 100,
            gtids: Gtids::Mysql(format!("{SERVER}:1-{number}").parse().unwrap()),
        }
    }

    #[test]
    fn the_oldest_position_and_what_it_covers() {
        let oldest = oldest(vec![position(9), position(5), position(7)]).unwrap();
        assert_eq!(oldest, position(5));
        let mut header = TransactionHeader {
            id: Some(TransactionId::Mysql(format!("{SERVER}:5").parse().unwrap())),
            ..TransactionHeader::default()
        };
        assert!(covers(&oldest, &header));
        header.id = Some(TransactionId::Mysql(format!("{SERVER}:6").parse().unwrap()));
        assert!(!covers(&oldest, &header));
        header.id = None;
        (header.file, header.begin_offset) = ("bin.000001".into(), 499);
        assert!(covers(&oldest, &header));
        header.begin_offset = 500;
        assert!(!covers(&oldest, &header));
    }
}
