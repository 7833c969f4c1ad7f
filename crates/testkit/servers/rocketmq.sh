#!/usr/bin/env bash
# A real Apache RocketMQ (a name server and a broker) on 127.0.0.1, in a directory of its own.
#
#   rocketmq.sh start DIR PORT [--tls] [--set NAME=VALUE]...
#   rocketmq.sh stop DIR [PART]       orderly (SIGKILL after 20 s)
#   rocketmq.sh kill DIR [PART]       SIGKILL: a crash
#   rocketmq.sh restart DIR [PART]    stop, or after a kill, and start with the same options and data
#   rocketmq.sh info DIR              print the line that start printed
#
# PART: broker or namesrv; without it, both.
# start and restart return when the name server knows the way to the broker, and print one line:
#   namesrv=127.0.0.1:9876 broker=127.0.0.1:9879 pid=4712 namesrv_pid=4711
# PORT: the name server. PORT+1: the broker's second ("VIP") listener. PORT+2: replication, which the
# broker opens on every interface and which nobody uses. PORT+3: the broker.
# Topics are created on first use, with 4 queues. --set adds a line to broker.conf, for instance
# autoCreateTopicEnable=false or maxMessageSize=1048576.
# With --tls both listen for TLS as well as for plain text, each with a certificate of its own making.
# Transactions: the broker asks back after 3 s, then each second.
# Needs a JDK (17 or later). ROCKETMQ_HEAP (default 192m), READY_TIMEOUT (seconds, default 60).
# Logs: DIR/namesrv.log, DIR/broker.log. Data: DIR/store.
set -euo pipefail
umask 022
export LC_ALL=C

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/end_process.sh"
CACHE=${HEADWATER_CACHE:-$HOME/.cache/headwater}
HOME_DIR=$CACHE/servers/rocketmq
# The first tier of the compiler and the serial collector: the quickest start, the smallest process.
JVM=(-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=64m -XX:-UsePerfData -Xss512k
  --add-exports=java.base/jdk.internal.ref=ALL-UNNAMED --add-opens=java.base/java.nio=ALL-UNNAMED)

die() { printf 'rocketmq.sh: %s\n' "$*" >&2; exit 1; }
usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }

running() { # DIR PART
  local pid
  { read -r pid <"$1/$2.pid"; } 2>/dev/null || return 1
  [ -r "/proc/$pid/cmdline" ] || return 1
  tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -xF "$1/$2.conf" >/dev/null
}

taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# routable PORT: does the name server give a route to the broker's own test topic? One request of the
# remoting protocol (code 105), its lengths before it.
routable() {
  local header='{"code":105,"extFields":{"topic":"SELF_TEST_TOPIC"},"flag":0,"language":"JAVA","opaque":1,"serializeTypeCurrentRPC":"JSON","version":1}'
  local n=${#header} answer
  exec 3<>"/dev/tcp/127.0.0.1/$1" || return 1
  printf "$(printf '\\x00\\x00\\x00\\x%02x\\x00\\x00\\x00\\x%02x' $((n + 4)) "$n")%s" "$header" >&3
  # All of it, or the name server complains about the broken connection: first its length.
  n=$(timeout 2 head -c 4 <&3 | od -An -tx1 | tr -d ' ') || n=
  answer=$(timeout 2 head -c $((16#${n:-0})) <&3 | tr -d '\0') || answer=
  exec 3>&- 3<&-
  [[ $answer == *'"code":0,'* ]]
}

configure() { # DIR PORT EXTRA
  local dir=$1 port=$2 extra=$3
  mkdir -p "$dir/home"
  cat >"$dir/namesrv.conf" <<P
listenPort=$port
bindAddress=127.0.0.1
kvConfigPath=$dir/kvConfig.json
P
  cat >"$dir/broker.conf" <<P
brokerClusterName=DefaultCluster
brokerName=broker-a
brokerId=0
brokerRole=ASYNC_MASTER
brokerIP1=127.0.0.1
brokerIP2=127.0.0.1
bindAddress=127.0.0.1
namesrvAddr=127.0.0.1:$port
listenPort=$((port + 3))
haListenPort=$((port + 2))
storePathRootDir=$dir/store
storePathCommitLog=$dir/store/commitlog
flushDiskType=ASYNC_FLUSH
# Small files: each is mapped whole.
mappedFileSizeCommitLog=16777216
mappedFileSizeConsumeQueue=300000
maxHashSlotNum=50000
maxIndexNum=200000
timerWheelEnable=false
autoCreateTopicEnable=true
autoCreateSubscriptionGroup=true
defaultTopicQueueNums=4
traceTopicEnable=false
# A full disk elsewhere on the machine is not this test's matter.
diskMaxUsedSpaceRatio=99
# A half message must be older than the batch of its ends, or a committed one is offered again.
transactionTimeOut=3000
transactionCheckInterval=1000
transactionOpBatchInterval=200
# The thread that saves these figures spins until they are due for the first time.
transactionMetricFlushInterval=1000
registerNameServerPeriod=10000
$extra
P
  # Warnings to standard output, instead of thirty rolling files in the home folder.
  cat >"$dir/home/logback.xml" <<'X'
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %p %t %c{1} - %m%n</pattern></encoder>
  </appender>
  <logger name="RocketmqPop" level="ERROR"/><logger name="RocketmqTransaction" level="ERROR"/>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
X
}

spawn() { # DIR PART HEAP CLASS; sets PID
  local dir=$1 part=$2 tls
  read -r tls <"$dir/tls"
  ROCKETMQ_HOME=$dir/home setsid java -Xms32m -Xmx"$3" -XX:MaxDirectMemorySize=256m "${JVM[@]}" -Duser.home="$dir/home" \
    -Dtls.server.mode="$tls" -Drmq.logback.configurationFile="$dir/home/logback.xml" -cp "$CLASSES:$HOME_DIR/jars/*" \
    "$4" -c "$dir/$part.conf" </dev/null >>"$dir/$part.log" 2>&1 &
  PID=$!
  echo "$PID" >"$dir/$part.pid"
}

await() { # DIR PART PID CHECK ARGUMENT...
  local dir=$1 part=$2 pid=$3 end=$((SECONDS + ${READY_TIMEOUT:-60})); shift 3
  until "$@" 2>/dev/null; do
    if ! kill -0 "$pid" 2>/dev/null || [ $SECONDS -ge $end ]; then
      tail -n 30 "$dir/$part.log" >&2
      halt "$dir" broker KILL; halt "$dir" namesrv KILL
      die "the $part in $dir did not start"
    fi
    sleep 0.05
  done
}

launch() { # DIR: starts what does not run
  local dir=$1 port p PID CLASSES
  # A main of our own: see Broker.java.
  CLASSES=$("$HERE/../judges/compile.sh" rocketmq rocketmq)
  read -r port <"$dir/port"
  if ! running "$dir" namesrv; then
    ! taken "$port" || die "port $port is in use"
    spawn "$dir" namesrv 64m org.apache.rocketmq.namesrv.NamesrvStartup
    # First the one, then the other: a broker that finds no name server tries again after 10 s only.
    await "$dir" namesrv "$PID" taken "$port"
  fi
  if ! running "$dir" broker; then
    for p in $((port + 1)) $((port + 2)) $((port + 3)); do ! taken "$p" || die "port $p is in use"; done
    spawn "$dir" broker "${ROCKETMQ_HEAP:-192m}" Broker
    await "$dir" broker "$PID" taken $((port + 3))
  fi
  await "$dir" broker "$(<"$dir/broker.pid")" routable "$port"
  info "$dir"
}

info() { # DIR
  local port
  running "$1" namesrv || die "no name server runs in $1"
  running "$1" broker || die "no broker runs in $1"
  read -r port <"$1/port"
  echo "namesrv=127.0.0.1:$port broker=127.0.0.1:$((port + 3)) pid=$(<"$1/broker.pid") namesrv_pid=$(<"$1/namesrv.pid")"
}

start() { # DIR PORT OPTION...
  [ $# -ge 2 ] || usage
  local dir=$1 port=$2 extra= tls=disabled; shift 2
  while [ $# -gt 0 ]; do
    case $1 in
      # Without TLS neither makes a key, which takes a second.
      --tls) tls=permissive ;;
      --set) [ $# -ge 2 ] || usage; extra+=$2$'\n'; shift ;;
      *) usage ;;
    esac
    shift
  done
  mkdir -p "$dir"; dir=$(cd "$dir" && pwd)
  ! running "$dir" broker || die "a broker runs in $dir already"
  echo "$port" >"$dir/port"
  echo $tls >"$dir/tls"
  configure "$dir" "$port" "$extra"
  launch "$dir"
}

halt() { # DIR PART SIGNAL
  ! running "$1" "$2" || end_process "$1/$2.pid" "$3" 400
  rm -f "$1/$2.pid"
}

[ $# -ge 2 ] || usage
verb=$1; shift
if [ "$verb" != start ]; then
  dir=$(cd "$1" 2>/dev/null && pwd) || die "no directory $1"
  [ -f "$dir/broker.conf" ] || die "no broker was ever started in $dir"
  case ${2:-} in '') parts=(broker namesrv) ;; broker|namesrv) parts=("$2") ;; *) usage ;; esac
fi
case $verb in
  start) start "$@" ;;
  stop) for part in "${parts[@]}"; do halt "$dir" "$part" TERM; done ;;
  kill) for part in "${parts[@]}"; do halt "$dir" "$part" KILL; done ;;
  restart)
    for part in "${parts[@]}"; do halt "$dir" "$part" TERM; done
    launch "$dir" ;;
  info) info "$dir" ;;
  *) usage ;;
esac
