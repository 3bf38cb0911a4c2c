"""python/nvfp4.py against ml_dtypes' float4_e2m1fn and float8_e4m3fn, and its laws."""

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
import nvfp4  # noqa: E402


def around(values):
    values = np.asarray(values, np.float32)
    return np.concatenate([values, np.nextafter(values, np.float32(np.inf)),
                           np.nextafter(values, np.float32(0))])


def test_decode_tables():
    codes = np.arange(8, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    assert np.array_equal(codes, nvfp4.E2M1)
    scales = np.arange(127, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn)
    assert np.array_equal(scales.astype(np.float32), nvfp4.E4M3)


@pytest.mark.parametrize("values, middles, dtype", [
    (nvfp4.E2M1, nvfp4.E2M1_MIDDLES, ml_dtypes.float4_e2m1fn),
    (nvfp4.E4M3, nvfp4.E4M3_MIDDLES, ml_dtypes.float8_e4m3fn)])
def test_encode(values, middles, dtype):
    x = np.concatenate([around(values), around(middles),
                        np.random.default_rng(1).uniform(0, values[-1], 10000)])
    x = x[x <= values[-1]].astype(np.float32)
    assert np.array_equal(nvfp4.nearest_code(x, middles), x.astype(dtype).view(np.uint8))
    assert nvfp4.nearest_code(np.float32(np.inf), middles) == len(values) - 1


def test_blocks_of_zeros_and_of_tiny_numbers():
    x = np.zeros((2, 32), np.float32)
    x[1, 16:] = 1e-30
    x[1, 0] = 6
    codes, scales = nvfp4.quantize(x, np.float32(1))
    assert scales.tolist() == [[0, 0], [0x38, 0]]
    assert codes[0].tolist() == [0] * 32 and codes[1].tolist() == [7] + [0] * 31
    assert nvfp4.global_scale(np.zeros((2, 2))) > 0


def test_exact_data_survives():
    """Values that are E2M1 times a power of two come back unchanged."""
    rng = np.random.default_rng(2)
    x = rng.choice(np.concatenate([nvfp4.E2M1, -nvfp4.E2M1]), (5, 50)).astype(np.float32)
    x[:, ::16] = 6
    codes, scales = nvfp4.quantize(x, np.float32(1))
    assert np.array_equal(nvfp4.decode(codes, scales), x)


def test_product_and_its_bound():
    rng = np.random.default_rng(3)
    x, w = rng.normal(size=(20, 100)), rng.normal(size=(30, 100))
    x, w = x.astype(np.float32), w.astype(np.float32)
    product, bound = nvfp4.gemm(x, w)
    full = x.astype(np.float64) @ w.astype(np.float64).T
    assert 0.05 < np.linalg.norm(product - full) / np.linalg.norm(full) < 0.16
    # The nearest bf16 is within the bound, the one after the next is not.
    nearest = product.astype(ml_dtypes.bfloat16).astype(np.float64)
    assert np.all(np.abs(nearest - product) <= bound)
    assert np.all(np.abs(nearest + 2 * nvfp4.bf16_ulp(nearest) - product) > bound)
