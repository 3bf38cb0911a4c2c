"""Every kernel that `gen list --matrix` names: does NVIDIA's assembler take it without
spilling, and does it compute?  The registers go to build/<variant>/registers.txt."""

import os
import re
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import BIN, ROOT, SANITIZED, gen
from toolchain import find_ptxas

WORKERS = min(2, os.cpu_count() or 1)
# Two row blocks, tails in m, n and k, two steps of k.
SHAPE = ("-m", 129, "-n", 136, "-k", 272)


def matrix():
    if not (BIN / "gen").exists():
        return []
    code, out, err = gen("list", "--matrix")
    assert code == 0, err
    return out.splitlines()


LINES = matrix()


def assemble(line, ptx_text, folder, number):
    """(complaint or None, registers) of ptxas."""
    ptx = folder / f"{number}.ptx"
    ptx.write_text(ptx_text)
    target = re.search(r"^\.target\s+(\w+)", ptx_text, re.M).group(1)
    done = subprocess.run([str(find_ptxas()), "-v", f"-arch={target}", "-o",
                           str(folder / f"{number}.cubin"), str(ptx)],
                          text=True, capture_output=True, timeout=300, check=False)
    log = done.stdout + done.stderr
    if done.returncode != 0:
        return f"{line}: ptxas refuses it:\n{log}", None
    used = re.search(r"Used (\d+) registers", log)
    spills = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, "
                       r"(\d+) bytes spill loads", log)
    if not used or not spills:
        return f"{line}: ptxas says nothing about registers:\n{log}", None
    if any(int(n) for n in spills.groups()):
        return f"{line}: spills: {spills.group(0)}", int(used.group(1))
    return None, int(used.group(1))


def one_line(args):
    number, line, folder = args
    words = shlex.split(line)
    code, ptx, err = gen(*words)
    if code != 0:
        return line, None, f"{line}: gen failed: {err}"
    registers, complaint = None, None
    if find_ptxas() and not SANITIZED:
        complaint, registers = assemble(line, ptx, folder, number)
    is_gemm = "--tile" in words
    if complaint is None and is_gemm and (number % 8 == 0 or not SANITIZED):
        code, out, err = gen("run", *words, *SHAPE, "--driver", "emu", "--check")
        if code != 0:
            complaint = f"{line}: gen run: {out}{err}"
    return line, registers, complaint


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("matrix")
    work = [(i, line, folder) for i, line in enumerate(LINES)]
    with ThreadPoolExecutor(WORKERS) as pool:
        rows = list(pool.map(one_line, work))
    if find_ptxas() and not SANITIZED:
        table = ROOT / os.environ.get("FP4GEN_BUILD", "build/release") / "registers.txt"
        table.write_text("".join(f"{registers or '-':>4}  {line}\n"
                                 for line, registers, _ in rows))
    return {line: complaint for line, _, complaint in rows}


def test_matrix_names_kernels():
    """All tiles, types, and the targets that can run them."""
    for word in ("128x64", "128x128", "128x192", "128x256", "bf16", "f32", "sm_100f",
                 "sm_100a", "sm_103a"):
        assert any(word in line for line in LINES), word


@pytest.mark.parametrize("line", LINES)
def test_assembles_and_computes(results, line):
    assert results[line] is None, results[line]


def test_ptxas_was_there(ptxas):
    """A run that could not ask the assembler says so as a skipped test."""
    assert ptxas.exists()
