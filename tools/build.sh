#!/usr/bin/env bash
# Builds the library and the command into build/release, and says so in a few lines.
#   tools/build.sh [TARGET...]   all of it, or only these targets of CMake, such as neap
#   PREFIX   where `make install` will install; /usr/local by default
# On a terminal one line shows the progress; elsewhere there is a line at the start and one at the end. Nothing is
# printed if nothing is to be done. What fails is printed in full.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=build/release
mkdir -p "$build"
log=$(mktemp)
trap 'rm -f "$log"' EXIT

terminal=false
if [ -t 1 ] && [ "${TERM:-dumb}" != dumb ]; then
    terminal=true
fi

# Steps that ninja has done in this folder so far; each run of it looks for new files, which is none.
steps_done() {
    grep -cv 'cmake\.verify_globs' "$build/.ninja_log" 2>/dev/null || true
}

# Reads what ninja says. Shows lines of its progress, which begin with a tab, as one; passes on all others.
show_progress() {
    local line width=$(($(tput cols 2>/dev/null || echo 80) - 1))
    while IFS= read -r line; do
        case $line in
            $'\t'*Re-checking* | 'ninja: Entering'* | 'ninja: no work'*) ;;
            $'\t'*)
                line=${line#$'\t'}
                line="build: ${line/Building C object CMakeFiles\/*.dir\//}"
                ! $terminal || printf '\r%s\033[K' "${line:0:width}"
                ;;
            *)
                ! $terminal || printf '\r\033[K'
                printf '%s\n' "$line"
                ;;
        esac
    done
    ! $terminal || printf '\r\033[K'
}

first=false
if [ ! -e "$build/.ninja_log" ]; then
    first=true
    echo "build: configuring"
fi
if ! cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_INSTALL_PREFIX="${PREFIX:-/usr/local}" -DNEAP_WERROR=ON >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi
if $first; then
    echo "build: compiling $(ninja -C "$build" -t commands "${@:-all}" | wc -l) files on $(nproc) processors"
fi
before=$(steps_done)
begin=$SECONDS
NINJA_STATUS=$'\t%f of %t  ' ninja -C "$build" "$@" 2>&1 | show_progress
after=$(steps_done)
[ "$before" = "$after" ] || echo "build: done in $((SECONDS - begin)) s"
