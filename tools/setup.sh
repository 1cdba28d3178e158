#!/usr/bin/env bash
# Installs what building (`build`) or building and testing (`test`, the default) needs and the
# system lacks. Says nothing and returns at once when all of it is there.
set -euo pipefail

missing=()

# need PACKAGE command NAME | file PATH | module PKG_CONFIG_NAME
need() {
    case $2 in
        command) command -v "$3" >/dev/null || missing+=("$1") ;;
        file) [ -e "$3" ] || missing+=("$1") ;;
        module) pkg-config --exists "$3" 2>/dev/null || missing+=("$1") ;;
    esac
}

need_for_build() {
    need gcc command gcc
    need libc6-dev file /usr/include/stdio.h
    need cmake command cmake
    need ninja-build command ninja
    need pkg-config command pkg-config
}

need_for_test() {
    need_for_build
    need clang command clang
    need clang-format command clang-format
    need python3 command python3
    need libcmocka-dev module cmocka
}

case ${1:-test} in
    build) need_for_build ;;
    test) need_for_test ;;
    *)
        echo "usage: tools/setup.sh [build|test]" >&2
        exit 2
        ;;
esac
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "setup: please install (Debian's names): ${missing[*]}" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "setup: as root, please run: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
    if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >"$log" 2>&1; then
        cat "$log" >&2
        echo "setup: apt-get $1 failed; please install: ${missing[*]}" >&2
        exit 1
    fi
}
echo "setup: installing ${missing[*]}"
apt update
apt install -y --no-install-recommends "${missing[@]}"
