"""NVIDIA's Python bindings of the driver API, unmodified, on the emulator: they look up
every function through cuGetProcAddress_v2."""

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import BIN, SANITIZED

pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")

PROGRAM = Path(__file__).with_name("cuda_bindings_program.py")


@pytest.mark.skipif(SANITIZED, reason="the library is sanitized")
@pytest.mark.parametrize("strategy", ["eager", "lazy"])
def test_program(strategy):
    done = subprocess.run([BIN / "gen-emu", "--strategy", strategy, "--quiet",
                           sys.executable, PROGRAM],
                          text=True, capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "done\n"
