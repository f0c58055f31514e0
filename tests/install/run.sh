#!/bin/sh
# run.sh header|pkgconfig|two_copies BUILD - installs BUILD into a folder of its own and builds
# programs against it as any user would: through pkg-config, with their own flags.
set -eu

test=$1
build=$(CDPATH='' cd -- "$2" && pwd)
source=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install "$build" --prefix "$prefix" >"$prefix/install.log"

libdir=$(dirname "$(find "$prefix" -name libweft.so | head -n 1)")
PKG_CONFIG_PATH=$libdir/pkgconfig
export PKG_CONFIG_PATH
compile_flags=$(pkg-config --cflags weft)
warnings='-Wall -Wextra -Wpedantic -Werror'

# The flags are several words each.
# shellcheck disable=SC2086,SC2046
case $test in
header)
    g++ -std=c++17 $warnings $compile_flags "$source/tests/install/header.cpp" \
        -o "$prefix/header" $(pkg-config --libs weft)
    LD_LIBRARY_PATH=$libdir "$prefix/header"
    ;;
pkgconfig)
    gcc -std=c17 $warnings $compile_flags "$source/examples/generate.c" -o "$prefix/generate" \
        $(pkg-config --libs weft)
    if [ -d "$source/models/tiny/draft" ]; then
        text=$(LD_LIBRARY_PATH=$libdir "$prefix/generate" "$source/models/tiny/draft" \
            'Once upon a time, there was a little' 24)
        echo "$text"
        [ -n "$text" ]
    fi
    ;;
two_copies)
    # By its path: -lweft would find the shared library.
    gcc -std=c17 $warnings $compile_flags "$source/tests/install/two_copies.c" -o "$prefix/two" \
        "$libdir/libweft.a" $(pkg-config --static --libs weft | sed 's/-lweft//')
    "$prefix/two"
    ;;
*)
    echo "run.sh: there is no test '$test'" >&2
    exit 2
    ;;
esac
