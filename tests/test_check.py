"""`gen check`: right kernels pass under all schedules; planted faults end in a report and a
command that repeats it; random faults are made small."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import ALL, BIN, ROOT, SANITIZED, gen

TILE = ("--tile", "128x64x128", "--stages", "3")


@pytest.fixture(scope="module")
def kernel():
    code, ptx, err = gen(*TILE)
    assert code == 0, err
    return ptx


def without_wait(ptx, label):
    new, count = re.subn(rf"(\n{label}:\n)[^\n]*try_wait[^\n]*\n[^\n]*bra[^\n]*\n", r"\1", ptx)
    assert count == 1
    return new


def check(ptx, folder, *args, **kwargs):
    path = folder / "kernel.ptx"
    path.write_text(ptx)
    return gen("check", path, *args, **kwargs)


def repeat(out, line=1):
    """Runs the command that follows "again with"."""
    command = out.split("again with\n")[-1].strip().splitlines()[0].strip()
    command = command.replace(" gen run", f" {BIN / 'gen'} run", 1)
    return subprocess.run(command, shell=True, cwd=ROOT, text=True, capture_output=True,
                          timeout=120, check=False)


def test_right_kernel_passes(kernel, tmp_path):
    code, out, err = check(kernel, tmp_path, "--seeds", 3)
    assert code == 0, out + err
    assert "15 schedules, no fault" in out and "worst error" in out
    assert int(re.search(r"(\d+) orders and pairs seen", out)[1]) > 50


def test_seeds_that_show_nothing_new_end_it(kernel, tmp_path):
    """The same schedules with any load of the machine; without the option all are run."""
    args = ("-m", 130, "-n", 72, "-k", 320, "--ctas", 1, "--stop-after", 2)
    code, out, err = check(kernel, tmp_path, *args, "--seeds", 200, timeout=300)
    assert code == 0, out + err
    ran, left, last = map(int, re.search(
        r"(\d+) schedules, no fault; (\d+) left out.*last new ones in run (\d+)", out).groups())
    assert ran + left == 9 + 2 * 200 and left > 100
    assert ran - 4 <= last + 1 and last <= ran - 4, out
    again = check(kernel, tmp_path, *args, timeout=300)[1]
    assert f"{ran} schedules, no fault" in again and "in 2 seeds" in again


def test_outputs_are_compared_once_with_the_reference(kernel, tmp_path):
    """The others are compared with the first ones, bit for bit: a hundred times faster."""
    code, out, err = check(kernel, tmp_path, "-m", 2048, "-n", 2048, "-k", 256, "--ctas", 16,
                           "--seeds", 0, timeout=60)
    assert code == 0, out + err
    assert out.count("worst error") == 1


def test_config_and_given_sizes():
    code, out, err = gen("check", *TILE, "--d-type", "f32", "-m", 130, "-n", 72, "-k", 320,
                         "--ctas", 1, "--seeds", 1)
    assert code == 0, out + err
    assert "D 130 x 72 f32" in out


def test_ptx_with_an_epilogue_has_its_expression(tmp_path):
    code, ptx, err = gen(*TILE, "--epilogue", "bias")
    assert code == 0, err
    code, out, err = check(ptx, tmp_path, "--seeds", 1)
    assert code == 0, out + err
    assert "no fault" in out and "as evaluated" in out and "give its config" not in out
    code, out, err = gen("check", *TILE, "--epilogue", "bias", "--seeds", 1)
    assert code == 0, out + err
    assert "no fault" in out and "give its config" not in out


def test_kernels_beside_the_gemm():
    code, out, err = gen("check", "quantize_nvfp4", "-m", 65, "-k", 160, "--seeds", 1)
    assert code == 0, out + err
    assert "no fault" in out


@pytest.mark.parametrize("label, seen", [
    ("LOAD_WAIT", r"barrier at 0x|shared bytes"), ("MMA_WAIT", r"barrier at 0x|shared bytes"),
    ("MMA_WAIT_ACC", r"barrier at 0x|tensor memory"), ("EPILOGUE_WAIT", r"tensor memory")])
def test_missing_wait_is_found_and_repeats(kernel, label, seen, tmp_path):
    code, out, err = check(without_wait(kernel, label), tmp_path)
    assert code == 1, out + err
    assert "FAULT under" in out and re.search(seen, out), out
    again = repeat(out)
    assert again.returncode == 1
    report = re.search(r"error in kernel .*", out)[0]
    assert report in again.stderr


def test_wrong_numbers_are_a_fault(kernel, tmp_path):
    new, count = re.subn(r"mul(\.f32x2\s+pair, pair, alphas;)", r"add\1", kernel, count=1)
    assert count == 1
    code, out, err = check(new, tmp_path)
    assert code == 1, out + err
    assert "[run-wrong]" in out and repeat(out).returncode == 1


def test_level_and_switches_reach_the_emulator(kernel, tmp_path):
    broken = without_wait(kernel, "MMA_WAIT_ACC")
    code, out, err = check(broken, tmp_path, "--check", "nonsense")
    assert code == 1 and "FP4EMU_CHECK" in err and "FAULT" not in out + err
    code, out, _ = check(broken, tmp_path, "--check", "off", "--seeds", 1)
    assert "[check 7" not in out


def racy(ptx):
    """Warp 2 sets a flag and takes it back at once; warp 1 looks at it once a tile, and if it
    is set its results are wrong.  Only who comes between the two stores can see it."""
    place = int(re.search(r"add\.u32\s+x, base, (\d+);\s*tcgen05\.alloc", ptx)[1]) + 8
    new, count = re.subn(r"\nEPILOGUE_TILE:\n", f"""
EPILOGUE_TILE:
  setp.eq.u32   p, warp, 2;
  @p st.shared.b32 [base + {place}], 1;
  @p st.shared.b32 [base + {place}], 0;
  setp.ne.u32   p, warp, 1;
  @p bra        EPILOGUE_SEEN;
  ld.shared.b32 x, [base + {place}];
  setp.eq.u32   p, x, 1;
  @p mov.b64    alphas, 0x4100000041000000;
EPILOGUE_SEEN:
""", ptx)
    assert count == 1
    return new


def test_random_fault_is_made_small(kernel, tmp_path):
    code, out, err = check(racy(kernel), tmp_path, "--check", "off", "--minimise", "--seeds", 50)
    assert code == 1, out + err
    assert re.search(r"FAULT under (random|pct)", out) and "[run-wrong]" in out, out
    small = re.search(r"minimal: (\d+) of (\d+) choices", out)
    assert int(small[1]) <= 8 < int(small[2]), out
    # The minimal schedule, as a file, fails too.
    path = tmp_path / "schedule"
    path.write_text(out.split("FP4EMU_STRATEGY=replay:FILE\n")[1])
    command = re.search(r"gen (run .* --check)", out)[1].split()
    code, _, err = gen(*command, env={"FP4EMU_STRATEGY": f"replay:{path}", "FP4EMU_CHECK": "off"})
    assert code == 1 and "[run-wrong]" in err


def processes(command):
    """Ids of those whose command line is this one."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().rstrip(b"\0") == b"\0".join(c.encode() for c in command):
                found.append(int(path.parent.name))
        except OSError:
            pass  # it has ended
    return found


def wait_until(condition):
    for _ in range(200):
        if condition():
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("how", ["trials", "worker"])
def test_children_end_with_their_parent(how, tmp_path):
    """Nobody can wait for them when `gen` is killed: a child goes on for hours, else."""
    env = dict(os.environ)
    command = [str(BIN / "gen"), "check", *TILE, "-m", "4096", "-n", "4096", "-k", "4096",
               "--seeds", "500"]
    if how == "worker":  # which is in LLVM for ever
        build = BIN.parent if BIN.parent != ROOT else ROOT / "build/release"
        env.update(FP4GEN_LLVM_LIB=str(build / "tests/fake_llvm.so"), FAKE_LLVM="hang",
                   FP4GEN_CACHE=str(tmp_path))
        command = [str(BIN / "gen"), *TILE, "--epilogue", "bias"]
    parent = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        assert wait_until(lambda: len(processes(command)) > 1)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        assert wait_until(lambda: not processes(command))
    finally:
        for child in processes(command):
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("args, code_of_run, words", [
    (("--epilogue", "swiglu", "-m", "5", "-n", "17", "-k", "64"), 1, "[gemm-n-multiple]"),
    ((*TILE, "-k", "63"), 1, "[gemm-odd-k]"),
    (("--epilogue", "softcap", "--arg", "cap=1e40"), 1, "[arg-range]"),
    (("--epilogue", "softcap", "--arg", "cup=1"), 1, "[run-arg]"),
    (("deinterleave_quantize_nvfp4", "-k", "3"), 1, "[quantize-k]"),
    (("silu_mul_quantize_nvfp4", "-n", "7"), 2, "[field-unused]"),
])
def test_what_run_refuses(args, code_of_run, words):
    """An error of the problem is no fault under a schedule."""
    sizes = [x for option in ("-m", "-k") if option not in args for x in (option, "64")]
    if "quantize" not in args[0] and "-n" not in args:
        sizes += ["-n", "64"]
    code, out, err = gen("check", *args)
    assert code == 2 and out == "" and words in err and err.count("error") == 1, out + err
    code, out, said = gen("run", *args, *sizes, "--driver", "emu", "--check")
    assert code == code_of_run and out == "" and said == err, out + said


def test_driver_that_is_not_there():
    code, out, err = gen("check", *TILE, env={"FP4GEN_EMU_LIB": "/nowhere/libcuda.so.1"})
    assert code == 1 and out == "" and "[emu-lib]" in err, out + err


@pytest.mark.parametrize("args", [("--seeds", "x"), ("--mma", "exact"), ("--minimise=1",),
                                  ("no-such-config",), ("--driver", "cuda")])
def test_misuse(args):
    code, out, err = gen("check", *args)
    assert code == 2 and out == "" and "error" in err


def test_kernel_that_is_not_there(tmp_path):
    code, out, err = gen("check", tmp_path / "none.ptx")
    assert code == 1 and "[run-ptx]" in err


@pytest.mark.skipif(SANITIZED or not ALL, reason="takes minutes: make check-all")
def test_matrix():
    code, out, err = gen("check", "--set", "group_m=4", "--matrix", timeout=900)
    assert code == 0, out + err
    assert re.search(r"\d+ kernels, two problems each, \d+ runs: no fault", out), out
