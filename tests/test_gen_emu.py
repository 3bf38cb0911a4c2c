"""bin/gen-emu: finds its library from anywhere, maps options to variables, runs programs
that know nothing of the emulator."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from conftest import BIN, ROOT, SANITIZED

VARIABLES = ("DEVICE", "SEED", "STRATEGY", "CHECK", "REPORT", "QUIET", "ISA", "THREADS", "MMA",
             "CLUSTERS", "RECORD", "TRACE", "COVERAGE", "STEPS", "PRINT",
             "SMEM", "APPROX")
SHOW = "env | grep '^FP4EMU_' | sort"
# A program that knows only the driver API.
DRIVER_VERSION = ("import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); n = ctypes.c_int(); "
                  "assert cuda.cuInit(0) == 0; "
                  "assert cuda.cuDriverGetVersion(ctypes.byref(n)) == 0; print(n.value)")

# A library built with sanitizers cannot be loaded into programs that are not.
needs_plain_library = pytest.mark.skipif(SANITIZED, reason="the library is sanitized")


def run(*command, **env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("FP4EMU_")}
    return subprocess.run([str(c) for c in command], env=dict(clean, **env), text=True,
                          capture_output=True, timeout=60, check=False)


def gen_emu(*args, **env):
    return run(BIN / "gen-emu", *args, **env)


@pytest.fixture
def tree(tmp_path):
    """A tree as `make install` leaves it, with blanks in its path."""
    root = tmp_path / "a place"
    (root / "bin").mkdir(parents=True)
    (root / "lib/fp4gen/emu").mkdir(parents=True)
    shutil.copy(BIN / "gen-emu", root / "bin/gen-emu")
    shutil.copy(BIN.parent / "lib/emu/libcuda.so.1", root / "lib/fp4gen/emu")
    return root


def test_help():
    done = gen_emu("--help")
    assert done.returncode == 0 and done.stderr == ""
    for name in VARIABLES:
        assert f"FP4EMU_{name}" in done.stdout


@pytest.mark.parametrize("args", [[], ["--seed"], ["--seed", ""], ["--seed="], ["--sede", "1"],
                                  ["--sede=1", "true"], ["-x"], ["--quiet"]])
def test_misuse(args):
    done = gen_emu(*args)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("gen-emu: ") and done.stderr.count("\n") == 1


@needs_plain_library
def test_options_become_variables():
    done = gen_emu("--device", "sm_90", "--seed=7", "--strategy", "lazy", "--check=all",
                   "--report", "a file", "--quiet", "--isa=scalar", "--threads", "2",
                   "--mma=hardware", "--clusters", "3", "--record=r",
                   "--approx", "perturb", "--smem=declared", "sh", "-c", SHOW)
    assert done.stdout.splitlines() == [
        "FP4EMU_APPROX=perturb", "FP4EMU_CHECK=all", "FP4EMU_CLUSTERS=3", "FP4EMU_DEVICE=sm_90",
        "FP4EMU_ISA=scalar", "FP4EMU_MMA=hardware", "FP4EMU_QUIET=1", "FP4EMU_RECORD=r",
        "FP4EMU_REPORT=a file", "FP4EMU_SEED=7", "FP4EMU_SMEM=declared", "FP4EMU_STRATEGY=lazy",
        "FP4EMU_THREADS=2"]


@needs_plain_library
def test_command_keeps_its_arguments():
    done = gen_emu("--", "printf", "%s|", "--seed", "a b", "")
    assert done.stdout == "--seed|a b||"
    done = gen_emu("printf", "%s|", "--help")
    assert done.stdout == "--help|"


@needs_plain_library
def test_exit_status_is_the_command_s():
    assert gen_emu("sh", "-c", "exit 7").returncode == 7
    for missing in ("no-such-command-here", "./no/such/file"):
        done = gen_emu(missing)
        assert done.returncode == 127
        assert done.stderr == f"gen-emu: there is no command {missing}\n"


@needs_plain_library
def test_program_finds_the_emulator():
    done = gen_emu(sys.executable, "-c", DRIVER_VERSION)
    assert (done.returncode, done.stdout, done.stderr) == (0, "13020\n", "")


@needs_plain_library
def test_bad_value_is_told_once_by_the_driver():
    done = gen_emu("--strategy", "fast", sys.executable, "-c", DRIVER_VERSION)
    assert done.returncode != 0
    line = [l for l in done.stderr.splitlines() if "FP4EMU" in l]
    assert len(line) == 1
    assert '"fast"' in line[0] and "eager, lazy" in line[0]


@needs_plain_library
def test_installed_tree_and_symbolic_links(tree, tmp_path):
    link = tmp_path / "elsewhere"
    link.symlink_to("a place/bin/gen-emu")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/emu").symlink_to(link)
    for program in (tree / "bin/gen-emu", link, tmp_path / "bin/emu"):
        done = run(program, "--print-library")
        assert done.stdout == f"{tree}/lib/fp4gen/emu/libcuda.so.1\n"
        done = run(program, sys.executable, "-c", DRIVER_VERSION)
        assert (done.stdout, done.stderr) == ("13020\n", "")
    done = run("emu", "--print-library", PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    assert done.stdout == f"{tree}/lib/fp4gen/emu/libcuda.so.1\n"


@needs_plain_library
def test_settings_of_the_caller_stay():
    done = gen_emu("sh", "-c", 'echo "$LD_LIBRARY_PATH"', LD_LIBRARY_PATH="/opt/x")
    assert done.stdout.endswith(":/opt/x\n")


def test_library_that_is_not_built(tree):
    (tree / "lib/fp4gen/emu/libcuda.so.1").unlink()
    done = run(tree / "bin/gen-emu", "true")
    assert done.returncode == 1
    assert "not built" in done.stderr and done.stderr.count("\n") == 1
    assert run(tree / "bin/gen-emu", "--help").returncode == 0


def test_path_with_a_colon(tree, tmp_path):
    odd = tmp_path / "a:b"
    tree.rename(odd)
    done = run(odd / "bin/gen-emu", "true")
    assert done.returncode == 1
    assert "colon" in done.stderr


def test_readme_has_the_table_of_variables():
    source = re.sub(r'"\n\s*"', "", (ROOT / "emu/env.c").read_text(encoding="utf-8"))
    rows = re.findall(r'\{"(FP4EMU_[A-Z]+)",\s*"([^"]+)",\s*"([^"]+)",', source)
    assert len(rows) == len(VARIABLES)
    readme = (ROOT / "emu/README.md").read_text(encoding="utf-8").replace("`", "")
    for name, allowed, normal in rows:
        assert f"| {name} | {allowed} | {normal} |" in readme, name


# A program that fails with one seed, and one that only leaves a report.
FAILS_AT_7 = 'test "$FP4EMU_SEED" != 7'
REPORTS_AT_7 = 'test "$FP4EMU_SEED" != 7 || echo "error in kernel x" >>"$FP4EMU_REPORT"'


@needs_plain_library
@pytest.mark.parametrize("program", [FAILS_AT_7, REPORTS_AT_7])
def test_seeds_are_tried_until_the_first_fault(program):
    done = gen_emu("--schedule-seed", "3..9", "sh", "-c", f'echo "$FP4EMU_SEED"; {program}')
    assert done.returncode == 1
    assert done.stdout.split() == ["3", "4", "5", "6", "7"]
    assert "FP4EMU_STRATEGY=random FP4EMU_SEED=7" in done.stderr
    assert ("error in kernel x" in done.stderr) == (program == REPORTS_AT_7)


@needs_plain_library
def test_seeds_without_a_fault():
    done = gen_emu("--strategy", "pct:2", "--schedule-seed=1..3", "sh", "-c",
                   'echo "$FP4EMU_STRATEGY"')
    assert (done.returncode, done.stdout.split()) == (0, ["pct:2"] * 3)
    assert "no fault" in done.stderr


@pytest.mark.parametrize("seeds", ["5", "a..b", "9..3", "..", "1.."])
def test_bad_seeds(seeds):
    done = gen_emu("--schedule-seed", seeds, "true")
    assert done.returncode == 2
    assert done.stderr.startswith("gen-emu: ") and done.stderr.count("\n") == 1
