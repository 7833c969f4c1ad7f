#!/usr/bin/env bash
# compile.sh NAME SERVER: compiles the Java sources of judges/NAME against the jars of SERVER (see
# servers/fetch.sh), once per state of the sources, and prints the folder of the classes, in
# ${HEADWATER_CACHE:-$HOME/.cache/headwater}/judges. Several calls at once are safe.
set -euo pipefail
umask 022
export LC_ALL=C

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=${HEADWATER_CACHE:-$HOME/.cache/headwater}
name=$1 server=$2

for tool in java javac; do
  command -v "$tool" >/dev/null ||
    { echo "compile.sh: no $tool; install a JDK, 17 or later (on Debian: default-jdk-headless)" >&2; exit 1; }
done
"$HERE/../servers/fetch.sh" "$server" >/dev/null
sources=("$HERE"/common/*.java "$HERE/$name"/*.java)
resources=("$HERE/$name"/*.xml)
[ -e "${resources[0]}" ] || resources=()
read -r hash _ < <(cat "${sources[@]}" "${resources[@]}" "$CACHE/servers/$server/.complete" <(readlink -f "$(command -v javac)") | sha256sum)
classes=$CACHE/judges/$name-${hash:0:16}
if [ ! -d "$classes" ]; then
  mkdir -p "$CACHE/judges"
  stage=$(mktemp -d "$CACHE/judges/.stage.XXXXXX")
  chmod 755 "$stage"
  javac -nowarn -Xlint:none -XDsuppressNotes -proc:none -encoding UTF-8 -cp "$CACHE/servers/$server/jars/*" -d "$stage" "${sources[@]}" >&2 ||
    { rm -rf "$stage"; exit 1; }
  [ ${#resources[@]} = 0 ] || cp "${resources[@]}" "$stage"
  # Who comes second finds it done.
  mv -T "$stage" "$classes" 2>/dev/null || rm -rf "$stage"
fi
echo "$classes"
