#!/bin/sh
# oracle.sh - writes the fixtures of the tests again, from reference implementations in Python, in a
# virtual environment with the packages that oracle/requirements.txt pins. Tests read only what is
# written here: this is for whoever changes a fixture, and `git diff` shows what became of it.
set -eu

cd "$(dirname -- "$0")/.."
python=build/oracle/bin/python3
if ! cmp -s tools/oracle/requirements.txt build/oracle/requirements.txt; then
    tools/deps.sh venv
    python3 -m venv --clear build/oracle
    "$python" -m pip install -q --disable-pip-version-check -r tools/oracle/requirements.txt
    cp tools/oracle/requirements.txt build/oracle/requirements.txt
fi

# The fixture changes only when its script has succeeded.
write() { # fixture, script, argument...
    fixture=$1
    script=$2
    shift 2
    echo "oracle.sh: $fixture"
    "$python" "tools/oracle/$script" "$@" >build/oracle/output
    cp build/oracle/output "$fixture"
}

write src/tensor/grids.c grids.py
write tests/tensor/encodings.txt encodings.py tools/oracle/mlx_affine_vectors.json
write tests/kv/affine.txt kv_affine.py tools/oracle/mlx_affine_vectors.json
write tests/kv/affine_groups.txt kv_affine_groups.py
write tests/vision/resize.txt resize.py
write tests/vision/images.txt images.py
write tests/convert/quantize.txt quantize.py
echo "oracle.sh: tests/chat/fixtures"
"$python" tools/oracle/templates.py tests/chat/fixtures
echo "oracle.sh: tests/tokenizer/fixtures"
"$python" tools/oracle/tokenizer.py tests/tokenizer/fixtures
echo "oracle.sh: tests/tokenizer/fixtures/kinds"
"$python" tools/oracle/kinds.py tests/tokenizer/fixtures/kinds 2>build/oracle/panics
write src/tokenizer/char_ranges.h char_ranges.py
