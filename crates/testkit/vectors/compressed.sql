-- Transactions as one compressed payload event (MySQL 8.0.20 and later).
SET NAMES utf8mb4; SET TIMESTAMP = 1772323200.123456;
CREATE DATABASE packed CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
USE packed;
CREATE TABLE a (id INT NOT NULL PRIMARY KEY, v VARCHAR(200), b BLOB);
CREATE TABLE b (id INT NOT NULL PRIMARY KEY, j JSON, d DATETIME(6));
SET SESSION binlog_transaction_compression = ON;
INSERT INTO a VALUES (1, 'one small transaction', 0x00);
BEGIN;
INSERT INTO a VALUES (2, REPEAT('squeeze ', 20), REPEAT(0x00, 500)), (3, 'zß水🍌', NULL);
INSERT INTO b VALUES (1, '{"a": [1, 2, 3]}', '2026-03-01 12:00:00.000001');
UPDATE a SET v = CONCAT(v, '!') WHERE id IN (2, 3);
SAVEPOINT s;
DELETE FROM b;
ROLLBACK TO SAVEPOINT s;
DELETE FROM a WHERE id = 1;
COMMIT;
-- 1,000 rows: several row events inside one payload.
SET SESSION cte_max_recursion_depth = 2000, group_concat_max_len = 100000;
INSERT INTO a WITH RECURSIVE n (i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n WHERE i < 1999) SELECT i, CONCAT('row number ', i), SHA2(i, 256) FROM n ORDER BY i;
-- Uncompressed in between, then the strongest level, statements beside the rows, and what does not compress.
SET SESSION binlog_transaction_compression = OFF;
UPDATE a SET v = 'plain' WHERE id = 1000;
SET SESSION binlog_transaction_compression = ON, binlog_transaction_compression_level_zstd = 22, binlog_rows_query_log_events = ON;
DELETE FROM a WHERE id >= 1100;
INSERT INTO a SELECT 5, NULL, UNHEX(GROUP_CONCAT(SHA2(id, 512) SEPARATOR '')) FROM a WHERE id < 1016;
ALTER TABLE b ADD COLUMN extra INT;
UPDATE b SET extra = 1, j = JSON_SET(j, '$.b', TRUE);
