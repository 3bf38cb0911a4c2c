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


def emulated_s(m, n, k, env=None, tile="128x256"):
    """Seconds of the launch, as `gen run` states them."""
    _, out = run(GEN, "run", "--tile", tile, "-m", m, "-n", n, "-k", k,
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
    for checks, name in (("off", "unchecked"), ("default", "checked")):
        seconds = emulated_s(4096, 4096, 4096, {"FP4EMU_CHECK": checks})
        rows[f"4096 x 4096 x 4096 emulated, {name}, s"] = seconds
        rows[f"the same, {name}, 10^9 FP4 multiply-adds a second"] = 4096 ** 3 / seconds / 1e9
    rows["one tile of 128x128, K = 512, checked, ms"] = 1e3 * min(
        emulated_s(128, 128, 512, tile="128x128") for _ in range(5))
    rows["the same as a whole `gen run`, ms"] = 1e3 * best(
        5, GEN, "run", "--tile", "128x128", "-m", 128, "-n", 128, "-k", 512, "--driver", "emu")
    _, out = run(ROOT / "build/release/bench/emu_rate")
    for line in out.splitlines():
        name, rate = line.split()
        rows[f"10^6 warp instructions a second, {name.replace('_', ' ')}"] = float(rate) / 1e6


def schedules(rows):
    """`gen check` of one kernel: runs a second, two processes."""
    seconds, out = run(GEN, "check", "--tile", "128x128", "--seeds", 32)
    rows["schedules a second, `gen check --tile 128x128`"] = int(
        re.search(r"(\d+) schedules", out).group(1)) / seconds


def main():
    rows = {}
    generator(rows)
    emulator(rows)
    schedules(rows)
    width = max(map(len, rows))
    for name, value in rows.items():
        print(f"{name:{width}}  {value:12.2f}")
    results = {"cpu": cpu_name(), "cores": os.cpu_count(), "rows": rows}
    (ROOT / "bench/results.json").write_text(json.dumps(results, indent=2) + "\n")
    print(f"on {results['cpu']}, {results['cores']} cores")


if __name__ == "__main__":
    main()
