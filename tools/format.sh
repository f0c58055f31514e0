#!/bin/sh
# format.sh [--fix] - clang-format 14 over every C file that git knows; --fix rewrites them.
set -eu

cd "$(dirname -- "$0")/.."
mode='--dry-run -Werror'
[ "${1:-}" != --fix ] || mode='-i'
list=$(mktemp)
trap 'rm -f "$list"' EXIT
# A release archive has no .git: there every file counts.
if git rev-parse --git-dir >/dev/null 2>&1; then
    git ls-files -- src include tests bench examples
else
    find src include tests bench examples -type f
fi | while read -r file; do
    case $file in
    *.c | *.h | *.cpp) [ ! -f "$file" ] || echo "$file" ;;
    esac
done >"$list"
if [ ! -s "$list" ]; then
    echo "format.sh: no C files found" >&2
    exit 1
fi
# shellcheck disable=SC2086
xargs clang-format-14 $mode <"$list"
echo "format.sh: $(wc -l <"$list") files"
