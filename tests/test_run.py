"""`gen run` from matrices in files to a matrix in a file, on the emulator; the expected
result is python/nvfp4.py's, in numpy."""

import os
import re
import shutil
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from conftest import BIN, ROOT, SANITIZED, gen, with_manifest

sys.path.insert(0, str(ROOT / "python"))
import nvfp4  # noqa: E402

TILE = ("--tile", "128x64x128")


def matrices(m, n, k, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((m, k)).astype(np.float32)
    w = rng.standard_normal((n, k)).astype(np.float32) * rng.uniform(0.1, 3, (n, 1))
    return x, w.astype(np.float32)


def run(folder, *args, d_type="bf16", env=None):
    out = folder / "y.npy"
    code, text, err = gen("run", *TILE, "--d-type", d_type, "--driver", "emu", "--check",
                          "--out", out, *args, env=env)
    assert code == 0, text + err
    assert "worst error" in text
    return nvfp4.read_npy(out), text, err


def files(folder, x, w):
    np.save(folder / "x.npy", x)
    np.save(folder / "w.npy", w)
    return "--a", folder / "x.npy", "--b", folder / "w.npy"


def check_product(y, x, w, alpha=1.0):
    product, bound = nvfp4.gemm(x, w)
    assert y.shape == product.shape
    assert np.max(np.abs(y - alpha * product) / bound) <= max(1, abs(alpha))


@pytest.mark.parametrize("m, n, k", ((1, 8, 64), (127, 72, 96), (130, 200, 464)))
def test_f32_files(m, n, k, tmp_path):
    x, w = matrices(m, n, k)
    y, text, _ = run(tmp_path, *files(tmp_path, x, w))
    check_product(y, x, w)
    loss = float(re.search(r"unquantised product: relative error ([\d.e+-]+)", text)[1])
    full = x.astype(np.float64) @ w.astype(np.float64).T
    assert loss == pytest.approx(np.linalg.norm(y - full) / np.linalg.norm(full), rel=1e-3)


def test_f16_and_bf16_files(tmp_path):
    x, w = matrices(33, 40, 128, seed=1)
    x, w = x.astype(np.float16), w.astype(ml_dtypes.bfloat16)
    y, _, _ = run(tmp_path, *files(tmp_path, x, w), "--dtype", "bf16")
    check_product(y, x.astype(np.float32), w.astype(np.float32))
    code, _, err = gen("run", *TILE, "--driver", "emu", *files(tmp_path, x, w))
    assert code == 1
    assert "w.npy: error: " in err
    assert "--dtype bf16" in err


def test_odd_columns_and_output_type(tmp_path):
    x, w = matrices(20, 17, 75, seed=2)
    y, _, _ = run(tmp_path, *files(tmp_path, x, w), d_type="f32")
    assert np.load(tmp_path / "y.npy").dtype == np.float32
    assert y.shape == (20, 17)
    full = x.astype(np.float64) @ w.astype(np.float64).T
    assert np.linalg.norm(y - full) / np.linalg.norm(full) < 0.2


def test_not_a_number_is_told(tmp_path):
    x, w = matrices(5, 8, 64, seed=3)
    x[2, 3], x[4, 5] = np.nan, np.inf
    _, _, err = run(tmp_path, *files(tmp_path, x, w))
    assert "x.npy: note: 1 NaN, which quantises" in err
    assert "x.npy: note: 1 infinity, which saturates" in err


def test_alpha_by_value_and_on_the_device(tmp_path):
    x, w = matrices(40, 24, 192, seed=4)
    value, _, _ = run(tmp_path, *files(tmp_path, x, w), "--alpha", "-0.5")
    pointer, _, _ = run(tmp_path, *files(tmp_path, x, w), "--alpha", "-0.5", "--alpha-ptr")
    plain, _, _ = run(tmp_path, *files(tmp_path, x, w))
    assert np.array_equal(value, pointer)
    assert np.array_equal(value, -0.5 * plain)


def test_rounding_mode_is_used(tmp_path):
    x, w = matrices(40, 24, 192, seed=5)
    nearest, _, _ = run(tmp_path, *files(tmp_path, x, w))
    halfstep, _, _ = run(tmp_path, *files(tmp_path, x, w), "--rounding", "halfstep")
    assert not np.array_equal(nearest, halfstep)
    # It is the host that rounds: a kernel that lies on disk is none the other.
    path, out = tmp_path / "kernel.ptx", tmp_path / "file.npy"
    path.write_text(kernel())
    code, text, err = gen("run", path, *files(tmp_path, x, w), "--rounding", "halfstep",
                          "--driver", "emu", "--check", "--out", out)
    assert code == 0, text + err
    assert np.array_equal(nvfp4.read_npy(out), halfstep)
    code, _, err = gen("run", path, *files(tmp_path, x, w), "--rounding", "halfstep", "--set",
                       "stages=2")
    assert (code, err.count("[cli-ptx-option]")) == (2, 1)


@pytest.mark.parametrize("strategy", ("eager", "lazy"))
@pytest.mark.parametrize("m, n, k", ((300, 72, 96), (129, 136, 464), (5, 200, 1056)))
def test_padding_does_not_matter(m, n, k, strategy, tmp_path):
    """Scales behind K and behind the last row, and bytes behind a row: NaN or 0, D is
    the same bit for bit."""
    size = ("-m", m, "-n", n, "-k", k, "--seed", 11)
    env = {"FP4EMU_STRATEGY": strategy}
    results = []
    row = (k // 2 + 15) // 16 * 16
    strides = ("--lda", row + 48, "--ldb", row + 16, "--ldd", n * 2 + 32)
    for pad, strides in ((0, ()), (127, ()), (255, strides)):
        run(tmp_path, *size, "--pad-byte", pad, *strides, env=env)
        results.append(np.load(tmp_path / "y.npy").tobytes())
    assert results[0] == results[1] == results[2]


def test_seed_decides(tmp_path):
    size = ("-m", 64, "-n", 64, "-k", 128)
    first, _, _ = run(tmp_path, *size, "--seed", 1)
    again, _, _ = run(tmp_path, *size, "--seed", 1, "--ctas", 1, "--repeat", 2)
    other, _, _ = run(tmp_path, *size, "--seed", 2)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_ptx_file_is_all_that_is_needed(tmp_path):
    code, ptx, err = gen("--tile", "128x128")
    assert code == 0, err
    path = tmp_path / "kernel.ptx"
    path.write_text(ptx)
    code, out, err = gen("run", path, "-m", 130, "-n", 140, "-k", 320, "--driver", "emu",
                         "--check")
    assert code == 0, err
    assert "D 130 x 140 bf16: worst error" in out


def test_empty_products(tmp_path):
    for m, n, k in ((0, 8, 64), (8, 0, 64)):
        code, out, err = gen("run", *TILE, "-m", m, "-n", n, "-k", k, "--driver", "emu",
                             "--check")
        assert code == 0, err
        assert "nothing to do" in out
    y, _, _ = run(tmp_path, "-m", 9, "-n", 7, "-k", 0)
    assert y.shape == (9, 7)
    assert not y.any()


@pytest.mark.skipif(SANITIZED, reason="2^31 multiplications take long")
def test_large_products_are_compared_in_part():
    size = ("-m", 256, "-n", 256, "-k", 34000)
    code, out, err = gen("run", "--tile", "128x128", *size, "--driver", "emu", "--check")
    assert code == 0, err
    assert re.search(r"random elements, \d+ of 65536; --check=full compares all", out)


def kernel(*words):
    code, ptx, err = gen(*TILE, *words)
    assert code == 0, err
    return ptx


def run_file(folder, ptx, *size, env=None):
    path = folder / "kernel.ptx"
    path.write_text(ptx)
    return gen("run", path, *size, "--driver", "emu", "--check", env=env)


def test_nothing_times_an_alpha_that_is_none_is_zero(tmp_path):
    for words in ((), ("--alpha-ptr",)):
        path = tmp_path / "d.npy"
        code, _, err = gen("run", *TILE, "-m", 3, "-n", 9, "-k", 0, "--alpha", "nan",
                           "--driver", "emu", "--check", "--d-type", "f32", "--out", path,
                           *words)
        assert code == 0, err
        assert not np.load(path).any()


def test_byte_order_mark_is_skipped(tmp_path):
    text = (ROOT / "configs/nvfp4_gemm.lua").read_text(encoding="utf-8")
    path = tmp_path / "c.lua"
    path.write_text(text, encoding="utf-8-sig")
    assert path.read_bytes()[:3] == b"\xef\xbb\xbf"
    code, _, err = gen("plan", path)
    assert code == 0, err


def test_device_that_is_not_there_is_told_once():
    code, out, err = gen("run", *TILE, "-m", 1, "-n", 8, "-k", 64, "--driver", "emu",
                         "--device", 3)
    assert (code, out) == (1, "")
    assert err == "error: there is no device 3: the emulator has 1, numbered from 0 [no-device]\n"


def test_wrong_element_is_named(tmp_path):
    ptx = kernel()
    pairs = ptx.split("mul.f32x2     pair, pair, alphas;")
    assert len(pairs) > 2
    wrong = ("mul.f32x2     pair, pair, alphas;".join(pairs[:2])
             + "add.f32x2     pair, pair, alphas;"
             + "mul.f32x2     pair, pair, alphas;".join(pairs[2:]))
    size = ("-m", 20, "-n", 64, "-k", 64)
    assert run_file(tmp_path, ptx, *size, "--alpha", 0.5)[0] == 0
    code, _, err = run_file(tmp_path, wrong, *size, "--alpha", 0.5)
    assert code == 1
    row, col = re.search(r"\d+ of 1280 elements are wrong; the worst is D\[(\d+)\]\[(\d+)\]: "
                         r".* but the reference is .* \[run-wrong\]", err).groups()
    assert int(row) < 20
    assert int(col) % 32 in (2, 3)


@pytest.mark.parametrize("mode, same", (("nearest", True), ("perturb", False)))
def test_approximations_have_bounds(mode, same):
    args = ("--driver", "emu", "--check", *TILE, "--d-type", "f32", "-m", "50", "-n", "72",
            "-k", "96")
    env = {"FP4EMU_APPROX": mode, "FP4EMU_SEED": "3"}
    code, text, err = gen("run", "--epilogue", "softcap", *args, env=env)
    if "epilogue-no-llvm" in err:
        pytest.skip("libfp4gen-llvm.so is not built: no LLVM 22")
    assert code == 0, text + err
    equal, near = re.search(r"outputs: (\d+) of 3600 elements and scales as evaluated"
                            r"(?:, (\d+) others within the bounds of approximations)?",
                            text).groups()
    assert int(equal) + int(near or 0) == 3600
    assert (int(equal) == 3600) == same
    # What has a last place of its own does not move.
    code, text, err = gen("run", "quantize_nvfp4", "--driver", "emu", "--check", "-m", "50",
                          "-k", "272", env=env)
    assert code == 0 and "0 wrong" in text, text + err


def test_bytes_between_rows_are_guarded(tmp_path):
    """A map of D as wide as D: the store then writes all 16 bytes of the last piece."""
    ptx = kernel()
    assert "dims=8*o0_pieces,m" in ptx
    ptx = with_manifest(ptx.replace("dims=8*o0_pieces,m", "dims=n,m"))
    # The threads that store the tail race with it; without that check it is still found.
    code, _, err = run_file(tmp_path, ptx, "-m", 20, "-n", 9, "-k", 64)
    assert code == 1 and "[check 36, data race]" in err, err
    code, _, err = run_file(tmp_path, ptx, "-m", 20, "-n", 9, "-k", 64,
                            env={"FP4EMU_CHECK": "default,-36"})
    assert code == 1
    assert re.search(r"280 bytes outside the elements of d were written, the first is 18 "
                     r"bytes from its start \[run-strayed\]", err), err
    code, _, err = run_file(tmp_path, kernel(), "-m", 20, "-n", 9, "-k", 64)
    assert code == 0, err


def test_emulator_that_is_not_there(tmp_path):
    program = tmp_path / "bin/gen"
    program.parent.mkdir()
    shutil.copy(BIN / "gen", program)
    env = {k: v for k, v in os.environ.items() if k != "FP4GEN_EMU_LIB"}
    done = subprocess.run([program, "run", *TILE, "-m", "8", "-n", "8", "-k", "64",
                           "--driver", "emu"], text=True, capture_output=True, env=env,
                          check=False)
    assert done.returncode == 1
    assert "[emu-not-found]" in done.stderr
    assert f"nor in ../lib of {program}" in done.stderr
