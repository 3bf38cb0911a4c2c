"""make demo-real: one feed-forward matrix of a sentence encoder on real sentences.

The activations of python/sentences.txt in front of a feed-forward matrix of
all-MiniLM-L6-v2, and that matrix, go as .npy files through `gen run`, which quantises
them to NVFP4 and runs a generated kernel.  What comes out is compared with the product
in full precision (the price of 4 bits) and with the exact product of the quantised
numbers (is the kernel right?).  Exit code 1 when either is out of bounds.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np

import minilm
import nvfp4

ROOT = Path(__file__).resolve().parent.parent
# Gaussian data loses about 0.09 in each operand, 0.13 in the product of both.
WORST_RELATIVE_ERROR = 0.15


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--layer", type=int, default=0, choices=range(6))
    parser.add_argument("--tile", default="128x128")
    parser.add_argument("--driver", default="auto", choices=("auto", "cuda", "emu"))
    args = parser.parse_args()

    sentences = (ROOT / "python/sentences.txt").read_text(encoding="utf-8").splitlines()
    x, w = minilm.feed_forward_input(sentences, args.layer)
    print(f"all-MiniLM-L6-v2, layer {args.layer}: {len(sentences)} sentences, "
          f"{x.shape[0]} tokens, times a {w.shape[0]} x {w.shape[1]} matrix", flush=True)

    folder = ROOT / "build/demo-real"
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "x.npy", x)
    np.save(folder / "w.npy", w)
    command = [str(ROOT / "bin/gen"), "run", "--tile", args.tile, "--driver", args.driver,
               "--a", str(folder / "x.npy"), "--b", str(folder / "w.npy"),
               "--out", str(folder / "y.npy")]
    if subprocess.run(command, check=False).returncode != 0:
        return 1

    y = nvfp4.read_npy(folder / "y.npy").astype(np.float64)
    full = x.astype(np.float64) @ w.astype(np.float64).T
    product, bound = nvfp4.gemm(x, w)
    if y.shape != full.shape:
        print(f"demo-real: the result is {y.shape}, expected {full.shape}")
        return 1
    relative = np.linalg.norm(y - full) / np.linalg.norm(full)
    worst = np.max(np.abs(y - product) / bound)
    cosine = np.sum(y * full) / (np.linalg.norm(y) * np.linalg.norm(full))
    print(f"against full precision:          relative error {relative:.4f} "
          f"(allowed {WORST_RELATIVE_ERROR}), cosine {cosine:.5f}")
    print(f"against the dequantised product: worst error {worst:.3f} of the bound "
          "(half an ulp of bf16 + (K/64 + 1) 2^-23 sum |a b|)")
    if not (relative <= WORST_RELATIVE_ERROR and worst <= 1):
        print("demo-real: out of bounds")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
