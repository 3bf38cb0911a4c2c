"""What the Python tests share: where the build under test is, and how to call gen."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from toolchain import ROOT, find_ptxas

BIN = Path(os.environ.get("FP4GEN_BIN", ROOT / "bin"))
SANITIZED = os.environ.get("FP4GEN_SAN") == "1"
ALL = os.environ.get("FP4GEN_TEST_ALL") == "1"  # make check-all


def gen(*args, env=None, timeout=120):
    """Runs the gen under test; (exit code, stdout, stderr)."""
    done = subprocess.run([str(BIN / "gen"), *map(str, args)], cwd=ROOT, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout,
                          env=dict(os.environ, **(env or {})), check=False)
    return done.returncode, done.stdout, done.stderr


def with_manifest(ptx):
    """The text with its manifest's constant made anew from its comment."""
    manifest = "".join(line[3:] for line in re.search(
        r"(?ms)^// fp4gen-manifest \d+\n.*?^// end-manifest\n", ptx)[0].splitlines(True))
    return re.sub(r"fp4gen_manifest\[\d+\] = \{[^}]*\}",
                  f"fp4gen_manifest[{len(manifest)}] = "
                  "{" + ",".join(str(b) for b in manifest.encode()) + "}", ptx)


@pytest.fixture(scope="session")
def ptxas():
    path = find_ptxas()
    if path is None:
        pytest.skip("no ptxas: run make deps")
    return path
