#!/bin/sh
# oracle.sh [NAME...] - runs the generators of fixtures, tools/oracle/NAME.py, all or those named, in a
# virtual environment with the pinned packages of tools/oracle/requirements.txt. The tests read only what
# they wrote; this is for whoever changes a fixture.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cd "$here/.."
python=build/oracle/bin/python3
if ! cmp -s "$here/oracle/requirements.txt" build/oracle/requirements.txt; then
    "$here/deps.sh" venv
    python3 -m venv --clear build/oracle
    "$python" -m pip install -q --disable-pip-version-check -r "$here/oracle/requirements.txt"
    cp "$here/oracle/requirements.txt" build/oracle/requirements.txt
fi
if [ $# -eq 0 ]; then
    for script in "$here"/oracle/*.py; do
        set -- "$@" "$(basename "$script" .py)"
    done
fi
for name in "$@"; do
    echo "oracle.sh: $name"
    "$python" "$here/oracle/$name.py"
done
