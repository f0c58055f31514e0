#!/bin/sh
# deps.sh [PRESET|page|venv] - installs the Debian packages that a preset needs and the machine lacks.
#
# Nothing missing: nothing happens, in a few hundredths of a second. Not Debian: nothing happens
# either, and cmake will name what it misses. Without the right to install, the line to run is printed.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
command -v dpkg-query >/dev/null 2>&1 || exit 0
command -v apt-get >/dev/null 2>&1 || exit 0

case ${1:-release} in
tidy | fuzz) groups='base clang' ;;
page) groups='base page' ;;
venv) groups='base venv' ;;
*) groups='base' ;;
esac

wanted=$(awk -v groups=" $groups " \
    '!/^#/ && NF == 2 && index(groups, " " $1 " ") { print $2 }' "$here/packages.txt")
# dpkg-query fails for a name it has never heard of: that package is missing like the others.
# shellcheck disable=SC2086,SC2016
installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' $wanted 2>/dev/null |
    awk '$2 == "installed" { print $1 }') || true
missing=
for package in $wanted; do
    case "
$installed
" in
    *"
$package
"*) ;;
    *) missing="$missing $package" ;;
    esac
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    root='env'
elif command -v sudo >/dev/null 2>&1 && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    root='sudo env'
else
    echo "deps.sh: packages are missing; as root, run:" >&2
    echo "    apt-get update && apt-get install -y --no-install-recommends$missing" >&2
    exit 1
fi
echo "deps.sh: installing$missing"
# shellcheck disable=SC2086
{
    $root apt-get -qq update &&
        $root DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $missing \
            </dev/null
} || {
    echo "deps.sh: apt-get failed; the build needs$missing" >&2
    exit 1
}
