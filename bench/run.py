"""make bench: how fast are the generator and the emulator?

Prints a table and writes bench/results.json.  Numbers belong to one machine; those in
docs/performance.md say which.
"""

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GEN = ROOT / "bin/gen"
sys.path.insert(0, str(ROOT / "tests"))
from conftest import find_ptxas  # noqa: E402


def run(*command, env=None):
    """(seconds, stdout) of a command that must succeed."""
    start = time.perf_counter()
    done = subprocess.run([str(c) for c in command], cwd=ROOT, text=True,
                          capture_output=True, stdin=subprocess.DEVNULL,
                          env=dict(os.environ, **(env or {})), check=False)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        sys.exit(f"bench: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return seconds, done.stdout


def best(times, *command, env=None):
    return min(run(*command, env=env)[0] for _ in range(times))


def cpu_name():
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    match = re.search(r"model name\s*: (.*)", text)
    return match.group(1) if match else platform.machine()


def generator(rows):
    _, out = run(ROOT / "build/release/bench/gen_rate", 3)
    rates = dict(line.split() for line in out.splitlines())
    rows["kernels a second, one core, --no-check"] = float(rates["unchecked"])
    rows["kernels a second, one core, checked"] = float(rates["checked"])
    rows["one cold gen, ms"] = 1e3 * best(10, GEN, "--tile", "128x256", "-o", os.devnull)
    ptxas = find_ptxas()
    if ptxas is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        ptx, cubin = Path(folder) / "k.ptx", Path(folder) / "k.cubin"
        emit = best(5, GEN, "--tile", "128x256", "-o", ptx)
        assemble = best(3, ptxas, "-arch=sm_100f", "-o", cubin, ptx)
        rows["config to assembled cubin, ms"] = 1e3 * (emit + assemble)


def mma_count(m, n, k, tile_n):
    return -(-m // 128) * -(-n // tile_n) * -(-k // 64)


def emulated_s(m, n, k, env=None):
    """Wall time of `gen run` on the emulator, less that of a nearly empty one: what
    remains is the launch."""
    def wall(mm, nn, kk):
        return run(GEN, "run", "--tile", "128x256", "-m", mm, "-n", nn, "-k", kk,
                   "--driver", "emu", env=env)
    seconds, out = wall(m, n, k)
    stated = re.search(r"([\d.]+) (ms|s)\b[^\n]*(?:launch|kernel|emulat)", out)
    return seconds, stated.group(0) if stated else ""


def emulator(rows):
    size = 1024
    for isa in ("scalar", "avx2", "avx512", "auto"):
        env = {"FP4EMU_ISA": isa, "FP4EMU_THREADS": "1"}
        try:
            full, _ = emulated_s(size, size, size, env)
            half, _ = emulated_s(size, size, size // 2, env)
        except SystemExit as refused:  # an instruction set that this CPU lacks
            print(f"  {isa}: {str(refused).splitlines()[-1]}", file=sys.stderr)
            continue
        mmas = mma_count(size, size, size, 256) - mma_count(size, size, size // 2, 256)
        rows[f"MMAs of 128x256x64 a second, one thread, {isa}"] = mmas / (full - half)
    seconds, _ = emulated_s(4096, 4096, 4096)
    rows["4096 x 4096 x 4096 emulated, data included, s"] = seconds
    rows["  the same in 10^9 multiply-adds a second"] = 4096 ** 3 / seconds / 1e9


def main():
    rows = {}
    generator(rows)
    emulator(rows)
    width = max(map(len, rows))
    for name, value in rows.items():
        print(f"{name:{width}}  {value:12.2f}")
    results = {"cpu": cpu_name(), "cores": os.cpu_count(), "rows": rows}
    (ROOT / "bench/results.json").write_text(json.dumps(results, indent=2) + "\n")
    print(f"on {results['cpu']}, {results['cores']} cores")


if __name__ == "__main__":
    main()
