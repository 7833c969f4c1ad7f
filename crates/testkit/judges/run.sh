#!/usr/bin/env bash
# Runs a judge: a small Java program around somebody else's decoder or client.
#
#   run.sh dts       Alibaba's DTS SDK decodes Avro datums
#   run.sh flink     Flink's canal-json and debezium-json formats decode messages
#   run.sh canal     the Canal server itself reads a binlog
#   run.sh rocketmq  RocketMQ's client makes, fills and reads topics
#   run.sh keyspaces-kcl  Amazon's adapter for the Kinesis Client Library reads a change stream
#
# A request is lines on standard input and an empty line; so is the answer, on standard output. The
# head of each NAME/*.java tells its requests. The judge ends when its input ends.
# Its libraries come by servers/fetch.sh, its classes by compile.sh. JUDGE_HEAP overrides the heap's
# size.
set -euo pipefail
umask 022
export LC_ALL=C

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=${HEADWATER_CACHE:-$HOME/.cache/headwater}

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }

[ $# = 1 ] || usage
name=$1 heap=256m options=()
case $name in
  # Its time zones reach into the JDK.
  dts) server=dts-judge class=DtsJudge
    options=(--add-exports=java.base/sun.util.calendar=ALL-UNNAMED) ;;
  flink) server=flink-judge class=FlinkJudge ;;
  canal) server=canal-server class=CanalJudge heap=512m ;;
  # Nothing of its goes to the home folder.
  rocketmq) server=rocketmq class=RocketmqJudge
    options=(-Duser.home="$CACHE/judges") ;;
  keyspaces-kcl) server=kcl-judge class=KclJudge heap=512m ;;
  *) usage ;;
esac
classes=$("$HERE/compile.sh" "$name" "$server")
exec java -Xmx"${JUDGE_HEAP:-$heap}" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Duser.timezone=UTC -Dfile.encoding=UTF-8 \
  "${options[@]}" -cp "$classes:$CACHE/servers/$server/jars/*" "$class"
