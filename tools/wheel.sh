#!/usr/bin/env bash
# Builds the wheel of the Python package into build/wheel/, and plans with it in a new environment
# that has nothing else: no PATH, no checkout, no library of the system's.
#   PYTHON   an interpreter with venv, 3.10 or newer; python3 by default
# Everything that is needed comes from PyPI, the compiler included (docs/python.md).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${PYTHON:-python3}
wheels=$root/build/wheel
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset NEAP_LIBRARY PYTHONPATH

"$python" -m venv "$scratch/build"
"$scratch/build/bin/pip" install --quiet --disable-pip-version-check --upgrade pip auditwheel
rm -rf "$wheels"
NEAP_COMPILER=${NEAP_COMPILER:-zig} "$scratch/build/bin/pip" wheel --quiet --no-deps \
    --disable-pip-version-check --wheel-dir "$wheels" "$root/python"
wheel=$(echo "$wheels"/neap-*.whl)

"$scratch/build/bin/auditwheel" show "$wheel" >"$scratch/audit"
tag=${wheel##*-none-}
tag=${tag%.whl}
if ! tr '\n' ' ' <"$scratch/audit" | grep -q "consistent with the following platform tag: \"$tag\""; then
    cat "$scratch/audit" >&2
    echo "wheel: auditwheel does not confirm the tag $tag" >&2
    exit 1
fi

"$python" -m venv "$scratch/use"
"$scratch/use/bin/pip" install --quiet --disable-pip-version-check --no-index "$wheel"
cp "$root/tools/try_wheel.py" "$scratch/try_wheel.py"
(cd "$scratch" && env -i PATH= "$scratch/use/bin/python" -I try_wheel.py)
echo "${wheel#"$root"/}: $(stat -c %s "$wheel") bytes"
