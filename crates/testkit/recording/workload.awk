# Prints the SQL of a small shop's first quarter. The same text every time: the random numbers are
# this file's own, and the time is told to the server.

function rnd(n) { # 0 … n-1
  seed = (seed * 16807) % 2147483647 # fits a double exactly, so every awk agrees
  return seed % n
}
function pick(list, sep,   n, a) { n = split(list, a, sep == "" ? " " : sep); return a[1 + rnd(n)] }
function tick(most) { # the clock goes on
  now += 1 + rnd(most)
  printf "SET TIMESTAMP=%d.%03d;\n", now, rnd(1000)
}
function money(most) { return sprintf("%d.%02d", rnd(most), rnd(100)) }
function say(what) { printf "\n-- %s\n", what }

function person() {
  first = pick("Ada Björn Chloé Dmitri Esra Fatima George Hana Ivo Jana Kenji Lucía Mei Nils Olga Pål Quentin Rosa Søren Tomás Uwe Vera Wei Ximena Yusuf Zoë Łukasz Ægir Νίκος Дарья 美咲 دانا")
  last = pick("Abbott,Brown,Çelik,de Vries,Eriksson,Fernández,Garcia,Håkonsen,Ivanova,Jansen,Kowalski,López,Müller,Nguyễn,O''Brien,Petrov,Quist,Rossi,Schmidt,Tanaka,Ueda,van den Berg,Weiß,Xu,Yılmaz,Zając", ",")
  return first " " last
}
function customer(id,   mail, ssn, birth) {
  mail = rnd(12) ? sprintf("'c%d@%s.example'", id, pick("mail post inbox nordlys correo")) : "NULL"
  ssn = rnd(5) ? sprintf("'%03d-%02d-%04d'", 100 + rnd(800), 10 + rnd(90), 1000 + rnd(9000)) : "NULL"
  birth = rnd(4) ? sprintf("'%04d-%02d-%02d'", 1931 + rnd(76), 1 + rnd(12), 1 + rnd(28)) : "NULL"
  return sprintf("(%d, '%s', %s, %s, '%s', %s, %s%s, %d, NOW())", id, person(), mail, ssn, pick("NL DE FR ES NO TR JP PL US BR"), birth, \
    rnd(9) ? "" : "-", rnd(4) ? "0.00" : money(900), rnd(4) ? rnd(5000) : -rnd(50))
}
function note() {
  if (rnd(3)) return "NULL"
  return "'" pick("Leave it with the neighbours|Please ring twice|🎁 for Zoë’s birthday 🎂|Livrer après 18 h, s’il vous plaît|Bitte nicht knicken!|門の前に置いてください|Звоните за час|100% \\\"fragile\\\"|first line\\nsecond line\\ttabbed|👩‍👩‍👧‍👦 family pack|back\\\\slash|", "|") "'"
}
function order(   n, i, total, price, items, qty) {
  last_order = ++order_id
  n = 1 + rnd(4); total = 0; items = ""
  for (i = 1; i <= n; i++) {
    qty = 1 + rnd(3)
    price = 100 + rnd(9900)
    total += qty * price
    items = items sprintf("%s(%s, %d, %d, %d, %.2f, %s)", i > 1 ? ", " : "", id(order_id), i, 1 + rnd(products), qty, price / 100, rnd(6) ? "NULL" : sprintf("0.%03d", 50 * (1 + rnd(6))))
  }
  tick(11000)
  print "BEGIN;"
  printf "INSERT INTO orders (id, customer_id, placed_at, total, status, %s) VALUES (%s, %d, NOW(3), %.2f, 'new', %s);\n", \
    note_column, id(order_id), 1 + rnd(customers), total / 100, note()
  printf "INSERT INTO order_items VALUES %s;\n", items
  if (!rnd(3)) printf "UPDATE customers SET balance = balance - %.2f WHERE id = %d;\n", total / 100, 1 + rnd(customers)
  print "COMMIT;"
}
function id(n) { return sprintf("%.0f", 5000000000 + n) } # past 32 bits

BEGIN {
  seed = 20260101; now = 1767258000; order_id = 0; note_column = "note"; products = 48; customers = 1500
  print "SET NAMES utf8mb4; SET time_zone = '+00:00';"

  say("The tables.")
  printf "SET TIMESTAMP=%d;\n", now
  print "CREATE DATABASE shop CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci;\nUSE shop;"
  print "CREATE TABLE customers (\n  id INT UNSIGNED NOT NULL AUTO_INCREMENT,\n  name VARCHAR(80) NOT NULL,\n  email VARCHAR(120) NULL,\n  ssn CHAR(11) NULL,\n  country CHAR(2) CHARACTER SET ascii NOT NULL,\n  birth DATE NULL,\n  balance DECIMAL(10,2) NOT NULL DEFAULT 0.00,\n  score INT NOT NULL DEFAULT 0,\n  created_at TIMESTAMP NOT NULL,\n  PRIMARY KEY (id),\n  UNIQUE KEY email (email)\n) COMMENT 'who buys';"
  print "CREATE TABLE products (\n  id INT UNSIGNED NOT NULL,\n  sku VARCHAR(16) CHARACTER SET latin1 NOT NULL,\n  title VARCHAR(120) NOT NULL,\n  price DECIMAL(10,2) NOT NULL,\n  weight DOUBLE NULL,\n  stock SMALLINT NOT NULL DEFAULT 0,\n  category ENUM('book','food','tool','toy','café') NOT NULL,\n  tags SET('new','sale','eco','gift','fragile') NOT NULL DEFAULT '',\n  attributes JSON NULL,\n  picture VARBINARY(16) NULL,\n  updated_at DATETIME(6) NULL,\n  PRIMARY KEY (id),\n  UNIQUE KEY sku (sku)\n);"
  print "CREATE TABLE orders (\n  id BIGINT UNSIGNED NOT NULL,\n  customer_id INT UNSIGNED NOT NULL,\n  placed_at DATETIME(3) NOT NULL,\n  total DECIMAL(12,2) NOT NULL,\n  status ENUM('new','paid','packed','shipped','returned','cancelled') NOT NULL DEFAULT 'new',\n  note TEXT NULL,\n  PRIMARY KEY (id),\n  KEY customer_id (customer_id)\n);"
  print "CREATE TABLE order_items (\n  order_id BIGINT UNSIGNED NOT NULL,\n  line SMALLINT UNSIGNED NOT NULL,\n  product_id INT UNSIGNED NOT NULL,\n  quantity INT NOT NULL,\n  unit_price DECIMAL(10,2) NOT NULL,\n  discount DECIMAL(4,3) NULL,\n  PRIMARY KEY (order_id, line)\n);"

  say("What is on the shelves, and who comes in.")
  for (p = 1; p <= products; p += 6) {
    tick(60)
    printf "INSERT INTO products VALUES"
    for (i = p; i < p + 6; i++)
      printf "%s\n  (%d, '%s-%04d', '%s %s', %s, %s, %d, %d, %d, %s, %s, NOW(6))", (i > p) ? "," : "", i, pick("BK FD TL TY CÉ"), i, \
        pick("Little,Great,Wooden,Blue,Öko,Crème,Handmade,小さな", ","), pick("Atlas,Kettle,Hammer,Train,Brûlée,Lantern,☕ Cup,Käse", ","), \
        i % 17 ? money(300) : "0.00", rnd(4) ? sprintf("%d.%d", rnd(20), 125 * (1 + rnd(7))) : "NULL", rnd(400), 1 + rnd(5), rnd(32), \
        pick("NULL|JSON_OBJECT('color', 'red', 'sizes', JSON_ARRAY(36, 38, 40))|JSON_OBJECT('pages', 412, 'isbn', '978-0-00-000000-2', 'hardcover', true)|JSON_OBJECT('origin', 'São Tomé', 'nutrition', JSON_OBJECT('kcal', 534.5, 'salt', null))|JSON_ARRAY()|JSON_OBJECT()|JSON_OBJECT('voltage', 230, 'delta', -1.5e-3, 'big', 18446744073709551615, 'note', 'a \\\"quoted\\\" word')", "|"), \
        rnd(3) ? sprintf("0x%08X%02X00", rnd(32768) * 65536 + rnd(32768), rnd(256)) : "NULL"
    print ";"
  }
  for (c = 1; c <= customers; c += 25) {
    tick(20)
    printf "INSERT INTO customers VALUES"
    for (i = c; i < c + 25; i++) printf "%s\n  %s", (i > c) ? "," : "", customer(i)
    print ";"
  }

  say("January: everyday trade.")
  for (d = 1; d <= 480; d++) {
    order()
    if (d > 3 && rnd(2)) { tick(300); printf "UPDATE orders SET status = 'paid' WHERE id = %s;\n", id(1 + rnd(order_id)) }
    if (d > 9 && !rnd(4)) { tick(300); printf "UPDATE orders SET status = 'shipped', note = NULL WHERE id BETWEEN %s AND %s AND status = 'paid';\n", id(order_id - 9), id(order_id - 4) }
    if (!rnd(25)) { tick(300); printf "UPDATE products SET stock = stock - %d, updated_at = NOW(6) WHERE category = '%s';\n", 1 + rnd(400), pick("book food tool toy café") }
    if (!rnd(30)) { i = 1 + rnd(order_id); tick(300); printf "BEGIN;\nDELETE FROM order_items WHERE order_id = %s;\nDELETE FROM orders WHERE id = %s;\nCOMMIT;\n", id(i), id(i) }
  }

  say("A sale: many rows at once.")
  tick(9000); print "UPDATE products SET price = ROUND(price * 0.8, 2), tags = tags | 2, updated_at = NOW(6) WHERE NOT FIND_IN_SET('sale', tags);"
  tick(9000); print "UPDATE products SET attributes = JSON_SET(attributes, '$.sale', JSON_OBJECT('percent', 20, 'until', '2026-02-15')) WHERE JSON_TYPE(attributes) = 'OBJECT';"
  tick(9000); print "UPDATE customers SET score = score + 10 WHERE country IN ('NO', 'BR');"
  tick(9000); print "DELETE FROM customers WHERE email IS NULL AND ssn IS NULL AND id NOT IN (SELECT customer_id FROM orders);"

  say("February: the tables change.")
  tick(9000); print "ALTER TABLE orders ADD COLUMN gift_wrap BOOLEAN NOT NULL DEFAULT FALSE AFTER status, ADD COLUMN due DATE NULL;"
  for (d = 1; d <= 90; d++) { order(); if (!rnd(3)) { tick(60); printf "UPDATE orders SET gift_wrap = TRUE, due = DATE(NOW()) + INTERVAL %d DAY WHERE id = %s;\n", 1 + rnd(20), id(order_id) } }
  tick(9000); print "ALTER TABLE customers RENAME COLUMN score TO points;"
  tick(9000); print "ALTER TABLE orders CHANGE COLUMN note remark MEDIUMTEXT CHARACTER SET utf8mb4 NULL;"
  note_column = "remark"
  for (d = 1; d <= 90; d++) { order(); if (!rnd(4)) { tick(60); printf "UPDATE customers SET points = points - %d, balance = -balance WHERE id = %d;\n", rnd(90), 1 + rnd(customers) } }

  say("The history of a shop that was taken over, in one transaction: 5,000 orders, 15,000 items.")
  tick(9000)
  print "SET SESSION cte_max_recursion_depth = 20000;\nBEGIN;"
  print "INSERT INTO orders (id, customer_id, placed_at, total, status, gift_wrap)\n  WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)\n  SELECT 7000000000 + i, 1 + i * 7919 % 1500, '2024-01-01' + INTERVAL i * 9973 SECOND + INTERVAL i * 37 % 1000 * 1000 MICROSECOND,\n    (i * 104729 % 90000 - 500) / 100, 1 + i % 6, i % 10 = 0 FROM n ORDER BY i;"
  print "INSERT INTO order_items (order_id, line, product_id, quantity, unit_price)\n  WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 14999)\n  SELECT 7000000001 + i DIV 3, 1 + i % 3, 1 + i * 31 % 48, 1 + i % 4, i * 7919 % 20000 / 100 FROM n ORDER BY i;"
  print "COMMIT;"

  say("From here the statements are recorded beside the rows.")
  print "SET SESSION binlog_rows_query_log_events = ON;"
  tick(9000); print "UPDATE customers SET id = 900001 WHERE id = 17;  -- a key changes"
  tick(9000); print "BEGIN;\nUPDATE order_items SET line = line + 100 WHERE order_id = 7000000001;\nUPDATE order_items SET order_id = 7000000002 WHERE order_id = 7000000001;\nCOMMIT;"
  tick(9000); printf "BEGIN;\nINSERT INTO customers VALUES %s;\nSAVEPOINT counted;\nUPDATE customers SET points = 1000000 WHERE id < 50;\nDELETE FROM customers WHERE id = 2001;\nROLLBACK TO SAVEPOINT counted;\nUPDATE customers SET points = 0 WHERE id = 2001;\nCOMMIT;\n", customer(2001)
  tick(9000); print "BEGIN;\nDELETE FROM orders;\nROLLBACK;  -- nothing of this is recorded"
  tick(9000); print "INSERT INTO customers VALUES\n  (2002, '', NULL, NULL, 'US', NULL, 0.00, 0, '1970-01-01 00:00:01'),\n  (2003, '🦊 Фокс-狐', 'fox@example.org', NULL, 'JP', '0001-01-01', -99999999.99, -2147483648, '2038-01-19 03:14:07'),\n  (2004, CONCAT('e', 0xCC81), 'combining@example.org', '000-00-0000', 'FR', '9999-12-31', 99999999.99, 2147483647, NOW());"
  tick(9000); print "INSERT INTO orders (id, customer_id, placed_at, total, status, gift_wrap, due, remark) VALUES\n  (0, 0, '1000-01-01 00:00:00.000', 0, 'new', 0, NULL, ''),\n  (9223372036854775808, 4294967295, '9999-12-31 23:59:59.999', -9999999999.99, 'returned', 1, '2026-02-28', 'refund'),\n  (18446744073709551615, 2004, NOW(3), 9999999999.99, 'cancelled', 0, '2026-03-31', REPEAT('🚚', 80));"
  tick(9000); print "UPDATE products SET weight = NULL, attributes = NULL, picture = NULL, updated_at = NULL WHERE id <= 3;"
  tick(9000); print "UPDATE products SET weight = -0.0, stock = -1, picture = 0x00FF00, tags = '', attributes = CAST('null' AS JSON) WHERE id = 4;"
  tick(9000); print "UPDATE products SET price = 0.00 WHERE id = 17;  -- as it was: no event"
  tick(9000); print "REPLACE INTO products SELECT id, sku, 'Replaced 🔁', price, weight, stock, category, tags, attributes, picture, NOW(6) FROM products WHERE id = 5;"
  tick(9000); print "INSERT INTO products (id, sku, title, price, category) VALUES (6, 'X', 'never', 1, 'toy') ON DUPLICATE KEY UPDATE title = 'Upserted', stock = stock + 1;"
  print "SET SESSION binlog_rows_query_log_events = OFF;"

  say("March: everyday trade again.")
  for (d = 1; d <= 260; d++) {
    order()
    if (rnd(2)) { tick(300); printf "UPDATE orders SET status = '%s' WHERE id = %s;\n", pick("paid packed shipped returned"), id(1 + rnd(order_id)) }
    if (!rnd(20)) { i = 7000000100 + rnd(4000); tick(300); printf "BEGIN;\nDELETE FROM order_items WHERE order_id = %.0f;\nDELETE FROM orders WHERE id = %.0f;\nCOMMIT;\n", i, i }
  }
  tick(9000); print "DELETE FROM order_items WHERE order_id BETWEEN 7000000003 AND 7000000050;"
}
