"""Where NVIDIA's assembler is, for the runner, the tests and the benchmarks."""

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


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
