#!/usr/bin/env bash
# make.sh: records shop.binlog anew with MySQL 9.7, and prints what it holds.
set -euo pipefail
export LC_ALL=C.UTF-8
cd "$(dirname "${BASH_SOURCE[0]}")"
mysql=../servers/mysql.sh
port=${1:-23971}

work=$(mktemp -d /tmp/hw-recording.XXXXXX)
trap '$mysql stop "$work" 2>/dev/null || true; rm -rf "$work"' EXIT
$mysql start mysql97 "$work" "$port" >/dev/null
# A server id and a UUID that do not change from one making to the next.
printf '[auto]\nserver-uuid=5ca1ab1e-0000-4000-8000-00000000c0de\n' >"$work/data/auto.cnf"
$mysql restart "$work" --server-id=1001 --default-time-zone=+00:00 >/dev/null
$mysql sql "$work" -e 'RESET BINARY LOGS AND GTIDS'
awk -f workload.awk >"$work/workload.sql"
$mysql sql "$work" <"$work/workload.sql"
$mysql sql "$work" -e 'FLUSH BINARY LOGS'
install -m 644 "$work/data/binlog.000001" shop.binlog

binlog=${HEADWATER_CACHE:-$HOME/.cache/headwater}/bin/mysqlbinlog97
echo "bytes: $(stat -c %s shop.binlog)"
"$binlog" --verify-binlog-checksum -vv shop.binlog >"$work/decoded"
echo "transactions: $(grep -c 'SET @@SESSION.GTID_NEXT= .5ca1ab1e' "$work/decoded")"
echo "statements recorded: $(grep -c "Rows_query" "$work/decoded")"
printf '| table | insert | update | delete | rows at the end |\n| --- | --- | --- | --- | --- |\n'
for t in customers products orders order_items; do
  printf '| %s ' "$t"
  for v in 'INSERT INTO' 'UPDATE' 'DELETE FROM'; do
    printf '| %s ' "$(grep -cF "### $v \`shop\`.\`$t\`" "$work/decoded" || true)"
  done
  printf '| %s |\n' "$($mysql sql "$work" -N -e "SELECT COUNT(*) FROM shop.$t")"
done
