#!/bin/sh
# clients.sh - the server as its clients' own Python packages see it, in a virtual environment with
# what tests/server/requirements.txt pins: tests/server/test_clients.py.
#
#     tools/clients.sh build/release/weft
set -eu

weft=$(realpath -- "$1")
cd "$(dirname -- "$0")/.."
python=build/clients/bin/python3
pinned=tests/server/requirements.txt
if ! cmp -s "$pinned" build/clients/requirements.txt; then
    tools/deps.sh venv
    python3 -m venv --clear build/clients
    "$python" -m pip install -q --disable-pip-version-check -r "$pinned"
    cp "$pinned" build/clients/requirements.txt
fi
exec "$python" tests/server/test_clients.py "$weft" .
