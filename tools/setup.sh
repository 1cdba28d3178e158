#!/usr/bin/env bash
# Installs what building (`build`) or building and testing (`test`, the default) needs and the
# system lacks. Says nothing and returns at once when all of it is there.
#   NEAP_DEPS_DIR   where to unpack what Debian does not have; .deps/ of the project by default.
#                   Several clones may share one folder.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps=${NEAP_DEPS_DIR:-$root/.deps}

# HiGHS: the oldest release of the system that will do (cmake/highs.cmake has both versions too),
# and the wheel that is unpacked where the system has none, with the hashes of what may be fetched.
highs_oldest=1.12
highs_version=1.15.1
highs_wheels=(
    sha256:17f30d23ef37488467732b45f141146f7c287826a576b4514ae39a8cc4068b28 # x86_64
    sha256:d1a3c1742d6fae36a3a18e0c7500530e46de5faa1a42dee65677bf0ae80acda3 # aarch64
)

missing=()
fetch_highs=false

# need PACKAGE command NAME | file PATH | module PKG_CONFIG_NAME | pip | openmp COMPILER
need() {
    case $2 in
        command) command -v "$3" >/dev/null || missing+=("$1") ;;
        file) [ -e "$3" ] || missing+=("$1") ;;
        module) pkg-config --exists "$3" 2>/dev/null || missing+=("$1") ;;
        pip) find_pip || missing+=("$1") ;;
        openmp) has_openmp "$3" || missing+=("$1") ;;
    esac
}

has_openmp() {
    echo '#include <omp.h>' | "$1" -fopenmp -x c -fsyntax-only - 2>/dev/null
}

# Sets `python` to one that has pip; the first on the path may be without.
find_pip() {
    for python in python3 /usr/bin/python3; do
        ! "$python" -c 'import pip' 2>/dev/null || return 0
    done
    return 1
}

has_highs() {
    [ ! -d "$deps/highs-$highs_version" ] || return 0
    pkg-config --atleast-version="$highs_oldest" highs 2>/dev/null &&
        [ -e "$(pkg-config --variable=libdir highs)/libhighs.so" ]
}

need_for_build() {
    need gcc command gcc
    need libc6-dev file /usr/include/stdio.h
    need cmake command cmake
    need ninja-build command ninja
    need pkg-config command pkg-config
    need libdnnl-dev file /usr/include/oneapi/dnnl/dnnl.h
    need libpng-dev module libpng
    if ! has_highs; then
        fetch_highs=true
        need python3-pip pip
    fi
}

need_for_test() {
    need_for_build
    need clang command clang
    need clang-format command clang-format
    need libomp-dev openmp clang
    need python3 command python3
    need libcmocka-dev module cmocka
}

install_missing() {
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
    echo "setup: installing ${missing[*]}"
    apt update
    apt install -y --no-install-recommends "${missing[@]}"
}

apt() {
    if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >"$log" 2>&1; then
        cat "$log" >&2
        echo "setup: apt-get $1 failed; please install: ${missing[*]}" >&2
        exit 1
    fi
}

# Leaves in $deps/highs-VERSION what of the wheel highsbox a C program needs. The folder appears
# complete or not at all, whoever else is at it.
unpack_highs() {
    local final=$deps/highs-$highs_version
    echo "setup: fetching HiGHS $highs_version into $final"
    mkdir -p "$deps"
    scratch=$(mktemp -d "$deps/.highs.XXXXXX")
    echo "highsbox==$highs_version ${highs_wheels[*]/#/--hash=}" >"$scratch/requirements"
    if ! "$python" -m pip download --quiet --disable-pip-version-check --retries 2 --no-deps \
        --only-binary=:all: --require-hashes --requirement "$scratch/requirements" \
        --dest "$scratch" >"$log" 2>&1; then
        echo "setup: no HiGHS, and pip could not fetch highsbox $highs_version:" \
            "$(grep -m 1 ERROR "$log" || tail -n 1 "$log"); see docs/dependencies.md" >&2
        exit 1
    fi
    "$python" - "$scratch"/*.whl "$scratch/highs" <<'END'
import os, sys, zipfile

wanted = (
    "lib/libhighs.so",
    "include/highs/HConfig.h",
    "include/highs/interfaces/highs_c_api.h",
    "include/highs/lp_data/HighsCallbackStruct.h",
    "include/highs/util/HighsInt.h",
    "share/doc/HIGHS/LICENSE.txt",
)
with zipfile.ZipFile(sys.argv[1]) as wheel:
    (top,) = [n[: -len(wanted[0])] for n in wheel.namelist() if n.endswith("/" + wanted[0])]
    for name in wanted:
        path = os.path.join(sys.argv[2], name.replace("share/doc/HIGHS/", ""))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(wheel.read(top + name))
END
    mv -T "$scratch/highs" "$final" 2>/dev/null || [ -d "$final" ]
}

case ${1:-test} in
    build) need_for_build ;;
    test) need_for_test ;;
    *)
        echo "usage: tools/setup.sh [build|test]" >&2
        exit 2
        ;;
esac
[ ${#missing[@]} -gt 0 ] || $fetch_highs || exit 0

log=$(mktemp)
scratch=
trap 'rm -rf "$log" "$scratch"' EXIT
[ ${#missing[@]} -eq 0 ] || install_missing
if $fetch_highs && ! has_highs; then # pkg-config may have come just now
    find_pip || { echo "setup: no python3 with pip" >&2; exit 1; }
    unpack_highs
fi
