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
from toolchain import find_ptxas  # noqa: E402


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
    """Seconds of the launch, as `gen run` states them."""
    _, out = run(GEN, "run", "--tile", "128x256", "-m", m, "-n", n, "-k", k,
                 "--driver", "emu", env=env)
    return float(re.search(r"([\d.]+) s emulated", out).group(1))


def has_isa(isa):
    """Does the emulator run with these instructions here?"""
    done = subprocess.run([str(GEN), "run", "-m", "1", "-n", "8", "-k", "64", "--driver",
                           "emu"], cwd=ROOT, capture_output=True, check=False,
                          env=dict(os.environ, FP4EMU_ISA=isa))
    return done.returncode == 0


def emulator(rows):
    size = 1024
    for isa in filter(has_isa, ("scalar", "avx2", "avx512")):
        seconds = emulated_s(size, size, size, {"FP4EMU_ISA": isa, "FP4EMU_THREADS": "1"})
        rows[f"MMAs of 128x256x64 a second, one thread, {isa}"] = (
            mma_count(size, size, size, 256) / seconds)
    seconds = emulated_s(4096, 4096, 4096)
    rows["4096 x 4096 x 4096 emulated, s"] = seconds
    rows["the same, 10^9 multiply-adds a second"] = 4096 ** 3 / seconds / 1e9


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
