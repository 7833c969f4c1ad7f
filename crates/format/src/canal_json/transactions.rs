//! Which transaction an event belongs to, told from its header.

use change::TransactionHeader;

/// Numbers transactions from 1, as Canal numbers its batches.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    number: u64,
    file: String,
    begin_offset: u64,
    time_us: u64,
    ddl_sql: String,
}

impl Transactions {
    /// The number of the transaction with this header; headers come in order.
    pub fn number(&mut self, header: &TransactionHeader) -> u64 {
        let same = self.number > 0
            && self.begin_offset == header.begin_offset
            && self.time_us == header.best_time_us()
            && self.file == header.file;
        if !same {
            self.number += 1;
            self.file.clear();
            self.file.push_str(&header.file);
            self.begin_offset = header.begin_offset;
            self.time_us = header.best_time_us();
            self.ddl_sql.clear();
        }
        self.number
    }

    /// Whether the statement of the last transaction was seen before in it: a statement over several
    /// tables comes once for each.
    pub fn repeats(&mut self, sql: &str) -> bool {
        if self.ddl_sql == sql {
            return true;
        }
        self.ddl_sql.clear();
        self.ddl_sql.push_str(sql);
        false
    }
}
