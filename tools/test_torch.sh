#!/usr/bin/env bash
# Tests the Python package and its PyTorch bridge, in an environment of their own: PyTorch is gigabytes,
# so `make test` does without.
#   NEAP_TORCH_VERSION   the PyTorch to test with (2.9 or later)
#   NEAP_TORCH_ENV       where the environment is made, or reused if it is already there with the
#                        same versions; .torch-env/ of the project by default
#   NEAP_TEST_FULL=1     bit identity at 70, 50 and 35% for every model, and all layers of DenseNet-121
#   NEAP_TEST_JOBS       test processes at the same time; all cores by default
#   NEAP_LIBRARY         the libneap.so to test; built in build/release by default
# Arguments go to pytest: tools/test_torch.sh -k gpt2. The last line is "N passed, M failed"; the log of
# the installation is in the environment's folder.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
exec 2>&1

torch_version=${NEAP_TORCH_VERSION:-2.11.0}
environment=${NEAP_TORCH_ENV:-.torch-env}
jobs=${NEAP_TEST_JOBS:-$(nproc)}
started=$SECONDS

if ! [[ $torch_version =~ ^2\.(9|[1-9][0-9])(\.|$) ]]; then
    echo "NEAP_TORCH_VERSION: $torch_version; give 2.9 or later"
    exit 1
fi
vision=torchvision # the release that is built for that PyTorch
[ "$torch_version" != 2.11.0 ] || vision=torchvision==0.26.0
packages=("torch==$torch_version" "$vision" transformers==5.22.2 accelerate==1.15.0 lightning==2.6.6
    networkx==3.6.1 "numpy>=2,<3" onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.31.1 safetensors==0.8.0
    pytest==8.4.2 pytest-xdist==3.8.0)
installer=uv==0.13.7

die() {
    echo "test-torch: $*"
    exit 1
}

# Sets `python` to one that PyTorch is built for and that can make environments.
find_python() {
    for python in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.10 /usr/bin/python3; do
        "$python" -c 'import ensurepip, sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' \
            2>/dev/null && return 0
    done
    return 1
}

# The packages are installed by uv, which downloads and unpacks them side by side (25 s instead of 140),
# or by pip where uv does not work.
install() {
    local log=$environment/install.log
    "$python" -m venv --clear "$environment" || return 1
    if "$environment/bin/pip" install -q --disable-pip-version-check "$installer" >"$log" 2>&1 &&
        "$environment/bin/uv" pip install --python "$environment/bin/python" --native-tls \
            ${PIP_INDEX_URL:+--index-url "$PIP_INDEX_URL"} "${packages[@]}" >>"$log" 2>&1; then
        return 0
    fi
    "$environment/bin/pip" install -q --disable-pip-version-check "${packages[@]}" >>"$log" 2>&1 ||
        { cat "$log"; return 1; }
}

set_up() {
    local stamp=$environment/neap-packages wanted
    find_python || die "no Python 3.10 to 3.13 with venv found; on Debian: apt-get install python3-venv"
    wanted="$("$python" -V) ${packages[*]}"
    if [ -e "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && "$environment/bin/python" -c 'import torch'; then
        echo "reusing $environment: PyTorch $torch_version"
        return
    fi
    rm -f "$stamp"
    install || die "cannot install PyTorch $torch_version into $environment"
    echo "$wanted" >"$stamp"
    echo "installed PyTorch $torch_version into $environment: $((SECONDS - started)) s"
}

build_library() {
    local before=$SECONDS
    if [ -n "${NEAP_LIBRARY:-}" ]; then
        echo "testing $NEAP_LIBRARY"
        return
    fi
    NEAP_LIBRARY=$PWD/build/release/libneap.so
    make --no-print-directory build >"$environment/build.log" || { cat "$environment/build.log"; die "cannot build libneap"; }
    echo "built libneap: $((SECONDS - before)) s"
}

# A virtual machine may announce instructions for matrices (AMX) that it does not run. PyTorch's products of
# bf16 then end the process, without neap; the tests go on without these instructions.
limit_instructions() {
    local probe='import torch
with torch.autocast("cpu", torch.bfloat16):
    torch.nn.Linear(64, 64)(torch.ones(64, 64))'
    [ -z "${ONEDNN_MAX_CPU_ISA:-}" ] || return 0
    "$environment/bin/python" -c "$probe" 2>/dev/null && return 0
    export ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16
    echo "PyTorch's products of bf16 fail on this machine: ONEDNN_MAX_CPU_ISA=$ONEDNN_MAX_CPU_ISA"
}

# ONNX comes last: exporters keep tensors alive and silence loggers, and the tests of PyTorch count tensors
# and read messages.
run_pytest() {
    local before=$SECONDS status=0 log=$environment/pytest.log cache
    cache=$(mktemp -d)
    PYTHONPATH=python${PYTHONPATH:+:$PYTHONPATH} NEAP_LIBRARY=$NEAP_LIBRARY \
        NEAP_COMMAND=${NEAP_COMMAND:-$(dirname "$NEAP_LIBRARY")/neap} NEAP_CACHE_DIR=$cache OMP_NUM_THREADS=1 \
        "$environment/bin/python" -m pytest -q -p no:logging -p no:cacheprovider -n "$jobs" --dist loadgroup \
        --durations=15 --durations-min=10 python/tests/{core,torch,onnx} "$@" | tee "$log"
    status=${PIPESTATUS[0]}
    rm -rf "$cache"
    echo "ran pytest: $((SECONDS - before)) s"
    return "$status"
}

# count WORD: the number before it in pytest's summary line
count() {
    grep -oE "[0-9]+ $1" <<<"$summary" | grep -oE '[0-9]+' || echo 0
}

set_up
build_library
limit_instructions
run_pytest "$@"
status=$?
summary=$(tail -n 1 "$environment/pytest.log")
echo "test-torch took $((SECONDS - started)) s"
echo "$(count passed) passed, $(($(count failed) + $(count 'errors?'))) failed"
exit $status
