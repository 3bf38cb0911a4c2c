"""Three faults planted in generated kernels: each must end in the emulator's report, which
names the place, and never in "passed"."""

import json
import re
import shutil

import pytest

from conftest import ROOT, gen

TILES = ("128x64x128", "128x256")
STRATEGIES = ("eager", "lazy")
SHAPE = ("-m", 300, "-n", 520, "-k", 1056)


def replace_once(text, pattern, replacement):
    """The edit must find its place exactly once, or the test tests nothing."""
    new, count = re.subn(pattern, replacement, text, flags=re.M)
    assert count == 1, f"{count} places for {pattern}"
    return new


def without_full_wait(ptx):
    return replace_once(ptx, r"^MMA_WAIT:\n.*try_wait.*\n.*bra.*MMA_WAIT;\n", "MMA_WAIT:\n")


def short_expect_tx(ptx):
    return replace_once(ptx, r"(mbarrier\.arrive\.expect_tx\S*\s+_, \[full\], )(\d+);",
                        lambda m: f"{m[1]}{int(m[2]) - 16};")


def wrong_stride(ptx):
    """Bits 32-45 of a shared memory descriptor: bytes between groups of 8 rows, / 16."""
    def halve(m):
        desc = int(m[2], 16)
        stride = desc >> 32 & 0x3fff
        assert stride > 1
        return f"{m[1]}{desc & ~(0x3fff << 32) | stride // 2 << 32:#x};"
    return replace_once(ptx, r"(add\.u64\s+a_desc, wide, )(0x[0-9a-fA-F]+);", halve)


FAULTS = {
    # edit, what the report's first line must say, what its place must be, and a pattern
    # for lines of which the report must name one.  Without the wait the mma warp runs
    # ahead of the loader: which of its instructions is found out, and by which check,
    # depends on the strategy.
    "full_wait": (without_full_wait, r"barrier at 0x|shared bytes 0x",
                  r"tcgen05\.(cp|mma|commit)", r"tcgen05\.(cp|mma|commit)"),
    "expect_tx": (short_expect_tx, r"barrier.*bytes", r"mbarrier\.try_wait",
                  r"cp\.async\.bulk\.tensor|expect_tx"),
    "stride": (wrong_stride, r"descriptor.*stride|stride.*descriptor", r"tcgen05\.mma",
               r"tcgen05\.mma"),
}


@pytest.fixture(scope="module", params=TILES)
def kernel(request):
    code, ptx, err = gen("--tile", request.param)
    assert code == 0, err
    return ptx


def run(ptx, folder, strategy):
    path = folder / "kernel.ptx"
    path.write_text(ptx)
    return gen("run", path, *SHAPE, "--driver", "emu", "--check",
               env={"FP4EMU_STRATEGY": strategy})


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_unharmed_kernel_passes(kernel, strategy, tmp_path):
    code, out, err = run(kernel, tmp_path, strategy)
    assert code == 0, out + err


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_reported(kernel, fault, strategy, tmp_path):
    edit, names, place, cause = FAULTS[fault]
    code, out, err = run(edit(kernel), tmp_path, strategy)
    assert code == 1, f"passed with a planted fault: {out}{err}"
    report = re.match(r"error in kernel \S+ (?P<headline>.*)\n  at line (?P<line>\d+) ", err)
    assert report, err
    assert re.search(names, report["headline"]), err
    text = edit(kernel).splitlines()
    assert re.search(place, text[int(report["line"]) - 1]), err
    lines = [int(n) for n in re.findall(r"\bline (\d+)", err)]
    assert any(re.search(cause, text[n - 1]) for n in lines), err


def test_reports_are_json_lines(kernel, tmp_path):
    path, report = tmp_path / "kernel.ptx", tmp_path / "report"
    path.write_text(without_full_wait(kernel))
    code, _, err = gen("run", path, *SHAPE, "--driver", "emu",
                       env={"FP4EMU_REPORT": str(report), "FP4EMU_STRATEGY": "lazy"})
    assert code == 1
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    assert lines and {"check", "level", "kernel", "line", "opcode", "block", "rank", "warp", "lanes",
                      "file", "text", "others", "notes", "mend", "again", "result"} <= set(lines[-1])
    assert lines[-1]["level"] == "error" and lines[-1]["text"] in err
    assert lines[-1]["result"] == "CUDA_ERROR_LAUNCH_FAILED"
    opcode = path.read_text().splitlines()[lines[-1]["line"] - 1].split()[0]
    assert lines[-1]["opcode"] == opcode


def test_lines_of_templates_are_named(tmp_path):
    """Of a kernel that is generated and run at once nobody has seen the PTX."""
    folder = tmp_path / "templates"
    shutil.copytree(ROOT / "templates", folder)
    template = folder / "gemm_tcgen05.ptxt"
    text = template.read_text(encoding="utf-8")
    template.write_text(replace_once(
        text, r"^MMA_WAIT:\n.*try_wait.*\n.*bra.*MMA_WAIT;\n", "MMA_WAIT:\n"), encoding="utf-8")
    options = ("--tile", "128x64x128", "--templates", folder)
    code, ptx, err = gen(*options)
    assert code == 0, err
    code, out, err = gen("run", *options, *SHAPE, "--driver", "emu")
    assert code == 1 and "error in kernel" in err, out + err
    named = re.findall(r"^  line (\d+) is from (.*):(\d+)$", err, re.M)
    assert named and {f for _, f, _ in named} == {str(template)}, err
    assert {n for n, _, _ in named} <= set(re.findall(r"\bline (\d+)", err))
    sources = template.read_text(encoding="utf-8").splitlines()
    for number, _, line in named:
        opcode = re.search(r"[a-z]\w*(?=\.)", ptx.splitlines()[int(number) - 1])[0]
        assert opcode in sources[int(line) - 1], (number, line)
    code, _, err = gen("run", *options, *SHAPE, "--driver", "emu", env={"FP4EMU_QUIET": "1"})
    assert code == 1 and "is from" not in err
