#!/usr/bin/env bash
# Runs a judge: a small Java program around somebody else's decoder or client.
#
#   run.sh dts       Alibaba's DTS SDK decodes Avro datums
#   run.sh flink     Flink's canal-json and debezium-json formats decode messages
#   run.sh canal     the Canal server itself reads a binlog
#   run.sh rocketmq  RocketMQ's client makes, fills and reads topics
#
# A request is lines on standard input and an empty line; so is the answer, on standard output. The
# head of each NAME/*.java tells its requests. The judge ends when its input ends.
# Its libraries come by servers/fetch.sh; its classes are compiled once per state of the sources, into
# ${HEADWATER_CACHE:-$HOME/.cache/headwater}/judges. JUDGE_HEAP overrides the heap's size.
set -euo pipefail
umask 022
export LC_ALL=C

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=${HEADWATER_CACHE:-$HOME/.cache/headwater}

die() { printf 'judges/run.sh: %s\n' "$*" >&2; exit 1; }
usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }

[ $# = 1 ] || usage
name=$1 heap=256m options=()
case $name in
  # Its time zones reach into the JDK, and a TIMESTAMP is printed in the machine's zone.
  dts) server=dts-judge class=DtsJudge
    options=(--add-exports=java.base/sun.util.calendar=ALL-UNNAMED) ;;
  flink) server=flink-judge class=FlinkJudge ;;
  canal) server=canal-server class=CanalJudge heap=512m ;;
  rocketmq) server=rocketmq class=RocketmqJudge ;;
  *) usage ;;
esac
for tool in java javac; do
  command -v "$tool" >/dev/null || die "no $tool; install a JDK, 17 or later (on Debian: default-jdk-headless)"
done
"$HERE/../servers/fetch.sh" "$server" >/dev/null
jars=$CACHE/servers/$server/jars

sources=("$HERE"/common/*.java "$HERE/$name"/*.java)
read -r hash _ < <(cat "${sources[@]}" "$CACHE/servers/$server/.complete" <(readlink -f "$(command -v javac)") | sha256sum)
classes=$CACHE/judges/$name-${hash:0:16}
if [ ! -d "$classes" ]; then
  mkdir -p "$CACHE/judges"
  stage=$(mktemp -d "$CACHE/judges/.stage.XXXXXX")
  javac -nowarn -Xlint:none -proc:none -encoding UTF-8 -cp "$jars/*" -d "$stage" "${sources[@]}" >&2 || { rm -rf "$stage"; exit 1; }
  for f in "$HERE/$name"/*.xml; do [ ! -f "$f" ] || cp "$f" "$stage"; done
  # Who comes second finds it done.
  mv -T "$stage" "$classes" 2>/dev/null || rm -rf "$stage"
fi
exec java -Xmx"${JUDGE_HEAP:-$heap}" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Duser.timezone=UTC -Dfile.encoding=UTF-8 \
  "${options[@]}" -cp "$classes:$jars/*" "$class"
