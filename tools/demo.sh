#!/usr/bin/env bash
# What a first visitor sees; `make demo` builds before it starts this.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build/release/neap --help
