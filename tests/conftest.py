"""What the Python tests share: where the build under test is, and how to call gen."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(os.environ.get("FP4GEN_BIN", ROOT / "bin"))
SANITIZED = os.environ.get("FP4GEN_SAN") == "1"


def find_ptxas():
    """As the Makefile finds the CUDA headers: toolkit first, then the environment."""
    for home in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        if home and os.access(Path(home) / "bin/ptxas", os.X_OK):
            return Path(home) / "bin/ptxas"
    found = sorted(ROOT.glob(".venv/lib/python3*/site-packages/nvidia/*/bin/ptxas"))
    if found:
        return found[0]
    on_path = shutil.which("ptxas")
    return Path(on_path) if on_path else None


def gen(*args, env=None, timeout=120):
    """Runs the gen under test; (exit code, stdout, stderr)."""
    done = subprocess.run([str(BIN / "gen"), *map(str, args)], cwd=ROOT, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout,
                          env=dict(os.environ, **(env or {})), check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="session")
def ptxas():
    path = find_ptxas()
    if path is None:
        pytest.skip("no ptxas: run make deps")
    return path
