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
  awk -v flavour="$1" -v lean="${2:-}" '
    BEGIN { family = substr(flavour, 1, 3) == "mys" ? "mysql" : "mariadb"; on = 0 }
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

make() { # FLAVOUR
  out=$PWD/$1
  mkdir -p "$out"
  fresh "$1"
  sections "$1" <types.sql | sql
  keep types
  readings select.tsv types
}

[ $# -gt 0 ] || set -- mysql97 mysql80 mariadb10 mariadb11
for flavour in "$@"; do make "$flavour"; done
