-- Updates of JSON columns as differences (binlog_row_value_options=PARTIAL_JSON).
SET NAMES utf8mb4; SET TIMESTAMP = 1772323200.123456;
CREATE DATABASE diffs CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
USE diffs;
CREATE TABLE t (id INT NOT NULL PRIMARY KEY, j JSON, v INT, k JSON);
INSERT INTO t VALUES
  (1, '{"a": 1, "b": {"c": [10, 20, 30], "d": "text"}, "long": "0123456789012345678901234567890123456789"}', 1, '[1, 2, 3]'),
  (2, '[0, 1, 2, {"x": [{"y": 1}, {"y": 2}]}, "s", null, true]', 2, '{"k": "v", "pad": "..............................................."}'),
  (3, '{"": 0, "a.b": 1, "é🍌": 2, "quote\\"d": 3, "with space": 4, "pad": "......................................................"}', 3, NULL),
  (4, NULL, 4, '{}'), (5, '"scalar"', 5, 'null'),
  (6, JSON_OBJECT('pad', REPEAT('x', 300), 'n', 1, 'o', JSON_OBJECT()), 6, JSON_ARRAY(REPEAT('y', 300), 1, 2, 3, 4, 5));
-- One difference each: replace, insert into an object, remove.
UPDATE t SET j = JSON_SET(j, '$.a', 2) WHERE id = 1;
UPDATE t SET j = JSON_REPLACE(j, '$.b.d', 'other') WHERE id = 1;
UPDATE t SET j = JSON_SET(j, '$.b.new', JSON_ARRAY(1, 'x', NULL, 2.5)) WHERE id = 1;
UPDATE t SET j = JSON_REMOVE(j, '$.b.c') WHERE id = 1;
-- Arrays: replace an element, append past the end, remove an element, in nested paths.
UPDATE t SET j = JSON_SET(j, '$[1]', 'one') WHERE id = 2;
UPDATE t SET j = JSON_SET(j, '$[99]', 'appended') WHERE id = 2;
UPDATE t SET j = JSON_REMOVE(j, '$[0]') WHERE id = 2;
UPDATE t SET j = JSON_SET(j, '$[2].x[1].y', -7) WHERE id = 2;
UPDATE t SET j = JSON_REMOVE(j, '$[2].x[0]') WHERE id = 2;
UPDATE t SET k = JSON_SET(k, '$[3]', 4) WHERE id = 1;
-- Several differences in one value, several functions, and both columns.
UPDATE t SET j = JSON_SET(j, '$.n', 2, '$.o.p', 3, '$.q', CAST('2026-03-01 12:00:00.5' AS DATETIME(6))) WHERE id = 6;
UPDATE t SET j = JSON_REMOVE(JSON_SET(JSON_REPLACE(j, '$.n', 3), '$.r', CAST('1.50' AS DECIMAL(5,2))), '$.o.p'), k = JSON_REMOVE(k, '$[1]', '$[1]') WHERE id = 6;
UPDATE t SET j = JSON_SET(j, '$.n', 4), k = '[]', v = 60 WHERE id = 6;
-- Keys that need quotes.
UPDATE t SET j = JSON_SET(j, '$.""', 'empty', '$."a.b"', 'dot', '$."é🍌"', 'emoji', '$."quote\\"d"', 'quote', '$."with space"', 'space') WHERE id = 3;
UPDATE t SET j = JSON_REMOVE(j, '$."with space"', '$.""') WHERE id = 3;
-- Many rows; some of them do not have the path, or have NULL.
UPDATE t SET j = JSON_SET(j, '$.all', id), v = v + 100;
UPDATE t SET k = JSON_REPLACE(k, '$.k', 'w');
UPDATE t SET k = JSON_REPLACE(k, '$[0]', 0) WHERE id = 1;
-- Not differences: another column's value, NULL, a whole value, a function that does not qualify, a larger change than the whole.
UPDATE t SET j = JSON_SET(k, '$.from', 'k') WHERE id = 4;
UPDATE t SET j = NULL WHERE id = 5;
UPDATE t SET k = JSON_ARRAY_APPEND(k, '$', 9) WHERE id = 1;
UPDATE t SET j = '{"whole": "new"}' WHERE id = 5;
UPDATE t SET j = JSON_SET(j, '$.whole', REPEAT('z', 200)) WHERE id = 5;
-- A change of another column alone, and a change that is none.
UPDATE t SET v = -1 WHERE id = 1;
UPDATE t SET j = JSON_SET(j, '$.a', 2), v = -2 WHERE id = 1;
-- With minimal images.
SET SESSION binlog_row_image = MINIMAL;
UPDATE t SET j = JSON_SET(j, '$.a', 3) WHERE id = 1;
UPDATE t SET j = JSON_REMOVE(j, '$.a'), v = 11 WHERE id = 1;
UPDATE t SET k = JSON_SET(k, '$.x', JSON_OBJECT('y', JSON_ARRAY(1, 2))) WHERE id IN (2, 4);
SET SESSION binlog_row_image = NOBLOB;
UPDATE t SET j = JSON_SET(j, '$.noblob', 1) WHERE id = 3;
-- Inside a compressed payload.
SET SESSION binlog_row_image = FULL, binlog_transaction_compression = ON;
BEGIN;
UPDATE t SET j = JSON_SET(j, '$.packed', 1) WHERE id IN (1, 3);
UPDATE t SET k = JSON_REMOVE(k, '$.x') WHERE id = 2;
COMMIT;
