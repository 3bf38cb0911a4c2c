"""What an epilogue costs: instructions for each output value, and bytes for each token.

    python3 bench/epilogue.py            after make; needs ptxas and cuobjdump

Instructions are those of the loop over chunks, without the blocks for columns outside N,
divided by the values of the first output: PTX as generated (pairing of registers is none),
SASS as ptxas makes it for sm_100a.  Bytes are those of activations in global memory.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GEN = ROOT / "bin/gen"
sys.path.insert(0, str(ROOT / "tests"))
from conftest import find_ptxas  # noqa: E402

GATED = "local gate, up = e.interleaved(8, { order = 'gate_up' }) local h = e.silu(gate) * up"
NVFP4 = f"{GATED} return e.nvfp4(h, {{ global = e.param 'd_global'%s }})"
FORMS = {
    "identity, bf16": "identity",
    "bias, bf16": "bias",
    "gelu_tanh, bf16": "gelu_tanh",
    "1 interleaved bf16": "swiglu_interleaved",
    "2 compact bf16": "swiglu",
    "3 NVFP4, hardware path": NVFP4 % ", path = 'hardware'",
    "3 NVFP4, integer path": NVFP4 % ", path = 'integer'",
    "3 NVFP4, half steps": NVFP4 % ", rounding = 'halfstep'",
    "3 NVFP4, reciprocal": NVFP4 % ", division = 'reciprocal'",
    "3 NVFP4, stochastic": NVFP4 % ", rounding = 'stochastic', seed = 1",
    "clamped swiglu, NVFP4": "swiglu_clamped_nvfp4",
    "swiglu, MXFP4": "swiglu_mxfp4",
    "swiglu, MXFP8": "swiglu_mxfp8",
    "NVFP4 without activation": "nvfp4",
}
HIDDEN, INTERMEDIATE = 7168, 2048


def run(*command):
    done = subprocess.run([str(c) for c in command], cwd=ROOT, text=True, check=False,
                          capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"bench: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def generate(form, folder):
    """(PTX text, plan) of a named epilogue or of the inside of a function."""
    if form.isidentifier():
        args = ["--epilogue", form]
    else:
        config = folder / "own.lua"
        config.write_text(f"gemm {{\n  epilogue = function(e) {form} end,\n}}\n")
        args = [config]
    return run(GEN, "emit", *args, "--target", "sm_100a"), run(GEN, "plan", *args)


def usual_way(ptx):
    """The way that all chunks but a row's last one go, without extreme values."""
    for half in "01":
        ptx = re.sub(rf"  @tail bra +EPILOGUE_TAIL_{half};\n", "", ptx)
        ptx = re.sub(rf"  bra.uni +EPILOGUE_PUT_{half};\nEPILOGUE_TAIL_{half}:\n.*?"
                     rf"(?=EPILOGUE_PUT_{half}:)", "", ptx, flags=re.S)
    # A block for extreme values, with the branch that jumps over it.
    return re.sub(r"(  @\w+ bra +(EP_\d+);\n).*?(?=^\2:)", r"\1", ptx, flags=re.S | re.M)


def count_ptx(ptx):
    """Instructions of the loop."""
    loop = re.search(r"^EPILOGUE_CHUNKS:\n(.*?)^EPILOGUE_DONE:", ptx, re.S | re.M).group(1)
    lines = [line.split("//")[0].strip()
             for line in re.sub(r"\n {16}", " ", loop).splitlines()]
    return sum(not (line == "" or line[0] in "{}." or line[-1] == ":" or
                    (line.startswith("mov.b64") and "{" in line)) for line in lines)


def sass_loop(text):
    """Instructions of the innermost loop that loads tensor memory."""
    code = [(int(at, 16), op.strip()) for at, op in
            re.findall(r"^ +/\*([0-9a-f]{4,})\*/ +(.*?);", text, re.M)]
    best = None
    for at, op in code:
        jump = re.search(r"\bBRA(?:\.\S+)?\b.*?0x([0-9a-f]+)$", op)
        if not jump or int(jump.group(1), 16) >= at:
            continue
        body = [o for a, o in code if int(jump.group(1), 16) <= a <= at]
        if any("LDTM" in o for o in body) and (best is None or len(body) < len(best)):
            best = body
    return [o for o in best or [] if not re.match(r"(@\S+ )?NOP", o)]


def find_disassembler(ptxas):
    """cuobjdump beside ptxas, on the path, or from NVIDIA's wheel."""
    beside = ptxas.parent / "cuobjdump"
    if os.access(beside, os.X_OK):
        return beside
    wheels = sorted(ROOT.glob(".venv/lib/python3*/site-packages/nvidia/*/bin/cuobjdump"))
    return shutil.which("cuobjdump") or (wheels[0] if wheels else None)


def assemble(ptx, folder):
    """(registers, SASS instructions of the loop)."""
    tools = find_ptxas()
    if tools is None:
        return None, None
    source, cubin = folder / "k.ptx", folder / "k.cubin"
    source.write_text(ptx)
    log = run(tools, "-v", "-arch=sm_100a", "-o", cubin, source)
    registers = int(re.search(r"Used (\d+) registers", log).group(1))
    disassembler = find_disassembler(tools)
    if disassembler is None:
        return registers, None
    return registers, len(sass_loop(run(disassembler, "-sass", cubin)))


def measure(form, folder):
    ptx, plan = generate(form, folder)
    columns, sets = map(int, re.search(r", (\d+) columns at a time in (\d)", plan).groups())
    outputs = manifest_outputs(ptx)
    halves = 2 if "EPILOGUE_COMPUTE_1" in ptx else 1
    values = halves * columns // outputs[0]["per"]
    expression = re.search(r"instructions +([\d.]+) a value", plan).group(1)
    plain = usual_way(ptx)
    registers, _ = assemble(ptx, folder)
    _, sass = assemble(plain, folder)
    return {"columns": f"{columns} x {sets}", "registers": registers,
            "expression": float(expression), "ptx": count_ptx(plain) / values,
            "sass": sass / values if sass else None}


def manifest_outputs(ptx):
    """Of the `output:` lines: accumulator columns a value, bits, columns a scale byte."""
    rows = re.findall(r"^// output: \S+ format=\S+ cols=(\S+) bits=(\d+) scales=(\d+)", ptx,
                      re.M)
    return [{"per": 2 if cols == "n/2" else 1, "bits": int(bits), "block": int(block)}
            for cols, bits, block in rows]


def row_bytes(outputs, n):
    """Bytes of a row of D and of its scales, with n accumulator columns."""
    total = 0
    for o in outputs:
        cols = n // o["per"]
        total += cols * o["bits"] // 8 + (cols // o["block"] if o["block"] else 0)
    return total


def bytes_of_routes(folder):
    """For each token of the first GEMM of an expert: what GEMM and quantiser move."""
    n = 2 * INTERMEDIATE
    operand = HIDDEN // 2 + HIDDEN // 16
    packed = INTERMEDIATE // 2 + INTERMEDIATE // 16
    routes = {}
    for name, form in (("interleaved bf16, then a kernel", "swiglu_interleaved"),
                       ("compact bf16, then a kernel", "swiglu"),
                       ("fused NVFP4", "swiglu_nvfp4")):
        written = row_bytes(manifest_outputs(generate(form, folder)[0]), n)
        again = 0 if written == packed else written + packed
        routes[name] = (operand, written, again)
    return routes


def show(value, width, digits=1):
    return f"{'-':>{width}}" if value is None else f"{value:{width}.{digits}f}"


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"{'instructions a value, tile 128 x 256':38} columns x sets  registers"
              "  expression PTX  loop PTX  loop SASS")
        for title, form in FORMS.items():
            row = measure(form, folder)
            print(f"{title:38} {row['columns']:>14} {row['registers'] or '-':>10}"
                  f"{show(row['expression'], 16)}{show(row['ptx'], 10)}{show(row['sass'], 11)}")
        print(f"\nbytes a token, hidden {HIDDEN}, intermediate {INTERMEDIATE}:"
              " reads A, writes D, quantiser, all")
        for title, (read, written, again) in bytes_of_routes(folder).items():
            print(f"{title:38} {read:8} {written:8} {again:8} {read + written + again:8}")


if __name__ == "__main__":
    main()
