#!/usr/bin/env bash
# A real MySQL or MariaDB on 127.0.0.1, in a directory of its own.
#
#   mysql.sh start FLAVOUR DIR PORT [server option...]   initialise DIR if it is empty, and start
#   mysql.sh stop DIR                                    orderly, waits until it is gone
#   mysql.sh kill DIR                                    SIGKILL: a crash
#   mysql.sh restart DIR [server option...]              stop (or after a kill) and start as before;
#                                                        options given here replace start's
#   mysql.sh info DIR                                    print the line that start printed
#   mysql.sh sql DIR [client argument...]                the client, as root; SQL on standard input
#
# FLAVOUR: mariadb10, mariadb11, mysql80, mysql97 (see fetch.sh, which is called as needed).
# start and restart return when the server greets TCP clients, and print one line:
#   port=3406 socket=/…/s.sock pid=4711
# root has no password, over the socket and over TCP from 127.0.0.1. Names are not resolved: an
# account for TCP is 'name'@'127.0.0.1' or 'name'@'%', 'name'@'localhost' is for the socket alone.
# Row based binary log with full images and metadata, CRC32, GTIDs. TLS with DIR/tls/ca.pem
# (server-cert.pem, server-key.pem; client-cert.pem, client-key.pem for clients).
# Server options come last on the command line and so override all others.
# Log: DIR/err.log. Data: DIR/data. Binary logs: DIR/data/binlog.NNNNNN.
# READY_TIMEOUT: seconds until start gives up (60).
set -euo pipefail
umask 022
export LC_ALL=C

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/end_process.sh"
CACHE=${HEADWATER_CACHE:-$HOME/.cache/headwater}
TEMPLATE_RECIPE=1 # raise when `initialise` changes

die() { printf 'mysql.sh: %s\n' "$*" >&2; exit 1; }
usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }

running() { # DIR: is the recorded process alive, and is it ours?
  local pid cmd
  { read -r pid <"$1/pid"; } 2>/dev/null || return 1
  [ -r "/proc/$pid/cmdline" ] || return 1
  cmd=$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null) || return 1
  [[ $cmd == *"--datadir=$1/data "* ]]
}

# Options that fix where things are. PREFIX is the fetched server, DATA the data directory.
places() { # FLAVOUR PREFIX DATA; sets PLACES
  local share base
  case $1 in
    mysql97) base=$2/usr share=$2/usr/share/mysql PLACES=(--plugin-dir="$2/usr/lib/mysql/plugin") ;;
    mariadb10) base=$2/usr share=$2/usr/share/mysql PLACES=(--plugin-dir="$2/usr/lib/mysql/plugin") ;;
    *) base=$2/server share=$2/server/share PLACES=() ;;
  esac
  PLACES=(--no-defaults --basedir="$base" --lc-messages-dir="$share" --character-sets-dir="$share/charsets"
    --datadir="$3" "${PLACES[@]}")
  [ "$(id -u)" != 0 ] || PLACES+=(--user=root)
}

# Sizes that must be the same at initialisation and later.
sizes() { # FLAVOUR; sets SIZES
  case $1 in
    mysql97) SIZES=(--innodb-redo-log-capacity=64M) ;;
    mysql80) SIZES=(--innodb-log-file-size=16M) ;;
    *) SIZES=(--innodb-log-file-size=32M) ;;
  esac
}

# A fresh data directory is made once per flavour and copied afterwards.
template() { # FLAVOUR PREFIX; sets TEMPLATE
  local flavour=$1 prefix=$2 stage share f
  TEMPLATE=$CACHE/templates/$flavour.$TEMPLATE_RECIPE
  [ ! -d "$TEMPLATE" ] || return 0
  mkdir -p "$CACHE/templates"
  exec 9>"$CACHE/templates/.$flavour.lock"
  flock 9
  if [ ! -d "$TEMPLATE" ]; then
    stage=$CACHE/templates/.stage-$flavour
    rm -rf "$stage"; mkdir -p "$stage"
    places "$flavour" "$prefix" "$stage/data"
    sizes "$flavour"
    case $flavour in
      mysql*)
        cat >"$stage/init.sql" <<'SQL'
CREATE USER root@'127.0.0.1';
GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
SQL
        "$prefix/run/server" "${PLACES[@]}" "${SIZES[@]}" --initialize-insecure --skip-log-bin --innodb-flush-method=nosync \
          --log-error="$stage/init.log" --init-file="$stage/init.sql" 9>&- || { tail -5 "$stage/init.log" >&2; exit 1; }
        rm -f "$stage/data/auto.cnf" # every server makes a server_uuid of its own
        ;;
      mariadb*)
        mkdir "$stage/data"
        for f in "$prefix"/usr/share/mysql "$prefix"/server/share; do [ ! -d "$f" ] || share=$f; done
        {
          echo "CREATE DATABASE IF NOT EXISTS mysql;"
          echo "USE mysql;"
          echo "SET @auth_root_socket=NULL;"
          for f in system_tables performance_tables system_tables_data; do
            if [ -f "$share/mariadb_$f.sql" ]; then cat "$share/mariadb_$f.sql"; else cat "$share/mysql_$f.sql"; fi
          done
          echo "DELETE FROM global_priv WHERE User='' OR Host NOT IN ('localhost', '127.0.0.1');"
        } >"$stage/init.sql"
        "$prefix/run/server" "${PLACES[@]}" "${SIZES[@]}" --bootstrap --skip-log-bin --log-error="$stage/init.log" \
          <"$stage/init.sql" >"$stage/init.out" 2>&1 9>&- || { cat "$stage/init.out" "$stage/init.log" | tail -n 8 >&2; exit 1; }
        ;;
    esac
    mv "$stage" "$TEMPLATE"
  fi
  exec 9>&-
}

greets() { # PORT: does a server greet there? The first packet is number 0 and starts with protocol 10.
  local head
  exec 3<>"/dev/tcp/127.0.0.1/$1" || return 1
  head=$(timeout 2 head -c 5 <&3 | od -An -tx1) || head=
  exec 3>&- 3<&-
  [[ $head == *" 00 0a" ]]
}

taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

launch() { # DIR
  local dir=$1 flavour port socket prefix pid from end
  read -r flavour <"$dir/flavour"; read -r port <"$dir/port"; read -r socket <"$dir/socket"
  local extra=()
  mapfile -d '' -t extra <"$dir/options"
  # Of its own: MariaDB deletes what other servers have in a shared one when it starts.
  mkdir -p "$dir/tmp"
  prefix=$CACHE/servers/$flavour
  places "$flavour" "$prefix" "$dir/data"
  sizes "$flavour"
  local o=("${PLACES[@]}" "${SIZES[@]}"
    --tmpdir="$dir/tmp" --bind-address=127.0.0.1 --port="$port" --socket="$socket" --pid-file="$dir/server.pid" --log-error="$dir/err.log"
    --server-id=$((port % 60000 + 1)) --skip-name-resolve --max-connections=100
    --log-bin="$dir/data/binlog" --binlog-format=ROW --binlog-row-image=FULL --binlog-checksum=CRC32
    --sync-binlog=0 --innodb-flush-log-at-trx-commit=0
    --character-set-server=utf8mb4 --max-allowed-packet=256M
    --performance-schema=OFF --innodb-buffer-pool-size=64M --innodb-log-buffer-size=4M
    --table-open-cache=400 --table-definition-cache=400 --key-buffer-size=1M
    --ssl-ca="$dir/tls/ca.pem" --ssl-cert="$dir/tls/server-cert.pem" --ssl-key="$dir/tls/server-key.pem")
  case $flavour in
    mysql97) o+=(--mysqlx=OFF --binlog-row-metadata=FULL --gtid-mode=ON --enforce-gtid-consistency=ON --secure-file-priv=
      --innodb-flush-method=nosync --temptable-max-ram=16M) ;;
    mysql80) o+=(--mysqlx=OFF --binlog-row-metadata=FULL --gtid-mode=ON --enforce-gtid-consistency=ON --secure-file-priv=
      --innodb-flush-method=nosync --temptable-max-ram=16M) ;;
    mariadb*) o+=(--binlog-row-metadata=FULL --log-slave-updates --innodb-flush-method=nosync --aria-pagecache-buffer-size=8M) ;;
  esac
  ! taken "$port" || die "port $port is in use"
  rm -f "$socket" "$socket.lock" # of a server that was killed
  from=$(stat -c %s "$dir/err.log" 2>/dev/null || echo 0)
  setsid "$prefix/run/server" "${o[@]}" "${extra[@]}" </dev/null >>"$dir/out.log" 2>&1 &
  pid=$!
  echo "$pid" >"$dir/pid"
  end=$((SECONDS + ${READY_TIMEOUT:-60}))
  until greets "$port" 2>/dev/null; do
    if ! kill -0 "$pid" 2>/dev/null || [ $SECONDS -ge $end ]; then
      kill -9 "$pid" 2>/dev/null || true
      rm -f "$dir/pid"
      { tail -c +$((from + 1)) "$dir/err.log" | tail -20; tail -5 "$dir/out.log"; } >&2
      die "$flavour in $dir did not start"
    fi
    sleep 0.05
  done
  info "$dir"
}

info() { # DIR
  running "$1" || die "no server runs in $1"
  echo "port=$(<"$1/port") socket=$(<"$1/socket") pid=$(<"$1/pid")"
}

start() { # FLAVOUR DIR PORT OPTION...
  [ $# -ge 3 ] || usage
  local flavour=$1 dir=$2 port=$3; shift 3
  case $flavour in mariadb10|mariadb11|mysql80|mysql97) ;; *) die "no such flavour: $flavour" ;; esac
  "$HERE/fetch.sh" "$flavour" >/dev/null
  mkdir -p "$dir"; dir=$(cd "$dir" && pwd)
  ! running "$dir" || die "a server runs in $dir already"
  if [ ! -d "$dir/data" ]; then
    local TEMPLATE
    template "$flavour" "$CACHE/servers/$flavour"
    rm -rf "$dir/.data"
    cp -r --reflink=auto --sparse=always "$TEMPLATE/data" "$dir/.data"
    mv "$dir/.data" "$dir/data"
    echo "$flavour" >"$dir/flavour"
  fi
  [ "$(<"$dir/flavour")" = "$flavour" ] || die "$dir holds the data of $(<"$dir/flavour")"
  # OpenSSL 1.0 inside MySQL 8.0.15 has no key exchange for elliptic keys.
  if [ ! -d "$dir/tls" ]; then "$HERE/tls.sh" "$dir/tls" "$([ "$flavour" != mysql80 ] || echo rsa)"; fi
  echo "$port" >"$dir/port"
  # A socket's path has at most 107 bytes.
  if [ ! -f "$dir/socket" ]; then
    if [ ${#dir} -le 90 ]; then echo "$dir/s.sock"; else echo "$(mktemp -d /tmp/hw.XXXXXX)/s.sock"; fi >"$dir/socket"
  fi
  if [ $# -gt 0 ]; then printf '%s\0' "$@" >"$dir/options"; else : >"$dir/options"; fi
  launch "$dir"
}

halt() { # DIR SIGNAL
  ! running "$1" || end_process "$1/pid" "$2" 600
  rm -f "$1/pid"
}

[ $# -ge 2 ] || usage
verb=$1; shift
if [ "$verb" != start ]; then
  dir=$(cd "$1" 2>/dev/null && pwd) || die "no directory $1"
  shift
  [ -f "$dir/flavour" ] || die "no server was ever started in $dir"
fi
case $verb in
  start) start "$@" ;;
  stop) halt "$dir" TERM ;;
  kill) halt "$dir" KILL ;;
  restart)
    halt "$dir" TERM
    if [ $# -gt 0 ]; then printf '%s\0' "$@" >"$dir/options"; fi
    launch "$dir" ;;
  info) info "$dir" ;;
  sql)
    client=$CACHE/servers/$(<"$dir/flavour")/run/client
    # The MySQL 8.0 archive has no client of its own.
    [ -x "$client" ] || { "$HERE/fetch.sh" mysql97 >/dev/null; client=$CACHE/servers/mysql97/run/client; }
    exec "$client" --socket="$(<"$dir/socket")" --user=root --default-character-set=utf8mb4 "$@" ;;
  *) usage ;;
esac
