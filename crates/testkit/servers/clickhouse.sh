#!/usr/bin/env bash
# A ClickHouse engine (26.9) behind ClickHouse's HTTP interface on 127.0.0.1, in a directory of its own.
#
#   clickhouse.sh start DIR PORT [CONFIG.xml]
#   clickhouse.sh stop DIR      SIGTERM: the engine has no orderly end of its own, what it acknowledged stays
#   clickhouse.sh kill DIR      SIGKILL: a crash
#   clickhouse.sh restart DIR   kill, and start with the same data
#   clickhouse.sh info DIR      print the line that start printed
#
# start and restart return when it answers, and print one line: url=http://127.0.0.1:8123 pid=4711
# With DIR/tls, which tls.sh makes, and a port in DIR/tls/port it speaks HTTPS on that port too.
# CONFIG.xml: server settings, and with <users_config> profiles and row policies.
# READY_TIMEOUT: seconds until start gives up (60). Log: DIR/clickhouse.log.
set -euo pipefail
umask 022
export LC_ALL=C TZ=UTC

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/end_process.sh"
CACHE=${HEADWATER_CACHE:-$HOME/.cache/headwater}

die() { printf 'clickhouse.sh: %s\n' "$*" >&2; exit 1; }
usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }

running() { # DIR
  local pid
  { read -r pid <"$1/pid"; } 2>/dev/null || return 1
  [ -r "/proc/$pid/cmdline" ] || return 1
  tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -qxF "$1/data"
}

answers() { # PORT
  { exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null || return 1
  printf 'GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' >&3
  grep -q 'Ok\.' <&3
}

launch() { # DIR
  local dir=$1 port pid end config=()
  read -r port <"$dir/port"
  [ ! -f "$dir/config.xml" ] || config=("$dir/config.xml")
  [ ! -f "$dir/tls/port" ] || export HTTPS="$(<"$dir/tls/port"):$dir/tls/server-cert.pem:$dir/tls/server-key.pem"
  setsid "$CACHE/servers/clickhouse/venv/bin/python" "$HERE/clickhouse_http.py" "$port" "$dir/data" ${config[@]+"${config[@]}"} \
    </dev/null >>"$dir/clickhouse.log" 2>&1 &
  pid=$!
  echo "$pid" >"$dir/pid"
  end=$((SECONDS + ${READY_TIMEOUT:-60}))
  until answers "$port"; do
    if ! kill -0 "$pid" 2>/dev/null || [ $SECONDS -ge $end ]; then
      kill -9 "$pid" 2>/dev/null || true
      rm -f "$dir/pid"
      tail -n 30 "$dir/clickhouse.log" >&2
      die "the engine in $dir did not start"
    fi
    sleep 0.05
  done
  info "$dir"
}

info() { # DIR
  local port
  running "$1" || die "no engine runs in $1"
  read -r port <"$1/port"
  echo "url=http://127.0.0.1:$port pid=$(<"$1/pid")"
}

start() { # DIR PORT [CONFIG]
  [ $# -ge 2 ] || usage
  local dir=$1 port=$2
  "$HERE/fetch.sh" clickhouse >/dev/null
  mkdir -p "$dir/data"; dir=$(cd "$dir" && pwd)
  ! running "$dir" || die "an engine runs in $dir already"
  [ $# -lt 3 ] || cp "$3" "$dir/config.xml"
  echo "$port" >"$dir/port"
  launch "$dir"
}

halt() { # DIR SIGNAL
  ! running "$1" || end_process "$1/pid" "$2" 200
  rm -f "$1/pid"
}

[ $# -ge 2 ] || usage
verb=$1; shift
if [ "$verb" != start ]; then
  dir=$(cd "$1" 2>/dev/null && pwd) || die "no directory $1"
  [ -f "$dir/port" ] || die "no engine was ever started in $dir"
fi
case $verb in
  start) start "$@" ;;
  stop) halt "$dir" TERM ;;
  kill) halt "$dir" KILL ;;
  restart) halt "$dir" KILL; launch "$dir" ;;
  info) info "$dir" ;;
  *) usage ;;
esac
