"""NVFP4 in numpy: quantise, decode, multiply.

A second implementation for the demonstrations and the Python tests, written from
docs/numerics.md and not from the C code.  Everything that the definition rounds to f32
is a numpy float32 operation here.
"""

import numpy as np

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
E2M1_MIDDLES = ((E2M1[:-1] + E2M1[1:]) / 2).astype(np.float32)
# All finite UE4M3 values, 0x00 to 0x7e, ascending.
E4M3 = np.array([(m / 8 + (e > 0)) * 2.0 ** (max(e, 1) - 7)
                 for e in range(16) for m in range(8)][:127], np.float32)
E4M3_MIDDLES = ((E4M3[:-1].astype(np.float64) + E4M3[1:]) / 2)
BLOCK = 16


def nearest_code(x, middles):
    """Index of the nearest of the values that `middles` separate; ties to even."""
    below = np.searchsorted(middles, x, side="left")   # a tie counts as below
    above = np.searchsorted(middles, x, side="right")
    return np.where(below % 2 == 0, below, above)


def global_scale(x):
    amax = np.float32(np.max(np.abs(x), initial=0))
    return amax / np.float32(448 * 6) if amax > 0 else np.float32(1)


def quantize(x, scale):
    """Rows of f32 to (codes, scale bytes), one code a byte; K is padded to blocks."""
    rows, k = x.shape
    x = np.pad(x.astype(np.float32), ((0, 0), (0, -k % BLOCK)))
    blocks = x.reshape(rows, -1, BLOCK)
    amax = np.max(np.abs(blocks), axis=2)
    t = (amax * np.float32(1.0 / 6.0)) / np.float32(scale)
    sf = nearest_code(t, E4M3_MIDDLES).astype(np.uint8)
    step = E4M3[sf] * np.float32(scale)
    with np.errstate(divide="ignore", invalid="ignore"):
        q = blocks / step[:, :, None]
    codes = nearest_code(np.abs(q), E2M1_MIDDLES) + 8 * np.signbit(q)
    codes[sf == 0] = 0
    return codes.reshape(rows, -1)[:, :k].astype(np.uint8), sf


def decode(codes, sf):
    """Values without the global scale, in f64, where they are exact."""
    signs = np.where(codes & 8, -1.0, 1.0)
    values = signs * E2M1[codes & 7].astype(np.float64)
    return values * np.repeat(E4M3[sf].astype(np.float64), BLOCK, axis=1)[:, :codes.shape[1]]


def bf16_ulp(x):
    _, exponent = np.frexp(np.abs(x))
    return np.ldexp(1.0, np.maximum(exponent, -125) - 8)


def gemm(x, w):
    """x @ w.T through NVFP4: the product in f64, and how far from it a right bf16 result
    may be: (K/64 + 1) 2^-23 of the sum of |products|, and half a unit of bf16."""
    gx, gw = global_scale(x), global_scale(w)
    a, b = decode(*quantize(x, gx)), decode(*quantize(w, gw))
    alpha = float(gx * gw)  # one f32 number, as the kernel gets it
    product = alpha * (a @ b.T)
    sums = (-(-x.shape[1] // 64) + 1) * 2.0 ** -23 * alpha * (np.abs(a) @ np.abs(b).T)
    return product, sums + 0.5 * bf16_ulp(np.abs(product) + sums)


def read_npy(path):
    """An .npy of f32, f16 or bf16 (2-byte void, or the uint16 of its bits) as f32."""
    data = np.load(path)
    if data.dtype.kind == "V" or data.dtype == np.uint16:
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return data.astype(np.float32)
