#!/bin/sh
# deps.sh - installs what is missing to build and test; says nothing when all is there.
#
#   scripts/deps.sh          compilers, Lua, cmocka, CUDA headers and ptxas, .venv
#   scripts/deps.sh demo     the above, and the model of `make demo-real`
#   scripts/deps.sh tools    the above, and clang-format and clang-tidy for check-all
#
# System packages come from Debian 12 (root or sudo), the rest from PyPI into .venv.
# Nothing is fetched that is there already, so a complete machine needs no network.
set -eu
cd "$(dirname "$0")/.."
want=${1:-}
venv=.venv

say() { echo "deps: $*" >&2; }
die() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# Does `clang -fsanitize` link?  The runtime is in a package of its own.
links() {
    echo 'int main(void) { return 0; }' |
        "$1" -x c - -fsanitize=address,undefined -o /dev/null >/dev/null 2>&1
}

missing=
lacks() { missing="$missing $*"; }
have gcc || lacks gcc libc6-dev
have g++ || lacks g++
have make || lacks make
have clang || lacks clang
have pkg-config || lacks pkg-config
{ have clang && links clang; } || lacks libclang-rt-dev
{ have pkg-config && pkg-config --exists lua5.4; } || lacks liblua5.4-dev
{ have pkg-config && pkg-config --exists cmocka; } || lacks libcmocka-dev
{ have python3 && python3 -c 'import venv, ensurepip' 2>/dev/null; } ||
    lacks python3 python3-venv
# Epilogues other than identity; Debian 12 has it among its security updates.
llvm=
[ -x /usr/bin/llvm-config-22 ] || [ -x /usr/lib/llvm-22/bin/llvm-config ] ||
    llvm=llvm-22-dev
if [ "$want" = tools ]; then
    have clang-format || lacks clang-format
    have clang-tidy || lacks clang-tidy
fi

# Without what is in $missing nothing can be built, without LLVM all but some epilogues.
no_way() {
    [ -z "$missing" ] || die "$*"
    say "$*"
    say "going on without $llvm: epilogues other than identity will be refused"
}

install_packages() {
    if ! have apt-get; then
        no_way "missing:$missing $llvm. This is not Debian or a relative of it: install" \
            "what corresponds to these Debian 12 packages, then run make again."
        return
    fi
    if [ "$(id -u)" = 0 ]; then
        as_root=
    elif have sudo; then
        as_root=sudo
    else
        no_way "missing:$missing $llvm. Run as root: apt-get install$missing $llvm"
        return
    fi
    log=$(mktemp)
    say "installing$missing $llvm"
    # shellcheck disable=SC2086
    if ! { $as_root apt-get update -q &&
        DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -q \
            --no-install-recommends $missing $llvm; } >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        # Perhaps for LLVM's sake, which only Debian 12's security updates have.
        # shellcheck disable=SC2086
        if [ -n "$missing" ] && [ -n "$llvm" ] &&
            DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -q \
                --no-install-recommends $missing >"$log" 2>&1; then
            missing=
        fi
        no_way "apt-get could not install$missing $llvm"
    fi
    rm -f "$log"
}

[ -z "$missing$llvm" ] || install_packages

# The environment is made anew when its interpreter has gone.
if ! "$venv/bin/python" -c 'import pip' >/dev/null 2>&1; then
    say "making $venv"
    rm -rf "$venv"
    python3 -m venv "$venv" || die "python3 -m venv $venv failed"
fi

# A requirements file is installed once; its copy in the environment is the proof.
install() {
    proof=$venv/installed-$(basename "$1")
    cmp -s "$1" "$proof" && return
    say "installing $1 into $venv"
    shift_file=$1
    shift
    "$venv/bin/python" -m pip install -q --disable-pip-version-check "$@" \
        -r "$shift_file" || die "pip could not install $shift_file"
    cp "$shift_file" "$proof"
}
install python/requirements.txt

cuda_in() { [ -e "$1/include/cuda.h" ] && [ -x "$1/bin/ptxas" ]; }
cuda_in "${CUDA_HOME:-/usr/local/cuda}" || cuda_in /usr/local/cuda ||
    install python/requirements-cuda.txt --no-deps

# Without its dependencies: the weights are read from the package, torch is not needed.
[ "$want" != demo ] || install python/requirements-demo.txt --no-deps
