#!/usr/bin/env bash
# Are all .c and .h files formatted as .clang-format says, with comments of at most 100 columns?
#   tools/check_format.sh [--fix] [ROOT]
# --fix rewrites them instead; ROOT is the tree to look at, this repository if not given.
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mode=(--dry-run -Werror)
if [ "${1:-}" = --fix ]; then
    mode=(-i)
    shift
fi
cd "${1:-$repository}"

folders=()
for folder in include src cli tests examples bench python; do
    [ ! -d "$folder" ] || folders+=("$folder")
done
[ ${#folders[@]} -gt 0 ] || exit 0

find "${folders[@]}" -type f \( -name '*.c' -o -name '*.h' \) -print0 | sort -z |
    xargs -0 -r -P "$(nproc)" -n 40 clang-format "--style=file:$repository/.clang-format" "${mode[@]}"
python3 "$repository/tools/check_width.py" .
