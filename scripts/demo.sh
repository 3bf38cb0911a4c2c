#!/bin/sh
# demo.sh - what `make demo` shows: generate, look, run, check.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build/demo
show() { echo; echo "\$ $*"; "$@"; }

show bin/gen --tile 128x256 -o build/demo/kernel.ptx
show bin/gen plan --tile 128x256
# On a GPU that can run the target, else on the emulator; it says which.
show bin/gen run build/demo/kernel.ptx -m 1024 -n 1024 -k 1024 --check
