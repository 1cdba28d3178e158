#!/usr/bin/env bash
# What a first visitor sees: a real network planned, compared, drawn, checked, and trained.
#   tools/demo.sh [NEAP]     the command to show; build/release/neap if not given
# `make demo` builds before it starts this. Files go to a folder that is removed at the end.
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
neap=${1:-$repository/build/release/neap}
if [ ! -x "$neap" ]; then
    echo "demo: no command $neap; build it with: make build" >&2
    exit 1
fi
neap=$(cd "$(dirname "$neap")" && pwd)/$(basename "$neap")

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

bold='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR+set}" ] && [ "${TERM:-dumb}" != dumb ]; then
    bold=$'\033[1m' plain=$'\033[0m'
fi

heading() {
    printf '\n%s== %s%s\n' "$bold" "$1" "$plain"
}

# Shows a command as a person would type it, then runs it.
show() {
    printf '$ neap %s\n' "$*"
    "$neap" "$@"
}

network=(resnet50 --batch 64)

heading "ResNet-50, a batch of 64 images, in 45% of the memory that training takes: some of the methods"
show compare "${network[@]}" --budget 45% --method neap,store-all,sqrt,greedy,hong,revolve,rotor,pareto

heading "The fastest plan, written to a file, and its memory over time"
show plan "${network[@]}" --budget 45% --chart -o plan.json

heading "Is that true? An independent judge replays the plan"
show check "${network[@]}" plan.json

heading "The same budget by moving activations to host memory and back, nothing computed twice"
show plan "${network[@]}" --budget 45% --link device --method offload

heading "A budget that cannot be met says what could"
show plan "${network[@]}" --budget 512MiB || true

heading "For real, on this machine: ResNet-18 trained in half the memory that it takes without a plan"
training=(resnet18 --batch 32 --image 64 --optimizer sgd --budget 50%)
show train "${training[@]}" --steps 5

heading "And the bits are those of training without the plan"
show train "${training[@]}" --steps 2 --verify
echo
