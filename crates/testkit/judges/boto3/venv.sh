#!/bin/sh
# Makes a Python environment with boto3 in the cache, once, and prints the path of its interpreter.
set -eu
cache="${HEADWATER_CACHE:-$HOME/.cache/headwater}"
version=1.44.8
dir="$cache/boto3-$version"
if [ ! -x "$dir/bin/python" ] || [ ! -e "$dir/ready" ]; then
    mkdir -p "$cache"
    exec 9>"$cache/boto3.lock"
    flock 9
    if [ ! -e "$dir/ready" ]; then
        rm -rf "$dir"
        python3 -m venv "$dir" >&2
        "$dir/bin/pip" install --quiet --disable-pip-version-check "boto3==$version" >&2
        touch "$dir/ready"
    fi
fi
echo "$dir/bin/python"
