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

# Headers of oneDNN 3, to see that the backend compiles against them; the system has release 2.
dnnl3_version=2024.2.1
dnnl3_wheels=(sha256:063d42c2fb14c0c21d3425029557ca8d4dd258d57eee36e3e890ac9058647001)

missing=()
fetch_highs=false
fetch_dnnl3=false

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
    if [ ! -d "$deps/onednn-headers-$dnnl3_version" ]; then
        fetch_dnnl3=true
        need python3-pip pip
    fi
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

# fetch_wheel PROJECT VERSION HASHES...: leaves the wheel in a new folder $scratch below $deps. False,
# with the reason in $log, where that fails.
fetch_wheel() {
    local project=$1 version=$2
    shift 2
    mkdir -p "$deps"
    scratch=$(mktemp -d "$deps/.$project.XXXXXX")
    echo "$project==$version ${*/#/--hash=}" >"$scratch/requirements"
    "$python" -m pip download --quiet --disable-pip-version-check --retries 2 --no-deps \
        --only-binary=:all: --require-hashes --requirement "$scratch/requirements" \
        --dest "$scratch" >"$log" 2>&1
}

why_not() {
    grep -m 1 ERROR "$log" || tail -n 1 "$log"
}

# unpack FINAL STRIP FILES...: moves what of the fetched wheel is wanted to the folder FINAL, without
# the leading part STRIP of a name. The first file says where in the wheel they are. The folder
# appears complete or not at all, whoever else is at it.
unpack() {
    "$python" - "$scratch"/*.whl "$scratch/wanted" "${@:2}" <<'END'
import os, sys, zipfile

path, folder, strip, *wanted = sys.argv[1:]
with zipfile.ZipFile(path) as wheel:
    (top,) = [n[: -len(wanted[0])] for n in wheel.namelist() if n.endswith("/" + wanted[0])]
    for name in wanted:
        path = os.path.join(folder, name.removeprefix(strip))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(wheel.read(top + name))
END
    mv -T "$scratch/wanted" "$1" 2>/dev/null || [ -d "$1" ]
    rm -rf "$scratch"
}

# What of the wheel highsbox a C program needs.
unpack_highs() {
    local final=$deps/highs-$highs_version
    echo "setup: fetching HiGHS $highs_version into $final"
    if ! fetch_wheel highsbox "$highs_version" "${highs_wheels[@]}"; then
        echo "setup: no HiGHS, and pip could not fetch highsbox $highs_version:" \
            "$(why_not); see docs/dependencies.md" >&2
        exit 1
    fi
    unpack "$final" share/doc/HIGHS/ lib/libhighs.so include/highs/HConfig.h \
        include/highs/interfaces/highs_c_api.h include/highs/lp_data/HighsCallbackStruct.h \
        include/highs/util/HighsInt.h share/doc/HIGHS/LICENSE.txt
}

# The tests do without, if they must: one check less.
unpack_dnnl3() {
    local final=$deps/onednn-headers-$dnnl3_version
    echo "setup: fetching the headers of oneDNN 3 into $final"
    if ! fetch_wheel onednn-devel "$dnnl3_version" "${dnnl3_wheels[@]}"; then
        echo "setup: pip could not fetch onednn-devel $dnnl3_version: $(why_not);" \
            "the tests will not compile against oneDNN 3" >&2
        return
    fi
    unpack "$final" share/doc/onednn/ include/oneapi/dnnl/dnnl.h \
        include/oneapi/dnnl/dnnl_{common,common_types,config,types,version}.h \
        share/doc/onednn/LICENSE
}

case ${1:-test} in
    build) need_for_build ;;
    test) need_for_test ;;
    *)
        echo "usage: tools/setup.sh [build|test]" >&2
        exit 2
        ;;
esac
[ ${#missing[@]} -gt 0 ] || $fetch_highs || $fetch_dnnl3 || exit 0

log=$(mktemp)
scratch=
trap 'rm -rf "$log" "$scratch"' EXIT
[ ${#missing[@]} -eq 0 ] || install_missing
if $fetch_highs || $fetch_dnnl3; then
    find_pip || { echo "setup: no python3 with pip" >&2; exit 1; }
fi
if $fetch_highs && ! has_highs; then # pkg-config may have come just now
    unpack_highs
fi
if $fetch_dnnl3; then
    unpack_dnnl3
fi
