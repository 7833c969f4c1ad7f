#!/usr/bin/env bash
# venv.sh boto3|moto: makes a Python environment with the package in the cache, once, and prints the path of its interpreter.
# moto stands in for DynamoDB, where the Kinesis Client Library keeps its leases. Several calls at once are safe.
set -euo pipefail
umask 022

CACHE=${HEADWATER_CACHE:-$HOME/.cache/headwater}
case ${1:-} in
  boto3) name=boto3-1.44.8 package=boto3==1.44.8 ;;
  moto) name=moto-5.2.5 package='moto[server]==5.2.5' ;;
  *) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
command -v python3 >/dev/null || { echo "venv.sh: no python3; on Debian: apt-get install python3 python3-venv" >&2; exit 1; }
dir=$CACHE/python/$name
mkdir -p "$CACHE/python"
(
  flock 9
  [ ! -e "$dir/.complete" ] || exit 0
  rm -rf "$dir"
  python3 -m venv "$dir" >&2
  "$dir/bin/pip" install --quiet --disable-pip-version-check "$package" >&2
  touch "$dir/.complete"
) 9>"$CACHE/python/.$name.lock"
echo "$dir/bin/python"
