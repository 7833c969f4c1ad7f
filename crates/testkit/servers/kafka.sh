#!/usr/bin/env bash
# A real Apache Kafka (one node, KRaft) on 127.0.0.1, in a directory of its own.
#
#   kafka.sh start DIR PORT [--sasl | --sasl-ssl] [--message-max BYTES] [--set NAME=VALUE]...
#   kafka.sh stop DIR       orderly (SIGKILL after 20 s)
#   kafka.sh kill DIR       SIGKILL: a crash
#   kafka.sh restart DIR    stop, or after a kill, and start with the same options and data
#   kafka.sh info DIR       print the line that start printed
#
# start and restart return when the broker serves, and print one line:
#   bootstrap=127.0.0.1:9092 [sasl=127.0.0.1:9093] pid=4711
# PORT: PLAINTEXT. PORT+1 with --sasl: SASL_PLAINTEXT, with --sasl-ssl: SASL_SSL (CA in
# DIR/tls/ca.pem). PORT+2: the controller. Users, for PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512:
# alice / alice-secret and bob / bob-secret. For OAUTHBEARER: any token that is not signed (alg none) and
# has sub, iat and exp.
# Topics are created on first use, with 4 partitions. --set adds a line to server.properties.
# Needs java (17 or later). KAFKA_HEAP (default 256m), READY_TIMEOUT (seconds, default 60).
# Log: DIR/kafka.log.
set -euo pipefail
umask 022
export LC_ALL=C

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/end_process.sh"
CACHE=${HEADWATER_CACHE:-$HOME/.cache/headwater}
HOME_DIR=$CACHE/servers/kafka
TEMPLATE_RECIPE=1
# The first tier of the compiler and the serial collector: the quickest start, the smallest process.
JVM=(-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=48m -XX:-UsePerfData -Xss512k)

die() { printf 'kafka.sh: %s\n' "$*" >&2; exit 1; }
usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }

running() { # DIR
  local pid
  { read -r pid <"$1/pid"; } 2>/dev/null || return 1
  [ -r "/proc/$pid/cmdline" ] || return 1
  tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -qxF "$1/server.properties"
}

taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# What `kafka-storage format` writes does not depend on ports: made once, and copied.
template() { # sets TEMPLATE
  TEMPLATE=$CACHE/templates/kafka.$TEMPLATE_RECIPE
  [ ! -d "$TEMPLATE" ] || return 0
  mkdir -p "$CACHE/templates"
  exec 9>"$CACHE/templates/.kafka.lock"
  flock 9
  if [ ! -d "$TEMPLATE" ]; then
    local s=$CACHE/templates/.stage-kafka m u add=()
    rm -rf "$s"; mkdir -p "$s"
    for u in alice bob; do for m in SCRAM-SHA-256 SCRAM-SHA-512; do
      add+=(--add-scram "$m=[name=$u,password=$u-secret,iterations=4096]")
    done; done
    properties "$s" 29092 none "" >"$s/server.properties"
    java -Xmx128m "${JVM[@]}" -cp "$HOME_DIR/jars/*" kafka.tools.StorageTool format -t HeadwaterTestBroker0AA \
      -c "$s/server.properties" "${add[@]}" >"$s/format.log" 2>&1 9>&- || { cat "$s/format.log" >&2; exit 1; }
    mv "$s" "$TEMPLATE"
  fi
  exec 9>&-
}

properties() { # DIR PORT none|sasl|sasl-ssl EXTRA
  local dir=$1 port=$2 sasl=$3 extra=$4 listeners advertised
  listeners=PLAINTEXT://127.0.0.1:$port advertised=PLAINTEXT://127.0.0.1:$port
  if [ "$sasl" != none ]; then
    listeners+=,SASL://127.0.0.1:$((port + 1)) advertised+=,SASL://127.0.0.1:$((port + 1))
  fi
  cat <<P
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$((port + 2))
listeners=$listeners,CONTROLLER://127.0.0.1:$((port + 2))
advertised.listeners=$advertised
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=$dir/data
auto.create.topics.enable=true
num.partitions=4
default.replication.factor=1
min.insync.replicas=1
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
# After a crash the broker waits until its former session has ended.
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=4000
num.network.threads=2
num.io.threads=2
background.threads=2
num.recovery.threads.per.data.dir=1
log.cleaner.dedupe.buffer.size=4194304
log.segment.bytes=67108864
P
  case $sasl in
    none) echo "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT" ;;
    sasl) echo "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT" ;;
    sasl-ssl)
      cat <<P
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_SSL
listener.name.sasl.ssl.keystore.type=PEM
listener.name.sasl.ssl.keystore.location=$dir/tls/server.pem
P
      ;;
  esac
  if [ "$sasl" != none ]; then
    cat <<'P'
listener.name.sasl.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
listener.name.sasl.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret" user_bob="bob-secret";
listener.name.sasl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
P
  fi
  printf '%s' "$extra"
}

launch() { # DIR
  local dir=$1 port pid from end p
  read -r port <"$dir/port"
  for p in "$port" $((port + 1)) $((port + 2)); do ! taken "$p" || die "port $p is in use"; done
  touch "$dir/kafka.log"; from=$(stat -c %s "$dir/kafka.log")
  setsid java -Xms64m -Xmx"${KAFKA_HEAP:-256m}" "${JVM[@]}" -Dorg.slf4j.simpleLogger.showDateTime=true \
    -cp "$HOME_DIR/jars/*" kafka.Kafka "$dir/server.properties" </dev/null >>"$dir/kafka.log" 2>&1 &
  pid=$!
  echo "$pid" >"$dir/pid"
  end=$((SECONDS + ${READY_TIMEOUT:-60}))
  until tail -c +$((from + 1)) "$dir/kafka.log" | grep 'Kafka Server started' >/dev/null; do
    if ! kill -0 "$pid" 2>/dev/null || [ $SECONDS -ge $end ]; then
      kill -9 "$pid" 2>/dev/null || true
      rm -f "$dir/pid"
      tail -c +$((from + 1)) "$dir/kafka.log" | tail -n 30 >&2
      die "the broker in $dir did not start"
    fi
    sleep 0.05
  done
  info "$dir"
}

info() { # DIR
  local port
  running "$1" || die "no broker runs in $1"
  read -r port <"$1/port"
  if grep -q '^listener.name.sasl' "$1/server.properties"; then
    echo "bootstrap=127.0.0.1:$port sasl=127.0.0.1:$((port + 1)) pid=$(<"$1/pid")"
  else
    echo "bootstrap=127.0.0.1:$port pid=$(<"$1/pid")"
  fi
}

start() { # DIR PORT OPTION...
  [ $# -ge 2 ] || usage
  local dir=$1 port=$2 sasl=none extra=; shift 2
  while [ $# -gt 0 ]; do
    case $1 in
      --sasl) sasl=sasl ;;
      --sasl-ssl) sasl="sasl-ssl" ;;
      --message-max) extra+="message.max.bytes=$2"$'\n'"replica.fetch.max.bytes=$2"$'\n'"socket.request.max.bytes=$(($2 + 104857600))"$'\n'; shift ;;
      --set) extra+=$2$'\n'; shift ;;
      *) usage ;;
    esac
    shift
  done
  "$HERE/fetch.sh" kafka >/dev/null
  mkdir -p "$dir"; dir=$(cd "$dir" && pwd)
  ! running "$dir" || die "a broker runs in $dir already"
  if [ ! -d "$dir/data" ]; then
    local TEMPLATE
    template
    cp -r "$TEMPLATE/data" "$dir/data"
  fi
  echo "$port" >"$dir/port"
  if [ $sasl = sasl-ssl ] && [ ! -f "$dir/tls/server.pem" ]; then
    "$HERE/tls.sh" "$dir/tls"
    cat "$dir/tls/server-key.pem" "$dir/tls/server-cert.pem" "$dir/tls/ca.pem" >"$dir/tls/server.pem"
  fi
  properties "$dir" "$port" $sasl "$extra" >"$dir/server.properties"
  launch "$dir"
}

halt() { # DIR SIGNAL
  ! running "$1" || end_process "$1/pid" "$2" 400
  rm -f "$1/pid"
}

[ $# -ge 2 ] || usage
verb=$1; shift
if [ "$verb" != start ]; then
  dir=$(cd "$1" 2>/dev/null && pwd) || die "no directory $1"
  [ -f "$dir/server.properties" ] || die "no broker was ever started in $dir"
fi
case $verb in
  start) start "$@" ;;
  stop) halt "$dir" TERM ;;
  kill) halt "$dir" KILL ;;
  restart) halt "$dir" TERM; launch "$dir" ;;
  info) info "$dir" ;;
  *) usage ;;
esac
