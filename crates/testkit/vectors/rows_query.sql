-- Row events with the statement that made them.
SET NAMES utf8mb4; SET TIMESTAMP = 1772323200.123456;
CREATE DATABASE said CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
USE said;
CREATE TABLE t (id INT NOT NULL PRIMARY KEY, v VARCHAR(600));
SET SESSION binlog_rows_query_log_events = ON;
INSERT INTO t VALUES (1, 'one'), (2, 'zß水🍌');
BEGIN;
INSERT /* a comment */ INTO t VALUES (3, REPEAT('x', 500));
UPDATE t SET v = 'a longer statement than one byte can count: ..................................................................................................................................................................................................................................................' WHERE id = 1;
DELETE FROM t
  WHERE id = 2;
COMMIT;
SET NAMES latin1;
UPDATE t SET v = 'latin1: @E9@' WHERE id = 3;
