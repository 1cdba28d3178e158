#!/usr/bin/env bash
# Makes a folder that tests and measures backend cuda on a machine with a GPU but without compilers: the
# command, the programs of bench/ and tests/ that its benches need, the libraries that they link, and the
# kernels compiled for the GPU. There, from a checkout: FOLDER/run bench/gpu_all
#   tools/gpu_bundle.sh [FOLDER [ARCHITECTURE]]   build/gpu-bundle and 90, compute capability 9.0, by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bundle=${1:-build/gpu-bundle}
architecture=${2:-90}
build=build/gpu

tools/setup.sh test
cmake -S . -B "$build" -G Ninja --log-level=WARNING -DCMAKE_BUILD_TYPE=RelWithDebInfo -DNEAP_BUILD_TESTS=ON \
    -DNEAP_BUILD_BENCH=ON -DNEAP_ONEDNN=OFF -DNEAP_PNG=OFF -DNEAP_ONNX=OFF
cmake --build "$build" --target neap bench_programs property-test_backends -- --quiet

rm -rf "$bundle"/cache # it may have kernels of older sources
mkdir -p "$bundle"/{bin/bench,bin/tests,lib}
cp "$build/neap" "$bundle/bin/"
cp "$build"/bench/{chain_stages,least_peak_set,worker} "$bundle/bin/bench/"
cp "$build/tests/property/test_backends" "$bundle/bin/tests/"
find "$bundle/bin" -type f -exec strip {} +
ldd "$build/neap" "$build/tests/property/test_backends" |
    awk '/libhighs|libcmocka/ { print $3 }' | sort -u | xargs -I{} cp -L {} "$bundle/lib/"
NEAP_CACHE_DIR=$bundle/cache "$build/bench/compile_kernels" "$architecture"

cat >"$bundle/run" <<'END'
#!/usr/bin/env bash
# Runs a command with what is in this folder.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} NEAP=$here/bin/neap
export NEAP_CACHE_DIR=$here/cache PYTHONUNBUFFERED=1
exec "$@"
END
chmod +x "$bundle/run"
du -sh "$bundle"
