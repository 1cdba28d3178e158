#!/usr/bin/env bash
# Installs what building (`build`), building and testing (`test`, the default) or testing with PyTorch
# (`torch`) needs and the system lacks. Prints nothing and returns at once if nothing is missing.
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

# oneDNN 3 for the processor, on GNU's OpenMP; Debian 12 has release 2, which serves where there is no
# wheel. cmake/onednn.cmake has the folder's name too.
dnnl_folder=onednn-3.2
dnnl_version=2023.2.0
dnnl_library=sha256:2f22a54d6a890ed14bfa185d42a4be65d8b5b1df85dc1f0f3a9abe31620416fb
dnnl_headers=sha256:9763c69e8c907e119056bd52ad918ca84ac9ba939d130a99dfa95ccca3e5e284

# NVRTC, to compile the kernels for GPUs in a test; it needs no GPU. cmake/tests.cmake has the folder's
# name too.
nvrtc_folder=nvrtc-13.0
nvrtc_version=13.0.88
nvrtc_wheels=(
    sha256:ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575 # x86_64
    sha256:d27f20a0ca67a4bb34268a5e951033496c5b74870b868bacd046b1b8e0c3267b # aarch64
)

missing=()
fetch_highs=false
fetch_dnnl=false
fetch_nvrtc=false
want_browser=false

# need PACKAGE command NAME | file PATH | module PKG_CONFIG_NAME | pip | openmp COMPILER | python CODE
need() {
    case $2 in
        command) command -v "$3" >/dev/null || missing+=("$1") ;;
        file) [ -e "$3" ] || missing+=("$1") ;;
        module) pkg-config --exists "$3" 2>/dev/null || missing+=("$1") ;;
        pip) find_pip || missing+=("$1") ;;
        openmp) has_openmp "$3" || missing+=("$1") ;;
        python) python3 -c "$3" 2>/dev/null || missing+=("$1") ;;
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

has_nvrtc() {
    local file
    [ ! -d "$deps/$nvrtc_folder" ] || return 0
    ! command -v nvcc >/dev/null || return 0
    for file in /usr/local/cuda/lib64/libnvrtc.so.* "${CUDA_PATH:-/usr/local/cuda}"/lib64/libnvrtc.so.*; do
        [ ! -e "$file" ] || return 0
    done
    { ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | grep -q 'libnvrtc\.so\.1[23] '
}

need_for_build() {
    need gcc command gcc
    need libc6-dev file /usr/include/stdio.h
    need cmake command cmake
    need ninja-build command ninja
    need pkg-config command pkg-config
    need libpng-dev module libpng
    need libprotobuf-c-dev module libprotobuf-c
    need protobuf-c-compiler command protoc-c
    need libonnx-dev file /usr/include/onnx/onnx.proto
    if ! has_highs; then
        fetch_highs=true
        need python3-pip pip
    fi
    if [ "$(uname -m)" != x86_64 ]; then
        need libdnnl-dev file /usr/include/oneapi/dnnl/dnnl.h
    elif [ ! -d "$deps/$dnnl_folder" ]; then
        fetch_dnnl=true
        need python3-pip pip
    fi
}

need_for_test() {
    need_for_build
    need clang command clang
    need clang-format command clang-format
    need libomp-dev openmp clang
    need python3 command python3
    need libdnnl-dev file /usr/include/oneapi/dnnl/dnnl.h # both releases are compiled against
    need libcmocka-dev module cmocka
    need zsh command zsh # completion is tried in each shell
    need fish command fish
    need groff-base command groff # and manual pages are formatted
    if ! command -v chromedriver >/dev/null || ! { command -v chromium || command -v google-chrome; } >/dev/null; then
        want_browser=true
    fi
    case $(uname -m) in
        x86_64 | aarch64)
            if ! has_nvrtc; then
                fetch_nvrtc=true
                need python3-pip pip
            fi
            ;;
    esac
}

# PyTorch itself is installed by tools/test_torch.sh; it compiles C++ that includes Python's headers.
need_for_torch() {
    need_for_build
    need g++ command g++
    need python3-venv python 'import ensurepip'
    need python3-dev python 'import sysconfig; open(sysconfig.get_path("include") + "/Python.h")'
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
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
    echo "setup: installing ${missing[*]}" | fold -s -w 100
    apt update
    apt install -y --no-install-recommends "${missing[@]}"
}

# Without a browser the tests of reports are skipped.
install_browser() {
    local as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo -n)
    echo "setup: installing chromium chromium-driver"
    if ! { "${as_root[@]}" apt-get -qq -o DPkg::Lock::Timeout=300 update &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 \
            install -y --no-install-recommends chromium chromium-driver; } >"$log" 2>&1; then
        echo "setup: apt-get could not install chromium and chromium-driver: $(tail -n 1 "$log");" \
            "reports are not tested in a browser" >&2
    fi
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

# unpack FINAL STRIP FILES...: moves the wanted files of the fetched wheels to the folder FINAL, without
# the leading part STRIP of a name. The folder appears complete or not at all, whoever else is at it.
unpack() {
    "$python" - "$scratch" "${@:2}" <<'END'
import glob, os, sys, zipfile

scratch, strip, *wanted = sys.argv[1:]
found = {}
for path in glob.glob(scratch + "/*.whl"):
    wheel = zipfile.ZipFile(path)
    for entry in wheel.namelist():
        for name in wanted:
            if entry.endswith("/" + name):
                found[name] = wheel.read(entry)
for name in wanted:
    path = os.path.join(scratch, "wanted", name.removeprefix(strip))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(found[name])
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

# Headers and library are two wheels, unpacked into one folder.
unpack_dnnl() {
    local final=$deps/$dnnl_folder
    echo "setup: fetching oneDNN 3 into $final"
    if ! fetch_wheel onednn-devel-cpu-gomp "$dnnl_version" "$dnnl_headers"; then
        say_no_dnnl onednn-devel-cpu-gomp
        return
    fi
    local headers=$scratch
    if ! fetch_wheel onednn-cpu-gomp "$dnnl_version" "$dnnl_library"; then
        rm -rf "$headers"
        say_no_dnnl onednn-cpu-gomp
        return
    fi
    mv "$headers"/*.whl "$scratch"
    rm -rf "$headers"
    unpack "$final" share/doc/onednn/ lib/libdnnl.so.3 share/doc/onednn/LICENSE \
        include/oneapi/dnnl/dnnl{,_common,_common_types,_config,_types,_version}.h
}

# The system's oneDNN serves, then.
say_no_dnnl() {
    rm -rf "$scratch"
    echo "setup: pip could not fetch $1 $dnnl_version: $(why_not); the system's oneDNN serves" >&2
    missing=()
    need libdnnl-dev file /usr/include/oneapi/dnnl/dnnl.h
    [ ${#missing[@]} -eq 0 ] || install_missing
}

# Without it the test of kernels is skipped.
unpack_nvrtc() {
    local final=$deps/$nvrtc_folder
    echo "setup: fetching NVRTC into $final"
    if ! fetch_wheel nvidia-cuda-nvrtc "$nvrtc_version" "${nvrtc_wheels[@]}"; then
        rm -rf "$scratch"
        echo "setup: pip could not fetch nvidia-cuda-nvrtc $nvrtc_version: $(why_not); kernels for" \
            "GPUs are not compiled in tests" >&2
        return
    fi
    unpack "$final" licenses/ lib/libnvrtc.so.13 lib/libnvrtc-builtins.so.13.0 licenses/License.txt
}

case ${1:-test} in
    build) need_for_build ;;
    test) need_for_test ;;
    torch) need_for_torch ;;
    *)
        echo "usage: tools/setup.sh [build|test|torch]" >&2
        exit 2
        ;;
esac
[ ${#missing[@]} -gt 0 ] || $fetch_highs || $fetch_dnnl || $fetch_nvrtc || $want_browser || exit 0

log=$(mktemp)
scratch=
trap 'rm -rf "$log" "$scratch"' EXIT
[ ${#missing[@]} -eq 0 ] || install_missing
if $fetch_highs || $fetch_dnnl || $fetch_nvrtc; then
    find_pip || { echo "setup: no python3 with pip" >&2; exit 1; }
fi
if $fetch_highs && ! has_highs; then # pkg-config may have come just now
    unpack_highs
fi
if $fetch_dnnl; then
    unpack_dnnl
fi
if $fetch_nvrtc; then
    unpack_nvrtc
fi
if $want_browser; then
    install_browser
fi
