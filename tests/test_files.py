"""`gen run --in NAME=FILE --out NAME=FILE`, docs/files.md: everything that a kernel reads and
writes, from numpy and back; the expected results are python/nvfp4.py's."""

import os
import sys

import numpy as np
import pytest

from conftest import ROOT, gen

sys.path.insert(0, str(ROOT / "python"))
import nvfp4  # noqa: E402

TILE = ("--tile", "128x64x128")


def run(*args, want=0):
    code, text, err = gen("run", *args, "--driver", "emu", "--check")
    if "epilogue-no-llvm" in err:
        pytest.skip("libfp4gen-llvm.so is not built: no LLVM 22")
    assert code == want, text + err
    return text if want == 0 else err


def normal(rows, cols, seed):
    return np.random.default_rng(seed).standard_normal((rows, cols)).astype(np.float32)


def pack(codes):
    codes = np.pad(codes, ((0, 0), (0, codes.shape[1] % 2)))
    return codes[:, ::2] | codes[:, 1::2] << 4


def unpack(packed):
    return np.stack((packed & 15, packed >> 4), axis=2).reshape(packed.shape[0], -1)


def blocked(scales):
    """One byte a block as the 128x4 layout has them: an array of the padded shape."""
    rows, blocks = scales.shape
    padded = np.pad(scales, ((0, -rows % 128), (0, -blocks % 4)))
    tiles = padded.reshape(padded.shape[0] // 128, 4, 32, -1, 4)
    return tiles.transpose(0, 3, 2, 1, 4).reshape(padded.shape)


def unblocked(scales, rows, blocks):
    tiles = scales.reshape(scales.shape[0] // 128, -1, 32, 4, 4)
    return tiles.transpose(0, 3, 2, 1, 4).reshape(scales.shape)[:rows, :blocks]


def silu(x):
    return x / (1 + np.exp(-x))


def test_quantise_gemm_swiglu_gemm(tmp_path):
    """A feed-forward block: each kernel takes what the one before it has written."""
    m, k, n1, n2 = 70, 208, 96, 72
    x, w1, w2 = normal(m, k, 1), normal(n1, k, 2) / 8, normal(n2, n1 // 2, 3)
    at = {name: tmp_path / f"{name}.npy"
          for name in ("x", "w1", "w2", "q", "qs", "g", "w1q", "w1s", "h", "hs", "y")}
    for name, matrix in (("x", x), ("w1", w1), ("w2", w2)):
        np.save(at[name], matrix)

    # The activations and the weights, by the kernel.
    run("quantize_nvfp4", "--x-type", "f32", "--in", f"x={at['x']}", "--out",
        f"codes={at['q']}", "--out", f"scales={at['qs']}", "--out", f"global={at['g']}")
    codes, scales = nvfp4.quantize(x, nvfp4.global_scale(x))
    assert np.array_equal(np.load(at["q"]), pack(codes))
    assert np.array_equal(np.load(at["qs"]), blocked(scales))
    assert np.load(at["g"]).tolist() == [[nvfp4.global_scale(x)]]
    g_w1 = 2.0 ** -10
    run("quantize_nvfp4", "--x-type", "f32", "--x", at["w1"], "--global", g_w1, "--out",
        at["w1q"], "--out", f"scales={at['w1s']}")
    w1_codes, w1_scales = nvfp4.quantize(w1, g_w1)
    assert np.array_equal(np.load(at["w1q"]), pack(w1_codes))

    # Gate and up, SwiGLU, NVFP4.
    alpha, g_h = float(nvfp4.global_scale(x)) * g_w1, 2.0 ** -6
    run(*TILE, "--epilogue", "swiglu_nvfp4", "--a", at["q"], "--in", f"sfa={at['qs']}",
        "--b", at["w1q"], "--in", f"sfb={at['w1s']}", "--alpha", alpha, "--arg",
        f"d_global={g_h}", "--out", f"d={at['h']}", "--out", f"d.scales={at['hs']}")
    sums = alpha * (nvfp4.decode(codes, scales) @ nvfp4.decode(w1_codes, w1_scales).T)
    gate, up = sums.reshape(m, -1, 2, 8).transpose(2, 0, 1, 3).reshape(2, m, -1)
    want = silu(gate) * up
    h, h_scales = np.load(at["h"]), np.load(at["hs"])
    assert (h.dtype, h.shape) == (np.uint8, (m, n1 // 4))
    assert (h_scales.dtype, h_scales.shape) == (np.uint8, (128, 4))
    blocks = unblocked(h_scales, m, n1 // 32)
    got = g_h * nvfp4.decode(unpack(h), blocks)
    # Half of the largest step, 6 - 4, of the block; a scale may be half a step off.
    step = g_h * np.repeat(nvfp4.E4M3[blocks].astype(np.float64), 16, axis=1)
    assert np.all(np.abs(got - want) <= 1.5 * step + 1e-9)
    assert not h_scales.reshape(-1)[np.flatnonzero(blocked(np.ones_like(blocks)).ravel() == 0)
                                    ].any()
    assert np.linalg.norm(got - want) < 0.15 * np.linalg.norm(want)

    # Down, from codes on one side and numbers on the other.
    run(*TILE, "--d-type", "f32", "--a", at["h"], "--in", f"sfa={at['hs']}", "--b", at["w2"],
        "--alpha", g_h, "--out", at["y"])
    g_w2 = nvfp4.global_scale(w2)
    down = got @ (float(g_w2) * nvfp4.decode(*nvfp4.quantize(w2, g_w2))).T
    y = np.load(at["y"])
    assert y.shape == (m, n2)
    assert np.allclose(y, down, rtol=1e-5, atol=1e-5 * np.abs(down).max())


def test_codes_and_numbers_give_the_same(tmp_path):
    x, w = normal(33, 76, 4), normal(40, 75, 5)
    np.save(tmp_path / "x.npy", np.pad(x[:, :75], ((0, 0), (0, 1))))
    np.save(tmp_path / "w.npy", w)
    files = ("--a", tmp_path / "x.npy", "--b", tmp_path / "w.npy")
    np.save(tmp_path / "odd.npy", x[:, :75])
    g = nvfp4.global_scale(x[:, :75])
    codes, scales = nvfp4.quantize(x[:, :75], g)
    np.save(tmp_path / "q.npy", pack(codes))
    np.save(tmp_path / "s.npy", blocked(scales))
    run(*TILE, "--a", tmp_path / "odd.npy", *files[2:], "--out", tmp_path / "y0.npy")
    run(*TILE, "--in", f"a={tmp_path / 'q.npy'}", "--in", f"sfa={tmp_path / 's.npy'}", "--in",
        f"b={tmp_path / 'w.npy'}", "--lda", 80, "--alpha", repr(float(g)), "--out",
        f"d={tmp_path / 'y1.npy'}", "--ldd", 128)
    assert np.load(tmp_path / "y0.npy").tobytes() == np.load(tmp_path / "y1.npy").tobytes()


@pytest.mark.parametrize("layout, shape", (("linear", (70, 17)), ("8x4", (72, 20)),
                                           ("128x4", (128, 20))))
def test_back_and_from_layout_to_layout(layout, shape, tmp_path):
    x = normal(70, 271, 6)
    at = {name: tmp_path / f"{name}.npy" for name in ("x", "q", "s", "t", "back")}
    np.save(at["x"], x)
    run("quantize_nvfp4", "--x-type", "f32", "--layout", layout, "--x", at["x"], "--out",
        f"codes={at['q']}", "--out", f"scales={at['s']}", "--ldc", 160)
    codes, scales = nvfp4.quantize(x, nvfp4.global_scale(x))
    assert np.array_equal(np.load(at["q"]), pack(codes))
    assert np.load(at["s"]).shape == shape
    run("convert_scales", "--from", layout, "--layout", "linear", "-m", 70, "-k", 271, "--in",
        f"from={at['s']}", "--out", f"scales={at['t']}", "--lds", 32)
    assert np.array_equal(np.load(at["t"]), scales)
    g = nvfp4.global_scale(x)
    steps = np.repeat(nvfp4.E4M3[scales] * g, 16, axis=1)[:, :271]
    values = nvfp4.decode(codes, np.full_like(scales, 0x38)).astype(np.float32)  # times 1
    for args, cols in ((("-k", 271), 271), ((), 272)):  # two codes a byte: even, unless said
        run("dequantize_nvfp4", "--x-type", "f32", "--layout", layout, "--in",
            f"codes={at['q']}", "--in", f"scales={at['s']}", "--global", repr(float(g)), *args,
            "--out", f"x={at['back']}")
        back = np.load(at["back"])
        assert back.shape == (70, cols)
        assert np.array_equal(back[:, :271], values * steps)
    # A shape says no more than the padded size.
    run("convert_scales", "--from", layout, "--layout", "128x4", "--in", f"from={at['s']}",
        "--out", at["t"])
    want = np.pad(scales, ((0, shape[0] - 70), (0, shape[1] - 17)))
    assert np.array_equal(np.load(at["t"]), blocked(want))


CONFIG = """gemm {{ tile = {{ m = 128, n = 64, k = 128 }}, epilogue = function(e)
  {} end }}
"""


def test_every_output_of_an_epilogue(tmp_path):
    m, n, k = 40, 64, 96
    config = tmp_path / "c.lua"
    config.write_text(CONFIG.format(
        "return e.f32(e.acc), e.mxfp8(e.acc, { name = 'q' }), e.f16(e.acc, { name = 'half' }),"
        " e.amax(e.acc)"))
    names = ("d", "q", "q.scales", "half", "amax")
    outs = [word for name in names for word in ("--out", f"{name}={tmp_path / name}.npy")]
    run(config, "-m", m, "-n", n, "-k", k, "--alpha", 0.25, *outs)
    d, q, scales, half, amax = (np.load(tmp_path / f"{name}.npy") for name in names)
    assert (d.dtype, d.shape) == (np.float32, (m, n))
    assert np.array_equal(half, d.astype(np.float16))
    assert amax.tolist() == [[np.abs(d).max()]]
    assert (q.dtype, q.shape) == (np.uint8, (m, n))
    assert (scales.dtype, scales.shape) == (np.uint8, (128, 4))
    powers = np.ldexp(1.0, unblocked(scales, m, n // 32).astype(int) - 127)
    e4m3 = np.where(q & 128, -1.0, 1.0) * np.append(nvfp4.E4M3, np.nan)[q & 127]
    step = np.repeat(powers, 32, axis=1)
    assert np.all(np.abs(e4m3 * step - d) <= 2 ** -4 * np.abs(d) + 2 ** -10 * step)
    # One of them, by its own name or without.
    (tmp_path / "one").mkdir()
    run(config, "-m", m, "-n", n, "-k", k, "--alpha", 0.25, "--out", tmp_path / "one/first=.npy",
        "--out", f"amax={tmp_path / 'one/a=b.npy'}")
    assert sorted(os.listdir(tmp_path / "one")) == ["a=b.npy", "first=.npy"]
    assert np.array_equal(np.load(tmp_path / "one/first=.npy"), d)
    err = run(config, "-m", m, "-n", n, "-k", k, "--out", "d2=x.npy", want=2)
    assert err == ("gen: error: the kernel writes no 'd2'; it writes: d, q, q.scales, half, amax "
                   "[run-out]\n")


def test_nothing_is_written_when_something_is_wrong(tmp_path):
    """Neither when the answer is wrong, nor when one of the names is."""
    code, ptx, err = gen("quantize_nvfp4", "--x-type", "f32")
    assert code == 0, err
    x, bad = tmp_path / "x.npy", tmp_path / "bad.ptx"
    np.save(x, normal(5, 64, 7))
    assert "0f3E2AAAAB" in ptx
    bad.write_text(ptx.replace("0f3E2AAAAB", "0f3E4CCCCD"))  # 1/5 for 1/6
    before = sorted(os.listdir(tmp_path))
    err = run(bad, "--x", x, "--out", f"codes={tmp_path / 'q.npy'}", want=1)
    assert "[run-quantize]" in err
    err = run("quantize_nvfp4", "--x", x, "--out", f"codes={tmp_path / 'q.npy'}", "--out",
              "d=d.npy", "--in", "a=a.npy", want=2)
    assert err.splitlines() == [
        "gen: error: quantize_nvfp4 reads no 'a' from a file; it reads: x [run-in]",
        "gen: error: quantize_nvfp4 writes no 'd'; it writes: codes, scales, global [run-out]"]
    assert sorted(os.listdir(tmp_path)) == before
    err = run("quantize_nvfp4", "--x", x, "--out", f"codes={tmp_path / 'no/q.npy'}", want=1)
    assert "no/q.npy: error: cannot be written: " in err


def test_empty_matrices_are_written(tmp_path):
    at = tmp_path / "q.npy", tmp_path / "s.npy"
    for m, k, codes, scales in ((0, 32, (0, 16), (0, 4)), (3, 0, (3, 0), (128, 0))):
        run("quantize_nvfp4", "-m", m, "-k", k, "--out", at[0], "--out", f"scales={at[1]}")
        assert (np.load(at[0]).shape, np.load(at[1]).shape) == (codes, scales)


@pytest.mark.parametrize("kernel, more", [
    ("quantize_nvfp4", ""), ("silu_mul_quantize_nvfp4", ", or whose product is NaN")])
def test_not_a_number_is_told(kernel, more, tmp_path):
    x = normal(5, 64, 3)
    x[2, 3] = np.nan
    x[4, 5:7] = np.inf, -np.inf
    np.save(tmp_path / "x.npy", x)
    code, text, err = gen("run", kernel, "--x", tmp_path / "x.npy", "--driver", "emu")
    assert code == 0, text + err
    assert "x.npy: note: 1 NaN, which quantises to the largest code, +6\n" in err
    assert f"x.npy: note: 2 infinities, which saturate{more}\n" in err


def test_input_that_does_not_fit(tmp_path):
    def save(name, array):
        np.save(tmp_path / name, array)
        return tmp_path / name

    x, w = save("x.npy", normal(9, 64, 8)), save("w.npy", normal(16, 64, 9))
    q = save("q.npy", np.zeros((9, 32), np.uint8))
    s, odd = (save(f"s{n}.npy", np.zeros((128, n), np.uint8)) for n in (4, 5))
    cases = (
        (1, (*TILE, "--a", q, "--b", w), "codes that are quantised already"),
        (1, (*TILE, "--a", x, "--in", f"sfa={s}", "--b", w), "leave out --in sfa"),
        (1, (*TILE, "--in", f"sfa={s}", "--b", w, "-m", 9), "add --in a=FILE [run-codes]"),
        (2, (*TILE, "--a", q, "--in", f"sfa={odd}", "--b", w),
         "the scales are 128 x 5, but in the layout 128x4 those of a 9 x 64 matrix are 128 x 4"),
        (1, (*TILE, "--a", q, "--in", f"sfa={x}", "--b", w),
         "elements of type '<f4'; bytes, '|u1', are allowed [npy-type]"),
        (1, (*TILE, "--a", q, "--in", f"sfa={s}", "--b", save("w2.npy", normal(16, 66, 9))),
         "w2.npy: error: the matrix is 16 x 66, and "),
        (2, (*TILE, "--a", q, "--in", f"sfa={s}", "--b", w, "-k", 62),
         "the file has k = 64, but -k 62 is given"),
        (2, (*TILE, "--a", q, "--in", f"sfa={s}", "-n", 8, "--rounding", "halfstep"),
         "--rounding without numbers in --a or --b has no meaning"),
        (1, ("quantize_nvfp4", "--x", q), "elements of type '|u1'; '<f4', '<f2' and bf16"),
        (2, ("quantize_nvfp4", "--x", x, "-m", 8), "the file has m = 9, but -m 8 is given"),
        (2, ("silu_mul_quantize_nvfp4", "--x", save("o.npy", normal(9, 65, 9))),
         "o.npy: error: the matrix is 9 x 65, but rows of X of silu_mul_quantize_nvfp4 with x.form = "
         "halves are pairs: a multiple of 16 columns"),
        (2, ("silu_mul_quantize_nvfp4", "--x-type", "f32", "--x", save("x17.npy", normal(4, 17, 9))),
         "the matrix is 4 x 17, but rows of X of silu_mul_quantize_nvfp4 with x.form = halves are "
         "pairs: a multiple of 8 columns; pad both parts"),
        (2, ("silu_mul_quantize_nvfp4", "--set", "x.form=interleaved", "--x",
             save("x40.npy", normal(4, 40, 9))),
         "the matrix is 4 x 40, but rows of X of silu_mul_quantize_nvfp4 with x.form = interleaved "
         "are pairs: a multiple of 16 columns"),
        (2, ("deinterleave_quantize_nvfp4", "--x", save("x3.npy", normal(4, 3, 9))),
         "the matrix is 4 x 3, but"),
        (1, ("dequantize_nvfp4", "--in", f"codes={x}"), "bytes, '|u1', are allowed"),
        (2, ("dequantize_nvfp4", "--in", f"codes={q}", "-k", 62), "the file has k = 64, but"),
        (2, ("dequantize_nvfp4", "--in", f"codes={q}", "--in", f"scales={odd}"), "[run-scales]"),
        (2, ("dequantize_nvfp4", "--in", f"x={x}"), "dequantize_nvfp4 reads no 'x' from a file; "
         "it reads: codes, scales [run-in]"),
        (2, ("convert_scales", "--in", f"from={s}", "-m", 129), "[run-scales]"),
        (2, ("convert_scales", "-m", 3), "-k is missing; say how large the matrix is, or give it "
         "with --in from=FILE"),
    )
    for status, args, text in cases:
        err = run(*args, want=status)
        assert text in err, err
        assert err.count("error: ") == 1, err
