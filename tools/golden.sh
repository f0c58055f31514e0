#!/bin/sh
# golden.sh - runs oracle/golden.py in a virtual environment of its own: PyTorch is large, and what the
# other oracles need does not come with it.
#
#     tools/golden.sh write NAME...             computes tests/golden/NAME again
#     tools/golden.sh describe FOLDER NAME...   a new one, like the checkpoint FOLDER/NAME
#     tools/golden.sh vary NAME NEW KEY=JSON... a new one, like NAME with other values in its config.json
#     tools/golden.sh check FOLDER NAME...      outputs in FOLDER/NAME against its weights
set -eu

cd "$(dirname -- "$0")/.."
venv=build/golden-oracle
if ! cmp -s tools/oracle/golden_requirements.txt $venv/requirements.txt; then
    tools/deps.sh venv
    python3 -m venv --clear $venv
    $venv/bin/python3 -m pip install -q --disable-pip-version-check -r tools/oracle/golden_requirements.txt
    cp tools/oracle/golden_requirements.txt $venv/requirements.txt
fi
exec $venv/bin/python3 tools/oracle/golden.py "$@"
