"""Kernels with epilogues through NVIDIA's assembler: no spills, few enough registers.

The registers go to build/<variant>/registers-epilogues.txt.  `make test` meets each named
epilogue in one tile and two of them in all, and of the random ones those that were hardest;
FP4GEN_FULL_SWEEP=1: all in all, and 392 random ones.  Under many schedules each named one
runs in every tile, with 11 of them; FP4GEN_FULL_SWEEP=1: 25."""

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

import random_epilogues
from conftest import ROOT, SANITIZED, find_ptxas, gen, with_manifest

WORKERS = min(2, os.cpu_count() or 1)
FULL = os.environ.get("FP4GEN_FULL_SWEEP", "0") not in ("", "0")
TILES = ("128x256", "128x64", "128x192", "128x128")
ALWAYS = ("swiglu_nvfp4", "bias")
# Heavier than any named one.
OWN = {
    "precise": "local g, u = e.interleaved(8) return e.nvfp4(e.precise.silu(g) * u, "
               "{ global = e.param 'd_global', path = 'integer' })",
    "stochastic": "return e.nvfp4(e.gelu_erf(e.acc), { global = e.row 'g', "
                  "rounding = 'stochastic', seed = e.param('seed', { type = 'u32' }) })",
    "four": "local h = e.softcap(e.acc + e.bias, 30) + e.aux 'c' "
            "return e.bf16(h), e.mxfp8(h, { name = 'q' }), e.amax(h), "
            "e.f32(h, { name = 'x' })",
    "steps": "local g, u = e.acc + e.bias + e.aux('r', { type = 'f32' }), e.aux 'c' "
             "local h = e.precise.gelu_erf(g) * u return e.f32(h), e.mxfp8(h), e.amax(h)",
    "wide": "local g, u = e.interleaved(32, { of = e.acc + e.bias }) "
            "local h = e.precise.gelu_erf(g) * u return e.bf16(g), e.bf16(u, { name = 'u' }), "
            "e.nvfp4(h, { global = e.param 'd_global' }), e.amax(h)",
    "plain": "return e.d(e.precise.gelu_erf(e.acc))",
}
# Numbers of random_epilogues.dense that spilled, or nearly did.
DENSE = range(200) if FULL else (50, 69, 75, 77, 132, 196)
HARD = "rounding = 'stochastic'", "path = 'integer', division = 'exact'", "local h = e.acc "


def names():
    code, out, err = gen("list")
    assert code == 0, err
    block = out.split("epilogues\n")[1].split("\ntargets")[0]
    return [line.split()[0] for line in block.splitlines()]


def has_d(name):
    return gen("plan", "--epilogue", name, "--d-type", "f32")[0] == 0


def work(folder):
    """Argument lists of gen, by their text."""
    lines = {}
    for i, name in enumerate(names()):
        for t, tile in enumerate(TILES):
            if not (FULL or name in ALWAYS or i % len(TILES) == t):
                continue
            types = ("bf16", "f32") if has_d(name) and (FULL or t == 0) else (None,)
            for d_type in types:
                args = ["--epilogue", name, "--tile", tile]
                args += ["--d-type", d_type] if d_type else []
                lines[" ".join(args)] = args
    lines["moe_l1_nvfp4"] = ["moe_l1_nvfp4"]
    for name, body in OWN.items():
        path = folder / f"{name}.lua"
        path.write_text(f"gemm {{\n  epilogue = function(e) {body} end,\n}}\n")
        for tile in TILES if FULL else TILES[:1]:
            lines[f"{name} --tile {tile}"] = [path, "--tile", tile]
    return lines


def assemble(item):
    number, (line, args, folder) = item
    ptx = folder / f"{number}.ptx"
    code, _, err = gen("emit", *args, "-o", ptx)
    if code != 0:
        return line, None, f"gen: {err}"
    done = subprocess.run([str(find_ptxas()), "-v", "-arch=sm_100f", "-o", os.devnull,
                           str(ptx)], text=True, capture_output=True, timeout=300,
                          check=False)
    log = done.stdout + done.stderr
    if done.returncode != 0:
        return line, None, log
    used = int(re.search(r"Used (\d+) registers", log).group(1))
    spills = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, "
                       r"(\d+) bytes spill loads", log)
    complaint = spills.group(0) if any(int(n) for n in spills.groups()) else None
    return line, used, complaint


def random_work(folder):
    configs = {f"dense {seed}": random_epilogues.dense(seed) for seed in DENSE}
    for name, text in random_epilogues.plausible().items():
        if FULL or all(part in name for part in (*HARD, "256:")):
            configs[name] = text
    lines = {}
    for number, (name, text) in enumerate(configs.items()):
        path = folder / f"random{number}.lua"
        path.write_text(text)
        lines[name] = [path]
    return lines


@pytest.mark.skipif(SANITIZED, reason="the assembler sweep runs plain only")
def test_no_spills(ptxas, tmp_path):
    assert ptxas.exists()
    need_llvm()
    lines = work(tmp_path) | random_work(tmp_path)
    assert len(lines) >= 35
    items = enumerate((line, args, tmp_path) for line, args in lines.items())
    with ThreadPoolExecutor(WORKERS) as pool:
        rows = list(pool.map(assemble, items))
    table = ROOT / os.environ.get("FP4GEN_BUILD", "build/release") / "registers-epilogues.txt"
    table.write_text("".join(f"{used or '-':>4}  {line}\n" for line, used, _ in rows))
    refused = [line for line, used, complaint in rows
               if used is None and "[epilogue-registers]" in complaint]
    assert all(line.startswith("dense ") for line in refused), refused
    assert len(refused) <= len(DENSE) // 50, refused
    assert not [(line, complaint) for line, _, complaint in rows
                if complaint and line not in refused]
    assert all(used <= 255 for line, used, _ in rows if line not in refused)


def need_llvm():
    if "epilogue-no-llvm" in gen("plan", "--epilogue", "relu")[2]:
        pytest.skip("libfp4gen-llvm.so is not built: no LLVM 22")


def check_schedules(item):
    name, tile = item
    code, out, err = gen("check", "--epilogue", name, "--tile", tile, "--check", "all",
                         "--seeds", 8 if FULL else 1, "--alpha", 0.002, timeout=600)
    return None if code == 0 and "no fault" in out else f"{name} {tile}: {out}{err}"


@pytest.mark.skipif(SANITIZED, reason="schedules run plain only")
def test_schedules():
    """No hazard that any check knows, and the same bits, whoever goes first."""
    need_llvm()
    items = [(name, tile) for name in names() for tile in TILES]
    assert len(items) >= 96
    with ThreadPoolExecutor(WORKERS) as pool:
        faults = [fault for fault in pool.map(check_schedules, items) if fault]
    assert not faults, "\n".join(faults)


def test_wrong_scales_are_found(tmp_path):
    """A template that forgets to move the scales of every second chunk to their byte."""
    need_llvm()
    shutil.copytree(ROOT / "templates", tmp_path / "templates")
    path = tmp_path / "templates/lib/outputs.ptxt"
    text = path.read_text()
    move = "  shl.b32       x, o${k}_s0, ${8 * bytes};\n"
    assert move in text
    args = ("--epilogue", "swiglu_nvfp4", "--tile", "128x128", "-m", 3, "-n", 128, "-k", 64,
            "--alpha", 0.01, "--driver", "emu", "--check", "--templates",
            tmp_path / "templates")
    assert gen("run", *args)[0] == 0
    path.write_text(text.replace(move, "  mov.b32       x, o${k}_s0;\n"))
    code, out, err = gen("run", *args)
    assert code == 1
    said = re.search(r"(\d+) of (\d+) elements and scales are wrong; the first is scale "
                     r"d\[0\]\[\d\]: 0x\w+, but the expression gives 0x\w+ \[run-epilogue\]", err)
    assert said, err
    right, every = re.search(r"outputs: (\d+) of (\d+) elements and scales as evaluated",
                             out).groups()
    assert said[2] == every and int(said[1]) + int(right) == int(every), out + err


def test_the_reference_counts_once(tmp_path):
    """Both know a wrong code: each element is right or wrong, whoever says so."""
    need_llvm()
    path = tmp_path / "k.ptx"
    code, ptx, err = gen("--epilogue", "nvfp4", "--tile", "128x64")
    assert code == 0, err
    path.write_text(re.sub(r"(cvt\.rn\.satfinite\.e2m1x2\.f32 +\S+, )(\S+), (\S+);",
                           r"\1\3, \2;", ptx))
    code, out, err = gen("run", path, "-m", 5, "-n", 64, "-k", 64, "--driver", "emu", "--check")
    assert code == 1, out
    wrong, every = re.search(r"(\d+) of (\d+) elements and scales are wrong", err).groups()
    right = re.search(rf"outputs: (\d+) of {every} elements", out)[1]
    assert int(wrong) > 100
    assert int(wrong) + int(right) == int(every), out + err


def test_poison_may_be_the_result(tmp_path):
    """What outputs are filled with before a launch is right for some of them."""
    need_llvm()
    path = tmp_path / "ones.lua"
    path.write_text("gemm { tile = { m = 128, n = 64, k = 256 }, epilogue = function(e)\n"
                    "return e.f32(e.select(e.lt(e.acc, 0), e.from_bits(e.u32(0xffffffff)),"
                    " e.from_bits(e.u32(0x5a5a5a5a)))), e.amax(e.acc) end }\n")
    args = ("-m", 130, "-n", 72, "-k", 64, "--driver", "emu")
    code, ptx, err = gen(path)
    assert code == 0, err
    for check in ((), ("--check",)):
        code, out, err = gen("run", path, *args, *check)
        assert code == 0, out + err
    # An element that no launch writes is still found: here the last warp's rows.
    path = tmp_path / "k.ptx"
    store = r"(?m)^  @p cp\.async\.bulk\.tensor\.2d\.global"
    assert re.search(store, ptx)
    path.write_text(re.sub(store, "  setp.lt.and.u32 p, warp, 3, p;\n" + store[6:].replace(
        "\\", ""), ptx))
    code, _, err = gen("run", path, *args)
    assert code == 1
    assert "2304 elements of d were not written, the first is d[96][0] [run-unwritten]" in err


def test_ptx_without_its_expression(tmp_path):
    """Refused before anything runs, unless it need not be compared."""
    need_llvm()
    path = tmp_path / "k.ptx"
    code, ptx, err = gen("--epilogue", "swiglu", "--tile", "128x64")
    assert code == 0, err
    args = (path, "-m", 5, "-n", 64, "-k", 64, "--alpha", 0.01, "--driver", "emu")
    path.write_text(ptx)
    code, out, err = gen("run", *args, "--check")
    assert code == 0, err
    assert "outputs: 160 of 160 elements and scales as evaluated" in out
    assert ptx.count("// expr: ") > 10
    ptx = re.sub(r"(?m)^// expr: .*\n", "", ptx)
    path.write_text(with_manifest(ptx))
    code, out, err = gen("run", *args, "--check")
    assert (code, out) == (1, "")
    assert err.startswith(f"{path}: error: the PTX holds no expression of the epilogue swiglu")
    assert "[run-check-ptx]" in err
    assert gen("run", *args)[0] == 0
    code, out, _ = gen("check", path, "--seeds", 1)
    assert code == 0
    assert "values were compared with those of the first run alone" in out
