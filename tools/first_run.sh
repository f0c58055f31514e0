#!/bin/sh
# first_run.sh PROGRAM MODEL - what `make run` starts: a chat on a terminal, else one answer.
set -eu

if [ $# -ne 2 ]; then
    echo "usage: tools/first_run.sh PROGRAM MODEL" >&2
    exit 2
fi
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
program=$1
model=$2
sampling=

case $model in
models/tiny | models/tiny/)
    model=models/tiny/target-mlx8
    echo "A toy model that tells children's stories. A real one: make run MODEL=smollm2," \
        "or MODEL=/path/to/a/model."
    ;;
smollm2)
    "$here/fetch_models.sh" build/models smollm2
    model=build/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
    # The file does not say how its tokens are chosen; always the likeliest, it repeats itself.
    sampling='--temp 0.7 --top-p 0.9 --repetition-penalty 1.1'
    ;;
esac

# The words of $sampling are options, each its own.
if [ -t 0 ] && [ -t 1 ]; then
    # shellcheck disable=SC2086
    exec "$program" run "$model" $sampling
fi
# shellcheck disable=SC2086
exec "$program" run "$model" $sampling -n 200 -p 'Tell me a story about a fox called Mia.'
