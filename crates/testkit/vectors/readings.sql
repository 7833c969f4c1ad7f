-- Prints one SELECT for each column of the database @db: table, key, column, form, and the value in hexadecimal or NULL.
SET SESSION group_concat_max_len = 100000;
SELECT CONCAT('SELECT ', QUOTE(t.table_name), ' AS `#1`, ', IF(k.cols IS NULL, '''''', CONCAT('CONCAT_WS(''|'', ', k.cols, ')')), ' AS `#2`, ',
    QUOTE(c.column_name), ' AS `#3`, ', QUOTE(f.form), ' AS `#4`, IFNULL(HEX(',
    REPLACE(f.expression, '?', CONCAT('`', REPLACE(c.column_name, '`', '``'), '`')), '), ''NULL'') AS `#5` FROM `',
    t.table_schema, '`.`', t.table_name, '` ORDER BY ', IFNULL(k.cols, u.cols), ';')
  FROM information_schema.tables t
  JOIN information_schema.columns c ON c.table_schema = t.table_schema AND c.table_name = t.table_name
  JOIN (
    SELECT 'text' form, 'CONVERT(? USING utf8mb4)' expression, 'char varchar tinytext text mediumtext longtext json enum set' types
    UNION ALL SELECT 'text', 'CAST(? AS CHAR)', 'tinyint smallint mediumint int bigint decimal float double date time datetime timestamp year inet4 inet6 uuid'
    UNION ALL SELECT 'number', 'CAST(CAST(? AS UNSIGNED) AS CHAR)', 'enum set bit'
    UNION ALL SELECT 'double', 'CAST(? + 0e0 AS CHAR)', 'float'
    UNION ALL SELECT 'bytes', '?', 'binary varbinary tinyblob blob mediumblob longblob vector geometry point linestring polygon multipoint multilinestring multipolygon geometrycollection geomcollection'
  ) f ON CONCAT(' ', f.types, ' ') LIKE CONCAT('% ', c.data_type, ' %')
  LEFT JOIN (
    SELECT table_name, GROUP_CONCAT('`', REPLACE(column_name, '`', '``'), '`' ORDER BY seq_in_index SEPARATOR ', ') cols
    FROM information_schema.statistics WHERE table_schema = @db AND index_name = 'PRIMARY' GROUP BY table_name
  ) k ON k.table_name = t.table_name
  LEFT JOIN (
    SELECT table_name, GROUP_CONCAT('`', REPLACE(column_name, '`', '``'), '`' ORDER BY ordinal_position SEPARATOR ', ') cols
    FROM information_schema.columns WHERE table_schema = @db GROUP BY table_name
  ) u ON u.table_name = t.table_name
  WHERE t.table_schema = @db AND t.table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')
  ORDER BY t.table_name, c.ordinal_position, f.form DESC;
