#!/bin/sh
# tidy.sh BUILD - clang-tidy 14 over the product's sources that BUILD compiled (src, not tests) and
# over every header on its own: those reached only through a .def would go unseen otherwise.
# Fragments that one .c completes
# (vec_*.h, *_data.h) are seen from there. A finding is an error.
set -eu

if [ $# -ne 1 ] || [ ! -f "$1/compile_commands.json" ]; then
    echo "usage: tools/tidy.sh BUILD, a folder with compile_commands.json" >&2
    exit 2
fi
build=$(CDPATH='' cd -- "$1" && pwd)
cd "$(dirname -- "$0")/.."
list=$build/tidy.files
{
    sed -n "s|^ *\"file\": \"$PWD/\(.*\.c\)\",\{0,1\}\$|\1|p" "$build/compile_commands.json"
    find src include -name '*.h' ! -name 'vec_*.h' ! -name '*_data.h'
} | grep -E '^(src|include)/' | sort -u >"$list"
if [ ! -s "$list" ]; then
    echo "tidy.sh: no files found" >&2
    exit 1
fi
xargs -P "$(nproc)" -n 4 clang-tidy-14 --quiet -p "$build" <"$list" 2>"$build/tidy.log" || {
    grep -v -E '^[0-9]* ?warnings? |^Suppressed|^Use -header-filter|^Error while' "$build/tidy.log" >&2
    echo "tidy.sh: findings above" >&2
    exit 1
}
echo "tidy.sh: $(wc -l <"$list") files, no findings"
