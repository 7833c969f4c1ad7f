#!/usr/bin/env bash
# make.sh [mysql97|mysql80|mariadb10|mariadb11]...: makes the vectors of these servers anew (README.md says what each file is).
set -euo pipefail
export LC_ALL=C.UTF-8
cd "$(dirname "${BASH_SOURCE[0]}")"
mysql=$PWD/../servers/mysql.sh
port=${HEADWATER_VECTORS_PORT:-23980}

work=$(mktemp -d /tmp/hw-vectors.XXXXXX)
trap '$mysql kill "$work/db" 2>/dev/null || true; rm -rf "$work"' EXIT

# sections FLAVOUR [lean] < FILE: the SQL that is for this server
sections() {
  LC_ALL=C awk -v flavour="$1" -v lean="${2:-}" '
    BEGIN { family = substr(flavour, 1, 3) == "mys" ? "mysql" : "mariadb"; on = 1 }
    /^-- \[.*\]$/ {
      s = " " substr($0, 5, length($0) - 5) " "
      on = (index(s, " all ") || index(s, " " family " ") || index(s, " " flavour " ")) && !(lean != "" && index(s, " big "))
      next
    }
    on'
}

# fresh FLAVOUR [OPTION…]: an empty server whose identity is the same at every making
fresh() {
  local flavour=$1; shift
  if [ -d "$work/db" ]; then $mysql kill "$work/db"; rm -rf "$work/db"; fi
  $mysql start "$flavour" "$work/db" "$port" >/dev/null
  case $flavour in
    mysql*)
      printf '[auto]\nserver-uuid=5ca1ab1e-0000-4000-8000-0000000000%s\n' "${flavour#mysql}" >"$work/db/data/auto.cnf"
      $mysql restart "$work/db" --server-id=1001 "$@" >/dev/null
      if [ "$flavour" = mysql80 ]; then sql -e 'RESET MASTER'; else sql -e 'RESET BINARY LOGS AND GTIDS'; fi ;;
    mariadb*)
      $mysql restart "$work/db" --server-id=1001 "$@" >/dev/null
      sql -e 'RESET MASTER' ;;
  esac
}
sql() { $mysql sql "$work/db" "$@"; }

keep() { # NAME: the first binary log, closed
  sql -e 'FLUSH BINARY LOGS'
  install -m 644 "$work/db/data/binlog.000001" "$out/$1.binlog"
}

# readings NAME DATABASE: every value of every final row, as the server itself reads it
readings() {
  { echo "SET @db = '$2';"; cat readings.sql; } | sql -N -r >"$work/select.sql"
  { echo "SET NAMES utf8mb4; SET time_zone = '+00:00'; SET sql_mode = '';"; cat "$work/select.sql"; } | sql -N -r >"$out/$1"
}

# xa: transactions in two phases, each statement after PREPARE in a connection of its own
xa() {
  sql -e "CREATE DATABASE xa; CREATE TABLE xa.t (id INT NOT NULL PRIMARY KEY)"
  sql -e "XA START 'both'; INSERT INTO xa.t VALUES (1); XA END 'both'; XA PREPARE 'both'"
  sql -e "XA COMMIT 'both'"
  sql -e "XA START 'back','branch',7; INSERT INTO xa.t VALUES (2); XA END 'back','branch',7; XA PREPARE 'back','branch',7"
  sql -e "INSERT INTO xa.t VALUES (3)"
  sql -e "XA START 0x00FF27,0x0A,2147483647; INSERT INTO xa.t VALUES (4), (5); DELETE FROM xa.t WHERE id = 3; XA END 0x00FF27,0x0A,2147483647; XA PREPARE 0x00FF27,0x0A,2147483647"
  sql -e "XA ROLLBACK 'back','branch',7"
  sql -e "INSERT INTO xa.t VALUES (6)"
  sql -e "XA COMMIT 0x00FF27,0x0A,2147483647"
  sql -e "XA START 'one'; INSERT INTO xa.t VALUES (7); XA END 'one'; XA COMMIT 'one' ONE PHASE"
  sql -e "XA START 'nothing'; XA END 'nothing'; XA PREPARE 'nothing'"
  sql -e "XA COMMIT 'nothing'" 2>/dev/null || true # some servers forget a branch that changed nothing
  sql -e "XA START 'never'; INSERT INTO xa.t VALUES (8); XA END 'never'; XA ROLLBACK 'never'"
  sql -e "XA START 'left'; INSERT INTO xa.t VALUES (9); XA END 'left'; XA PREPARE 'left'"
}

# variant FLAVOUR NAME DATABASE SQLFILE [OPTION…]: a log, and its readings
variant() {
  local flavour=$1 name=$2 db=$3 file=$4; shift 4
  fresh "$flavour" "$@"
  sections "$flavour" lean <"$file" | sql >/dev/null
  keep "$name"
  [ "$db" = - ] || readings "$name.tsv" "$db"
}

make() { # FLAVOUR
  out=$PWD/$1
  rm -rf "$out"; mkdir "$out"
  fresh "$1"
  sections "$1" <types.sql | sql
  keep types
  readings select.tsv types

  variant "$1" noblob small small.sql --binlog-row-image=NOBLOB
  variant "$1" minimal - types.sql --binlog-row-image=MINIMAL --binlog-row-metadata=MINIMAL
  fresh "$1"; xa; keep xa; readings xa.tsv xa
  variant "$1" statements - statements.sql
  case $1 in
    mysql97)
      variant "$1" compressed packed compressed.sql
      variant "$1" partial_json diffs partial_json.sql --binlog-row-value-options=PARTIAL_JSON
      variant "$1" tagged tags tagged.sql
      install -m 644 "$work/db/data/binlog.000002" "$out/tagged.next.binlog"
      # A byte that is not UTF-8 must not be in a text file.
      variant "$1" rows_query said <(LC_ALL=C sed $'s/@E9@/\xe9/' rows_query.sql)
      variant "$1" anonymous small small.sql --gtid-mode=OFF --enforce-gtid-consistency=OFF --binlog-checksum=NONE
      ;;
    mysql80)
      variant "$1" partial_json diffs <(grep -v compression partial_json.sql) --binlog-row-value-options=PARTIAL_JSON
      variant "$1" anonymous small small.sql --gtid-mode=OFF --enforce-gtid-consistency=OFF --binlog-checksum=NONE
      ;;
    mariadb10)
      variant "$1" compressed - types.sql --log-bin-compress=ON --log-bin-compress-min-len=10
      variant "$1" gtids gtids gtids.sql
      install -m 644 "$work/db/data/binlog.000002" "$out/gtids.next.binlog"
      variant "$1" no_metadata small small.sql --binlog-row-metadata=NO_LOG --binlog-checksum=NONE --binlog-annotate-row-events=OFF
      variant "$1" old_fractions old old_fractions.sql
      ;;
  esac
}

[ $# -gt 0 ] || set -- mysql97 mysql80 mariadb10 mariadb11
for flavour in "$@"; do make "$flavour"; done
