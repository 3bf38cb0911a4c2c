#!/usr/bin/env python3
"""The quantise kernels on a GPU: time, bandwidth, and the same results as others.

    python3 bench/quantize_h200.py [--ptx DIR] [--lib lib/libfp4gen.so] [--sizes MxK,...]

Runs quantize_nvfp4 (bf16, scales 128x4) beside a plain Triton kernel (the best of four
tiles) and PyTorch eager, each as a CUDA graph whose launches go round buffers that
together are larger than the L2 cache, and a device-to-device copy in the same run.  All
three write the same bytes, which is checked.  Then the other kernels of gen/quantize.h at
8192 x 8192.  With --ptx DIR the kernels are the files DIR/*.ptx instead of what bin/gen
makes here; the first quantize_nvfp4 (by name) is the one that is compared.
"""
import argparse
import ctypes
import glob
import os
import subprocess
import sys

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SIZES = [(8192, 8192), (4096, 7168), (1, 7168), (8, 7168), (64, 7168), (256, 7168)]
L2_TIMES = 4       # bytes that rotate, in units of the L2 cache
REPLAYS = 20


# ---- libfp4gen

class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("cuda", ctypes.c_int),
                ("code", ctypes.c_char * 32), ("text", ctypes.c_char * 4096)]


class Args(ctypes.Structure):
    _fields_ = [("m", ctypes.c_uint32), ("k", ctypes.c_uint32),
                ("x", ctypes.c_uint64), ("ldx", ctypes.c_uint64),
                ("codes", ctypes.c_uint64), ("ldc", ctypes.c_uint64),
                ("scales", ctypes.c_uint64), ("lds", ctypes.c_uint64),
                ("from_", ctypes.c_uint64), ("ldf", ctypes.c_uint64),
                ("global_", ctypes.c_float), ("global_ptr", ctypes.c_uint64),
                ("amax_ptr", ctypes.c_uint64), ("amax_is_ready", ctypes.c_int),
                ("global_out", ctypes.c_uint64), ("seed", ctypes.c_uint32),
                ("stream", ctypes.c_void_p)]


class Library:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.error = Error()
        self.device = ctypes.c_void_p()
        self.call("fp4gen_open", ctypes.byref(self.device), 1, 0, None)

    def call(self, name, *args):
        if getattr(self.lib, name)(*args, ctypes.byref(self.error)):
            sys.exit(f"{name}: {self.error.text.decode()} [{self.error.code.decode()}]")

    def load(self, ptx):
        kernel = ctypes.c_void_p()
        self.call("fp4gen_load", ctypes.byref(kernel), self.device, ptx,
                  ctypes.c_size_t(len(ptx)))
        return kernel


# ---- the other two

def scale_offsets(m, k, device):
    """Where the scale of (row, block) lies in the 128x4 layout."""
    rows = torch.arange(m, device=device)[:, None]
    blocks = torch.arange(k // 16, device=device)[None, :]
    return ((rows // 128 * ((k + 63) // 64) + blocks // 4) * 512 + rows % 32 * 16
            + rows % 128 // 32 * 4 + blocks % 4)


def scale_bytes(m, k):
    return (m + 127) // 128 * ((k + 63) // 64) * 512


MIDPOINTS = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0]


def eager(x, global_scale, codes, scales):
    """As one writes it in PyTorch: whole tensors, one operation after the other."""
    m, k = x.shape
    v = x.float().view(m, k // 16, 16)
    t = v.abs().amax(-1) * torch.tensor(1 / 6, dtype=torch.float32) / global_scale
    sf = t.clamp(max=448).to(torch.float8_e4m3fn)
    d = sf.float() * global_scale
    q = torch.where(d[..., None] > 0, v / d[..., None], 0)
    a = q.abs()
    code = torch.zeros_like(a, dtype=torch.uint8)
    for i, mid in enumerate(MIDPOINTS):
        code += (a >= mid) if i % 2 else (a > mid)
    code |= torch.signbit(q).to(torch.uint8) << 3
    code = code.view(m, k // 2, 2)
    codes.copy_(code[..., 0] | code[..., 1] << 4)
    padded = scales.view((m + 127) // 128, (k + 63) // 64, 32, 4, 4)
    if m % 128:
        rows = torch.zeros((m + 127) // 128 * 128, k // 16, dtype=torch.uint8,
                           device=x.device)
        rows[:m] = sf.view(torch.uint8)
    else:
        rows = sf.view(torch.uint8)
    padded.copy_(rows.view((m + 127) // 128, 4, 32, k // 64, 4).permute(0, 3, 2, 1, 4))


def make_triton():
    import triton
    import triton.language as tl
    from triton.language.extra import libdevice

    @triton.jit
    def kernel(x, codes, scales, global_ptr, m, k, ROWS: tl.constexpr,
               COLS: tl.constexpr):
        rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
        inside = (rows[:, None] < m) & (cols[None, :] < k)
        at = rows[:, None].to(tl.int64) * k + cols[None, :]
        v = tl.load(x + at, mask=inside, other=0).to(tl.float32)
        v = tl.reshape(v, (ROWS, COLS // 16, 16))
        amax = tl.max(tl.abs(v), 2)
        g = tl.load(global_ptr)
        t = tl.div_rn(amax * (1.0 / 6), g)
        sf = tl.minimum(t, 448.0).to(tl.float8e4nv)
        d = tl.expand_dims(sf.to(tl.float32) * g, 2)
        q = tl.where(d > 0, tl.div_rn(v, tl.broadcast_to(d, (ROWS, COLS // 16, 16))), 0)
        a = tl.abs(q)
        code = ((a > 0.25).to(tl.uint8) + (a >= 0.75).to(tl.uint8)
                + (a > 1.25).to(tl.uint8) + (a >= 1.75).to(tl.uint8)
                + (a > 2.5).to(tl.uint8) + (a >= 3.5).to(tl.uint8)
                + (a > 5.0).to(tl.uint8))
        sign = (q.to(tl.int32, bitcast=True) >> 28) & 8
        code = code | sign.to(tl.uint8)
        low, high = tl.split(tl.reshape(code, (ROWS, COLS // 2, 2)))
        pairs = tl.program_id(1) * (COLS // 2) + tl.arange(0, COLS // 2)
        tl.store(codes + rows[:, None].to(tl.int64) * (k // 2) + pairs[None, :],
                 low | (high << 4), mask=(rows[:, None] < m) & (pairs[None, :] < k // 2))
        blocks = tl.program_id(1) * (COLS // 16) + tl.arange(0, COLS // 16)
        k64 = (k + 63) // 64
        r = rows[:, None]
        b = blocks[None, :]
        where = ((r // 128 * k64 + b // 4) * 512 + r % 32 * 16 + r % 128 // 32 * 4
                 + b % 4)
        tl.store(scales + where, sf.to(tl.uint8, bitcast=True), mask=b < k64 * 4)

    def run(x, global_scale, codes, scales, rows=16, cols=256, warps=4):
        m, k = x.shape
        grid = (triton.cdiv((m + 127) // 128 * 128, rows), triton.cdiv(k, cols))
        kernel[grid](x, codes, scales, global_scale, m, k, ROWS=rows, COLS=cols,
                     num_warps=warps)
    return run


# ---- time

def graph_time_us(launch, count):
    """launch(i) for i in range(count) as a graph; the median of replays, a launch."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(min(count, 3)):
            launch(i)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for i in range(count):
                launch(i)
        times = []
        graph.replay()
        for _ in range(REPLAYS):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e3 / count)
    return sorted(times)[len(times) // 2]


def copy_gbps(device):
    """The best of the driver's copy and an element-wise kernel, 2 GiB to 2 GiB."""
    a = torch.empty(1 << 29, dtype=torch.float32, device=device).fill_(1)
    b = torch.empty_like(a)
    ways = {"copy_": lambda i: b.copy_(a), "mul": lambda i: torch.mul(a, 2, out=b)}
    found = {name: 8 * a.numel() / graph_time_us(f, 2) * 1e-3
             for name, f in ways.items()}
    print("device copy, GB/s read and written:",
          ", ".join(f"{name} {gbps:.0f}" for name, gbps in found.items()))
    return max(found.values())


def launches_for(m, k):
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    bytes_moved = m * k * 2 + m * k // 2 + scale_bytes(m, k)
    return max(4, min(512, -(-L2_TIMES * l2 // bytes_moved)))


class Problem:
    def __init__(self, m, k):
        torch.manual_seed(m * 7 + k)
        self.m, self.k, self.count = m, k, launches_for(m, k)
        self.x = [torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
                  for _ in range(self.count)]
        self.codes = [torch.zeros(m, k // 2, device="cuda", dtype=torch.uint8)
                      for _ in range(self.count)]
        self.scales = [torch.zeros(scale_bytes(m, k), device="cuda", dtype=torch.uint8)
                       for _ in range(self.count)]
        amax = self.x[0].float().abs().max()
        self.global_scale = (amax / 2688).reshape(1)
        self.bytes = m * k * 2 + m * k // 2 + m * k // 16

    def clear(self):
        for t in self.codes + self.scales:
            t.fill_(0xee)

    def result(self):
        return self.codes[0].clone(), self.scales[0].clone()

    def ours(self, lib, kernel):
        def launch(i):
            a = Args(m=self.m, k=self.k, x=self.x[i].data_ptr(),
                     codes=self.codes[i].data_ptr(), scales=self.scales[i].data_ptr(),
                     global_ptr=self.global_scale.data_ptr(),
                     stream=torch.cuda.current_stream().cuda_stream)
            lib.call("fp4gen_quantize", kernel, ctypes.byref(a))
        return launch


WIDTHS = {  # op: columns of X for one of the result
    "quantize_nvfp4": 1,
    "silu_mul_quantize_nvfp4": 2,
    "deinterleave_quantize_nvfp4": 2,  # sectors hold both groups
    "dequantize_nvfp4": 1,
}
MORE = {"dequantize_nvfp4, f32": ["dequantize_nvfp4", "--set", "x.type=f32"]}


def op_of(ptx):
    return ptx.split(b"// op: ")[1].split(b"\n")[0].decode()


def x_bytes_of(ptx):
    return 4 if b"// x-type: f32\n" in ptx else 2


def kernels(args):
    if args.ptx:
        return [(os.path.basename(p)[:-4], open(p, "rb").read())
                for p in sorted(glob.glob(os.path.join(args.ptx, "*.ptx")))]
    gen = os.path.join(ROOT, "bin", "gen")
    cc = "".join(map(str, torch.cuda.get_device_capability()))
    target = {"90": "sm_90a", "100": "sm_100f", "103": "sm_103f"}.get(cc, "sm_80")
    wanted = {op: [op] for op in WIDTHS} | MORE
    return [(name, subprocess.run([gen, *command, "--target", target], check=True,
                                  capture_output=True).stdout)
            for name, command in wanted.items()]


def compare(lib, ours, sizes, copy, with_others):
    triton_run = make_triton() if with_others else None
    print(f"{'m x k':>12} {'kernel':24} {'us':>9} {'GB/s':>7} {'of copy':>8} "
          f"{'by ours':>8}  same bytes")
    for m, k in sizes:
        problem = Problem(m, k)
        g = problem.global_scale
        runs = [(name, [problem.ours(lib, kernel)]) for name, kernel in ours]
        if triton_run:
            tiles = [(16, 256, 4), (32, 128, 4), (8, 512, 4), (1, 1024, 4)]
            runs.append(("triton", [lambda i, t=t: triton_run(
                problem.x[i], g, problem.codes[i], problem.scales[i], *t)
                for t in tiles]))
            runs.append(("pytorch eager", [lambda i: eager(
                problem.x[i], g, problem.codes[i], problem.scales[i])]))
        first = None
        for _ in range(20):  # clocks rise while something runs
            graph_time_us(runs[0][1][0], problem.count)
        for name, ways in runs:
            problem.clear()
            us = min(graph_time_us(launch, problem.count) for launch in ways)
            result = problem.result()
            first = first or (us, result)
            same = all(torch.equal(a, b) for a, b in zip(result, first[1]))
            gbps = problem.bytes / us * 1e-3
            print(f"{m:>6} x {k:<5}{name:24} {us:9.2f} {gbps:7.0f} {gbps / copy:8.3f} "
                  f"{us / first[0]:7.2f}x  {'yes' if same else 'NO'}", flush=True)


def show_others(lib, ours, copy, m=8192, k=8192):
    print("\nthe other kernels, scales 128x4, bf16 but where it says f32")
    codes = [torch.randint(0, 256, (m, k // 2), device="cuda", dtype=torch.uint8)
             for _ in range(4)]
    scales = [torch.randint(0, 0x7f, (scale_bytes(m, k),), device="cuda",
                            dtype=torch.uint8) for _ in range(4)]
    words = torch.ones(8, device="cuda")
    for name, kernel, op, x_bytes, by_amax in ours:
        width = WIDTHS[op]
        bytes_a_value = 0.5625 + width * x_bytes
        x = [torch.randn(m, k * width, device="cuda",
                         dtype=torch.float32 if x_bytes == 4 else torch.bfloat16)
             for _ in range(4)]

        def launch(i):
            a = Args(m=m, k=k, x=x[i].data_ptr(), codes=codes[i].data_ptr(),
                     scales=scales[i].data_ptr(), global_=0.01,
                     amax_ptr=words.data_ptr() if by_amax else 0,
                     stream=torch.cuda.current_stream().cuda_stream)
            lib.call("fp4gen_quantize", kernel, ctypes.byref(a))
        us = graph_time_us(launch, 4)
        if by_amax:
            bytes_a_value += x_bytes * width
        gbps = m * k * bytes_a_value / us * 1e-3
        label = name + (", amax first" if by_amax else "")
        print(f"{m:>6} x {k:<5}{label:40} {us:9.2f} {gbps:7.0f} {gbps / copy:8.3f}",
              flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--ptx")
    p.add_argument("--lib", default=os.path.join(ROOT, "lib", "libfp4gen.so"))
    p.add_argument("--sizes", default=",".join(f"{m}x{k}" for m, k in SIZES))
    p.add_argument("--no-others", action="store_true")
    args = p.parse_args()
    lib = Library(args.lib)
    ours = [(name, lib.load(text), op_of(text), x_bytes_of(text))
            for name, text in kernels(args)]
    copy = copy_gbps("cuda")
    print(f"{torch.cuda.get_device_name()}, 'of copy' is of {copy:.0f} GB/s")
    sizes = [tuple(map(int, size.split("x"))) for size in args.sizes.split(",")]
    compare(lib, [(n, kernel) for n, kernel, op, _ in ours if op == "quantize_nvfp4"],
            sizes, copy, not args.no_others)
    show_others(lib, [(n, kernel, op, x_bytes, op == "quantize_nvfp4")
                      for n, kernel, op, x_bytes in ours], copy)


if __name__ == "__main__":
    main()
