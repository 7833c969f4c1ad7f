-- MariaDB's own temporal columns with fractions, from before mysql56_temporal_format: their events do not tell the number of
-- digits, so nothing but the CREATE TABLE statement can.
SET time_zone = '+00:00'; SET sql_mode = ''; SET TIMESTAMP = 1772323200.123456;
CREATE DATABASE old;
USE old;
SET @@GLOBAL.mysql56_temporal_format = OFF;
CREATE TABLE fractions (id INT NOT NULL PRIMARY KEY, t3 TIME(3), t6 TIME(6), dt1 DATETIME(1), dt6 DATETIME(6), ts2 TIMESTAMP(2) NULL, ts6 TIMESTAMP(6) NULL, last INT);
SET @@GLOBAL.mysql56_temporal_format = ON;
INSERT INTO fractions VALUES
  (1, NULL, NULL, NULL, NULL, NULL, NULL, 1),
  (2, '12:34:56.789', '-00:00:00.000001', '2026-03-01 12:34:56.7', '2026-03-01 12:34:56.789012', '2026-03-01 12:34:56.78', '2026-03-01 12:34:56.789012', 2);
