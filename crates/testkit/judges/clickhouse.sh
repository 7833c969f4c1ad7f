#!/usr/bin/env bash
# Reads a table of a ClickHouse on 127.0.0.1 with a client that is not ours, and prints its first four columns.
#
#   clickhouse.sh clickhouse-connect|jdbc PORT DATABASE.TABLE
#
# clickhouse-connect is the official Python client; jdbc is the official Java driver.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=${HEADWATER_CACHE:-$HOME/.cache/headwater}
[ $# = 3 ] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
reader=$1 port=$2 table=$3
export TZ=UTC
case $reader in
  clickhouse-connect)
    "$HERE/../servers/fetch.sh" clickhouse >/dev/null
    exec "$CACHE/servers/clickhouse/venv/bin/python" "$HERE/clickhouse/read.py" "$port" "$table"
    ;;
  jdbc)
    "$HERE/../servers/fetch.sh" ch-judge >/dev/null
    jars=$CACHE/servers/ch-judge/jars
    exec java -Duser.timezone=UTC -Dfile.encoding=UTF-8 -Dstdout.encoding=UTF-8 -cp "$jars/*" "$HERE/clickhouse/Read.java" "$port" "$table"
    ;;
  *) exit 2 ;;
esac
