#!/usr/bin/env bash
# Installs a build, moves the tree, and uses it as others do: programs linked with the shared and the
# static library, found by pkg-config and by CMake. Also looks for paths of this machine in the files.
#   tools/check_install.sh BUILD
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(cd "$1" && pwd)
deps=${NEAP_DEPS_DIR:-$root/.deps}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

fail() {
    echo "check_install: $*"
    exit 1
}

# quietly COMMAND...: shows its output only if it fails.
quietly() {
    "$@" >"$scratch/log" 2>&1 || {
        cat "$scratch/log"
        fail "failed: $*"
    }
}

quietly cmake --install "$build" --prefix "$scratch/first"
mv first moved
prefix=$scratch/moved
libdir=$(dirname "$(find "$prefix" -name libneap.a)")
doc=$prefix/share/doc/neap

for path in "$root" "$build" "$deps" "$scratch/first"; do
    if found=$(grep -rlaE "(^|[^[:alnum:]_.)}/-])$path(/|$)" "$prefix"); then
        fail "$path is in:" $found
    fi
done
version=$("$prefix/bin/neap" --version | sed -n '1s/^neap //p')
soname=$(readelf -d "$libdir/libneap.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
case $version in
    0.*) expected=libneap.so.${version%.*} ;;
    *) expected=libneap.so.${version%%.*} ;;
esac
[ "$soname" = "$expected" ] || fail "version $version has the SONAME $soname, not $expected"
for file in man/man1/neap.1 man/man1/neap-plan.1 bash-completion/completions/neap zsh/site-functions/_neap \
    fish/vendor_completions.d/neap.fish; do
    [ -s "$prefix/share/$file" ] || fail "no share/$file"
done
[ -e "$doc/LICENSE" ] && [ -e "$doc/examples/train.c" ] || fail "no LICENSE or examples in $doc"
for cited in $(grep -rohE 'docs/[a-z-]+\.md' "$prefix/include" | sort -u); do
    [ -e "$doc/$cited" ] || fail "a header cites $cited, which is not installed"
done

# --- pkg-config ---
export PKG_CONFIG_PATH=$libdir/pkgconfig
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
cflags=$(pkg-config --cflags neap)
libs=$(pkg-config --libs neap)
static=$(pkg-config --static --libs neap)
quietly "$compiler" $cflags "$doc/examples/train.c" -o shared $libs "-Wl,-rpath,$libdir"
quietly "$compiler" $cflags "$doc/examples/train.c" -o static ${static/-lneap/-l:libneap.a}

# --- CMake ---
mkdir user
cat >user/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.22)
project(user C)
find_package(neap ${version%.*} REQUIRED)
add_executable(cmake_shared "$doc/examples/train.c")
target_link_libraries(cmake_shared neap::neap)
add_executable(cmake_static "$doc/examples/train.c")
target_link_libraries(cmake_static neap::neap_static)
END
quietly cmake -S user -B user -G Ninja "-DCMAKE_PREFIX_PATH=$prefix" "-DCMAKE_C_COMPILER=$compiler"
quietly cmake --build user

for program in shared static user/cmake_shared user/cmake_static; do
    case $program in
        *shared) linked=yes ;;
        *) linked=no ;;
    esac
    readelf -d "$program" | grep -q "NEEDED.*\[$soname\]" && needs=yes || needs=no
    [ $needs = $linked ] || fail "$program: linked with $soname: $needs"
    ! ldd "$program" | grep 'not found' || fail "$program does not find its libraries"
done
quietly ./user/cmake_shared # the test programs run the static library
echo "check_install: a moved tree links, shared and static, by pkg-config and CMake, and runs"
