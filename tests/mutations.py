"""Mutations of emitted kernels: one line dropped, moved or changed, and who notices.

    python3 tests/mutations.py                 # all, a line each
    python3 tests/mutations.py full parity     # those whose name has one of the words
    python3 tests/mutations.py --write docs/mutations.md

Each mutation must find its line, and `gen check` must end in a fault that names the right
place: a hazard or a deadlock that names a line like `names`, or wrong numbers where nothing
but the numbers can be wrong.  A warning counts where the kernel still computes what it
should.  What passes all schedules must be listed as harmless, with a reason.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(os.environ.get("FP4GEN_BIN", ROOT / "bin"))
TILES = ("128x128", "128x192")
# Several tiles for each CTA, a ring that goes round, tails of m, n and k, and columns
# behind the last whole 16 bytes of a row.
PROBLEM = ("-m", "300", "-n", "419", "-k", "1832", "--ctas", "4", "--seeds", "2")

HAZARD, NUMBERS, WARNING, HARMLESS = "hazard", "numbers", "warning", "harmless"


@dataclass
class Mutation:
    name: str
    edit: object          # text -> text; one line differs, or one line has moved
    outcome: str = HAZARD
    names: str = ""       # HAZARD, WARNING: pattern of a line that the report must name
    reason: str = ""      # HARMLESS
    tiles: tuple = TILES
    level: str = ""       # of checks, when it is not the default


def find(text, pattern, which=0):
    """(start, end) of the line that matches, from its first to behind its last character."""
    places = [m for m in re.finditer(rf"^.*(?:{pattern}).*$", text, re.M)
              if not m[0].lstrip().startswith("//")]
    assert places, f"no line for {pattern}"
    place = places[which]
    return place.start(), place.end()


def drop(pattern, which=0):
    def edit(text):
        start, end = find(text, pattern, which)
        return text[:start] + "  // dropped: " + text[start:end].strip() + text[end:]
    return edit


def never(pattern, which=0):
    """An instruction of several lines never runs: a guard that is false in all lanes."""
    def edit(text):
        start, end = find(text, pattern, which)
        line = re.sub(r"^(\s*)(@!?\w+\s+)?", r"\1@!%p_always ", text[start:end])
        return declare(text[:start] + line + text[end:])
    return edit


def declare(text):
    """The predicate of never(): at the start of the body, on a line that is there anyway."""
    head = "  mov.u32       thread, %tid.x;"
    assert head in text
    return text.replace(head, "  .reg .pred %p_always; setp.eq.u32 %p_always, 0, 0;" + head, 1)


def change(pattern, old, new, which=0):
    def edit(text):
        start, end = find(text, pattern, which)
        line, count = re.subn(old, new, text[start:end], count=1)
        assert count == 1 and line != text[start:end], f"{old} is not in {text[start:end]}"
        return text[:start] + line + text[end:]
    return edit


def move(pattern, before, which=0, target=0):
    """The line goes in front of another one."""
    def edit(text):
        start, end = find(text, pattern, which)
        line = text[start:end + 1]
        assert line.rstrip().endswith(";"), "an instruction of several lines cannot move"
        rest = text[:start] + text[end + 1:]
        at, _ = find(rest, before, target)
        return rest[:at] + line + rest[at:]
    return edit


def both(first, second):
    """An address goes along with the instruction that needs it."""
    return lambda text: second(first(text))


def plus(amount):
    return lambda m: str(int(m[0]) + amount)


def last(amount):
    """For the number in front of the semicolon."""
    return lambda m: f"{int(m[0][:-1]) + amount};"


def after(label, edit):
    """The edit in the part of the text behind a label."""
    def inner(text):
        at = text.index(f"\n{label}:\n")
        return text[:at] + edit(text[at:])
    return inner


COPY = r"cp\.async\.bulk\.tensor\.[23]d\.shared"
MMA = r"tcgen05\.mma\."
COMMIT = r"tcgen05\.commit"
FENCE_ASYNC = r"fence\.proxy\.async"
LD = r"tcgen05\.ld"
STORE = r"cp\.async\.bulk\.tensor\.2d\.global"
LOADER = rf"{COPY}|expect_tx|\bfull\[|\bempty\["
PIPE = r"tcgen05\.(mma|cp|commit)"

MUTATIONS = [
    # ---- set-up
    Mutation("init of full[1] is missing", drop(r"mbarrier\.init.*full\[1\]"), names=LOADER),
    Mutation("init of acc_full[0] is missing", drop(r"mbarrier\.init.*acc_full\[0\]"),
             names=rf"{COMMIT}|try_wait"),
    Mutation("empty[0] expects two arrivals",
             change(r"mbarrier\.init.*empty\[0\]", r"\], 1", "], 2"),
             names=r"empty\[0\]"),
    Mutation("acc_empty[0] expects three arrivals",
             change(r"mbarrier\.init.*acc_empty\[0\]", r"\], 4", "], 3"),
             names=r"acc_empty\[0\]|arrive"),
    Mutation("no fence behind the inits of barriers", drop(r"fence\.mbarrier_init"),
             names=r"mbarrier\.init"),
    Mutation("no barrier behind the set-up", after("SETUP_DONE", drop(r"bar\.sync\s+0")),
             names=r"mbarrier|tcgen05|ld\.shared"),
    Mutation("too few tensor memory columns", change(r"tcgen05\.alloc", r"512", "256"),
             names=rf"{PIPE}|dealloc"),
    Mutation("tensor memory address read from another place",
             change(r"ld\.shared\.b32 tmem", r"\d+(?=\])", plus(4)), names=r"ld\.shared\.b32 tmem"),
    Mutation("permit to allocate is kept", drop("relinquish_alloc_permit"), HARMLESS,
             reason="no other CTA of the SM allocates tensor memory while this one runs"),
    Mutation("warps do not reconverge in front of the allocation",
             after("SETUP_TMEM", drop(r"bar\.warp\.sync")), HARMLESS,
             reason="the warp that allocates has not diverged, and bar.sync makes warp 0 whole"),

    # ---- load
    Mutation("loader ignores that a stage is not empty", drop(r"@!ok bra\s+LOAD_WAIT"),
             names=LOADER),
    Mutation("loader starts with the other parity",
             after("LOAD", change(r"mov\.u32\s+phase, 1", "1;", "0;")),
             names=r"empty\[0\]|try_wait"),
    Mutation("loader does not flip its parity",
             after("LOAD", drop(r"@p xor\.b32\s+phase")), names=LOADER),
    Mutation("loader's ring is one stage short",
             after("LOAD", change(r"setp\.eq\.u32\s+p, stage", r"\d+;", last(-1))),
             names=LOADER),
    Mutation("no expect_tx", drop(r"arrive\.expect_tx"), names=r"\bfull\[|try_wait"),
    Mutation("expect_tx of 16 bytes too few", change(r"arrive\.expect_tx", r"\d+;", last(-16)),
             names=r"expect_tx|\bfull\["),
    Mutation("expect_tx of 16 bytes too many", change(r"arrive\.expect_tx", r"\d+;", last(16)),
             names=r"expect_tx|\bfull\["),
    Mutation("expect_tx behind the copies",
             move(r"arrive\.expect_tx", r"add\.u32\s+stage, stage, 1"), HARMLESS,
             reason="the arrival keeps the phase open; the count of bytes is negative until then"),
    Mutation("A is not copied", never(COPY, 0), names=r"\bfull\[|expect_tx"),
    Mutation("scales of B are not copied", never(COPY, 3), names=r"\bfull\[|expect_tx"),
    Mutation("A is copied by all lanes", after("LOAD", drop(r"@!lead bra")), names=LOADER),
    Mutation("B is copied a KiB too far",
             change(r"add\.u32\s+y, x, 16384", "16384", "17408"), names=rf"{COPY}|{PIPE}"),
    Mutation("B is copied 64 bytes too far",
             change(r"add\.u32\s+y, x, 16384", "16384", "16448"), names=COPY),
    Mutation("A signals the barrier of the next stage",
             change(r"\[a_map, \{col, a_row\}\], \[full\]", r"\[full\]", "[full + 8]"),
             names=r"\bfull\[|try_wait"),
    Mutation("A is copied from the wrong column",
             change(r"mul\.lo\.u32\s+col, kt, 128", "128", "64"), NUMBERS),
    Mutation("loader stays at its tile",
             after("LOAD", drop(r"add\.u32\s+tile, tile, tile_step")),
             names=r"\bempty\[|\bfull\[|try_wait|bar\.sync"),
    Mutation("loader does not wait for the last commits", drop(r"@!ok bra\s+LOAD_DRAIN_WAIT"),
             HARMLESS,
             reason="the commit of the last tile, for which the epilogue waits, completes behind "
                    "all others; the drain is there for tiles without an epilogue"),
    Mutation("loader waits for one commit too few",
             after("LOAD_DRAIN", change(r"setp\.lt\.u32\s+p, kt", r"\d+;", last(-1))), HARMLESS,
             reason="as above"),

    # ---- mma
    Mutation("mma ignores that a stage is not full", drop(r"@!ok bra\s+MMA_WAIT;"),
             names=rf"\bfull\[|{PIPE}|{COPY}"),
    Mutation("mma ignores that an accumulator is not empty", drop(r"@!ok bra\s+MMA_WAIT_ACC"),
             names=rf"acc_empty\[|{PIPE}|{LD}"),
    Mutation("mma starts with the other parity of full",
             after("MMA", change(r"mov\.u32\s+phase, 0", "0;", "1;")),
             names=rf"\bfull\[|{PIPE}|{COPY}"),
    Mutation("mma starts with the other parity of acc_empty",
             after("MMA", change(r"mov\.u32\s+acc_phase, 1", "1;", "0;")),
             names=r"acc_empty\[|try_wait"),
    Mutation("mma does not flip the parity of full",
             after("MMA", drop(r"@p xor\.b32\s+phase, phase")),
             names=rf"\bfull\[|{PIPE}|{COPY}|try_wait"),
    Mutation("mma does not flip the parity of acc_empty",
             after("MMA", drop(r"@p xor\.b32\s+acc_phase")), names=rf"acc_|{PIPE}|{LD}"),
    Mutation("mma's ring is one stage short",
             after("MMA", change(r"setp\.eq\.u32\s+p, stage", r"\d+;", last(-1))),
             names=rf"\bfull\[|{PIPE}|{COPY}|try_wait"),
    Mutation("no tcgen05 fence behind the wait for a stage",
             after("MMA_WAIT", drop(r"tcgen05\.fence::after_thread_sync")), HARMLESS,
             reason="nothing of another thread's tcgen05 is used behind it: copies filled "
                    "the stage"),
    Mutation("no tcgen05 fence behind the wait for an accumulator",
             after("MMA_WAIT_ACC", drop(r"tcgen05\.fence::after_thread_sync")), HARMLESS,
             level="default,+15",
             reason="the fence behind the wait for the stage comes before the first MMA, too"),
    Mutation("scales of the tail are changed without a proxy fence",
             after("MMA", drop(FENCE_ASYNC)), names=r"st\.shared|tcgen05\.cp"),
    Mutation("scales of the tail are changed without waiting for the other lanes",
             after("MMA_WAIT", drop(r"bar\.warp\.sync", 0)), names=r"st\.shared|tcgen05\.cp"),
    Mutation("mask of the tail's scales is off by one",
             drop(r"sub\.u32\s+tail_mask, tail_mask, 1"), NUMBERS),
    Mutation("stride of A's descriptor is halved",
             change(r"add\.u64\s+a_desc, wide", "0x4000404000010000", "0x4000402000010000"),
             names=MMA),
    Mutation("swizzle of A's descriptor is 64 bytes",
             change(r"add\.u64\s+a_desc, wide", "0x4000404000010000", "0x8000404000010000"),
             names=MMA),
    Mutation("fixed bits of A's descriptor are missing",
             change(r"add\.u64\s+a_desc, wide", "0x4000404000010000", "0x4000004000010000"),
             names=MMA),
    Mutation("B's descriptor begins 1 KiB early",
             change(r"add\.u64\s+b_desc, a_desc, 1024", "1024", "960"), NUMBERS),
    Mutation("A advances twice as far along K",
             change(r"add\.u64\s+a_desc, a_desc, 2", "2;", "4;"), NUMBERS),
    Mutation("scales of A advance half as far",
             change(r"add\.u64\s+sfa_desc, sfa_desc, 32", "32", "16"), NUMBERS),
    Mutation("instruction descriptor has half of N",
             change(r"mov\.u32\s+idesc", r"0x8([23])00480",
                    lambda m: "0x8100480" if m[1] == "2" else "0x8180480"),
             names=rf"{MMA}|{LD}"),
    Mutation("instruction descriptor has M = 64",
             change(r"mov\.u32\s+idesc", r"0x8(\d)00480", r"0x4\g<1>00480"), names=MMA),
    Mutation("scales of A copied to the wrong columns",
             change(r"tcgen05\.cp.*\[sfa_col \+ 4\]", r"\+ 4", "+ 8"), names=PIPE),
    Mutation("mma reads scales of A from the wrong columns",
             change(r"\[sfa_col \+ 4\], \[", r"\[sfa_col \+ 4\]", "[sfa_col + 8]"), names=MMA),
    Mutation("scales of B not copied", drop(r"tcgen05\.cp.*\[sfb_col \+ 4\], wide"), names=MMA),
    Mutation("scales copied to one lane of each quarter",
             change(r"tcgen05\.cp.*\[sfa_col \+ 0\]", r"32x128b\.warpx4", "4x256b"), NUMBERS),
    Mutation("first mma of a tile adds to what is there",
             change(r"mov\.pred\s+accum, 0", "0;", "1;"), names=MMA),
    Mutation("no mma of a tile adds", drop(r"mov\.pred\s+accum, 1"), NUMBERS),
    Mutation("accumulators overlap",
             change(r"mad\.lo\.u32\s+acc_col, acc, \d+", r"acc, \d+", "acc, 96"),
             names=rf"{PIPE}|{LD}"),
    Mutation("stage is not given back", drop(rf"{COMMIT}.*\[empty\]"), names=r"\bempty\[|try_wait"),
    Mutation("stage is given back in front of the last mma",
             both(move(r"add\.u32\s+empty, full", r"tcgen05\.cp.*sfa_col \+ 12"),
                  move(rf"{COMMIT}.*\[empty\]", r"tcgen05\.cp.*sfa_col \+ 12")),
             names=rf"\bempty\[|{COMMIT}|{COPY}|{MMA}"),
    Mutation("stage is given back by all lanes",
             after("MMA_ISSUE", drop(r"@!lead bra\s+MMA_NEXT")), names=PIPE),
    Mutation("the next stage is given back",
             change(r"add\.u32\s+empty, full", r"\d+;", last(8)),
             names=rf"\bempty\[|{COMMIT}|{COPY}"),
    Mutation("accumulator is not announced", drop(rf"{COMMIT}.*\[acc_bar\]"),
             names=r"acc_full\[|try_wait"),
    Mutation("the other accumulator is announced",
             after("MMA_NEXT", change(r"add\.u32\s+acc_bar, acc_bar", r"\d+;", last(8))),
             names=rf"acc_full\[|acc_empty\[|{COMMIT}|{LD}|try_wait"),
    Mutation("mma warp does not reconverge behind a stage",
             after("MMA_NEXT", drop(r"bar\.warp\.sync")), HARMLESS,
             reason="the other lanes only walk along; try_wait and the tail gather them again"),
    Mutation("scale columns are not advanced", drop(r"add\.u32\s+sf_set, sf_set"), HARMLESS,
             reason="cp and mma of one thread run in order; only whether hardware promises "
                    "it is open"),
    Mutation("old scales are not waited for", drop(r"@!ok bra\s+MMA_WAIT_SCALES"), WARNING,
             names=r"try_wait|\bempty\[", tiles=("128x192",)),

    # ---- epilogue
    Mutation("epilogue ignores that an accumulator is not full", drop(r"@!ok bra\s+EPILOGUE_WAIT"),
             names=rf"acc_full\[|{LD}|{MMA}"),
    Mutation("epilogue starts with the other parity",
             after("EPILOGUE", change(r"mov\.u32\s+acc_phase, 0", "0;", "1;")),
             names=rf"acc_full\[|{LD}|{MMA}"),
    Mutation("epilogue does not flip its parity",
             after("EPILOGUE", drop(r"@p xor\.b32\s+acc_phase")),
             names=rf"acc_|{LD}|{MMA}|try_wait"),
    Mutation("epilogue reads the other accumulator",
             after("EPILOGUE",
             change(r"mad\.lo\.u32\s+tmem_at, acc, (\d+)", r"acc, \d+", "acc, 0")),
             names=rf"{LD}|{MMA}"),
    Mutation("no wait for the first tcgen05.ld",
             after("EPILOGUE_CHUNKS", drop(r"tcgen05\.wait::ld")), WARNING,
             names=rf"{LD}|mov\.b64"),
    Mutation("no tcgen05 fence in front of the last arrival",
             after("EPILOGUE_LAST_1", drop(r"tcgen05\.fence::before_thread_sync")), WARNING,
             names=rf"{LD}|{MMA}|arrive", level="default,+15"),
    Mutation("accumulator is given back in front of the wait for its last columns",
             move(r"@lead mbarrier\.arrive.*acc_bar", r"tcgen05\.wait::ld", 1, 1),
             names=rf"acc_empty\[|arrive|{LD}|{MMA}"),
    Mutation("accumulator is not given back",
             after("EPILOGUE_LAST_1", drop(r"@lead mbarrier\.arrive")),
             names=r"acc_empty\[|try_wait"),
    Mutation("accumulator is given back by all lanes",
             after("EPILOGUE_LAST_1", change(r"@lead mbarrier\.arrive", "@lead ", "")),
             names=r"mbarrier\.arrive|acc_empty"),
    Mutation("lanes do not wait for each other in front of the arrival",
             after("EPILOGUE_LAST_1", drop(r"bar\.warp\.sync")), HARMLESS,
             reason="tcgen05.wait is .sync.aligned: all lanes have their columns"),
    Mutation("lane quarter of the warp is shifted by a bit",
             change(r"shl\.b32\s+x, warp, 21", "21", "20"), names=LD),
    Mutation("columns of the second chunk are shifted",
             change(r"add\.u32\s+tmem_at, tmem_at, 32", "32;", "16;"), NUMBERS),
    Mutation("staging is written before its last store has read it",
             after("EPILOGUE_COMPUTE_0", drop(r"cp\.async\.bulk\.wait_group\.read")),
             names=rf"st\.shared|{STORE}"),
    Mutation("stores of the last chunk are not a group",
             after("EPILOGUE_COMPUTE_0", drop(r"cp\.async\.bulk\.commit_group")),
             names=rf"st\.shared|{STORE}"),
    Mutation("lanes do not wait for each other in front of staging",
             after("EPILOGUE_COMPUTE_0", drop(r"bar\.warp\.sync", 0)),
             names=rf"st\.shared|{STORE}"),
    Mutation("staging is stored without a proxy fence",
             after("EPILOGUE_COMPUTE_0", drop(FENCE_ASYNC)), names=rf"st\.shared|{STORE}"),
    Mutation("staging is stored without waiting for the other lanes",
             after("EPILOGUE_COMPUTE_0", drop(r"bar\.warp\.sync", 1)),
             names=rf"st\.shared|{STORE}"),
    Mutation("a chunk is not stored", never(STORE, 0), NUMBERS),
    Mutation("a chunk is stored by all lanes",
             change(r"p, o0_col, o0_whole, lead", r"setp\.lt\.and(.*), lead", r"setp.lt\1"),
             names=STORE),
    Mutation("a swizzled piece lands on another one",
             change(r"xor\.b32\s+x, o0_line, 16", "16", "32"), names=rf"st\.shared|{STORE}"),
    Mutation("staging of two warps overlaps",
             change(r"mad\.lo\.u32\s+x, warp, 2048, base", "2048", "1024"),
             names=rf"st\.shared|{STORE}"),
    Mutation("rows of the warp begin elsewhere",
             after("EPILOGUE", change(r"shl\.b32\s+x, warp, 5", "5;", "4;")), NUMBERS),
    Mutation("rows past the end are stored",
             drop(r"@p mov\.u32\s+rest, 0"), names=r"st\.global"),
    Mutation("no wait for the last stores' reads",
             after("EPILOGUE_END", drop(r"cp\.async\.bulk\.wait_group\.read")), WARNING,
             names=STORE),

    # ---- end
    Mutation("tensor memory is not freed", drop(r"tcgen05\.dealloc"), names=r"tcgen05\.alloc|ret"),
    Mutation("tensor memory is freed too early",
             move(r"tcgen05\.dealloc", r"bar\.sync\s+0", 0, 1), names=r"dealloc"),
    Mutation("half of tensor memory is freed", change(r"tcgen05\.dealloc", "512", "256"),
             names=r"dealloc"),
    Mutation("tensor memory is freed without waiting for the other warps",
             after("WARP_END", drop(r"bar\.sync\s+0")), names=r"dealloc"),
]


@dataclass
class Outcome:
    mutation: Mutation
    tile: str
    line: str        # as it is in the mutated kernel
    got: str         # HAZARD, NUMBERS, WARNING or HARMLESS
    schedule: str    # of the first fault
    check: str       # "check 7, phase overrun", "run-wrong"
    named: list      # lines that the report names
    text: str

    def wrong(self):
        """Why it is not as the list says; None."""
        m = self.mutation
        if self.got == NUMBERS and m.outcome == HAZARD:
            return "only the numbers show it"
        if self.got == HAZARD and m.outcome == WARNING:
            return None
        if self.got != m.outcome and not (self.got == HAZARD and m.outcome == NUMBERS):
            return f"{self.got}, and not {m.outcome}"
        if self.got in (HAZARD, WARNING) and m.names and m.outcome != NUMBERS:
            if not any(re.search(m.names, line) for line in self.named):
                return "the report names none of " + m.names
        return None


def emit(tile):
    return subprocess.run([BIN / "gen", "--tile", tile], text=True, capture_output=True,
                          check=True).stdout


def changed_line(before, after_text):
    old, new = before.splitlines(), after_text.splitlines()
    for a, b in zip(old, new):
        if a != b and "p_always;" not in b:
            return " ".join(b.split())
    return ""


def judge(mutation, tile, kernel):
    mutant = mutation.edit(kernel)
    lines = mutant.splitlines()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(mutant)
        level = ("--check", mutation.level) if mutation.level else ()
        done = subprocess.run([str(BIN / "gen"), "check", str(path), *PROBLEM, *level], text=True,
                              capture_output=True, timeout=300, check=False)
    out = done.stdout + done.stderr
    named = [lines[int(n) - 1] for n in dict.fromkeys(re.findall(r"\bline (\d+)", out))
             if 0 < int(n) <= len(lines)]
    schedule = re.search(r"FAULT under (\S+?)(?:, seed (\d+))?, run", out)
    schedule = "" if not schedule else schedule[1] + (f" {schedule[2]}" if schedule[2] else "")
    error = re.search(r"error in kernel .*\[(.*)\]", out)
    compared = re.search(r"\[(run-\w+)\]", out)
    warning = re.search(r"warning in kernel .*\[(.*)\]", out)
    if done.returncode == 0:
        got = WARNING if warning else HARMLESS
        check = warning[1] if warning else ""
    elif error:
        got, check = HAZARD, error[1]
    elif compared:
        got, check = NUMBERS, compared[1]
    else:
        got, check = "nothing that is known", ""
    return Outcome(mutation, tile, changed_line(kernel, mutant), got, schedule, check, named, out)


def run_all(mutations, tiles, progress=lambda outcome: None, workers=2):
    kernels = {tile: emit(tile) for tile in tiles}
    work = [(m, t) for m in mutations for t in tiles if t in m.tiles]

    def one(pair):
        outcome = judge(*pair, kernels[pair[1]])
        progress(outcome)
        return outcome
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(one, work))


def cell(o):
    """What the table says of one mutant."""
    if o.got == HARMLESS:
        return f"harmless: {o.mutation.reason}"
    text = f"`{o.schedule}`: {o.check}" if o.schedule else f"{o.check} (a warning)"
    place = next((line for line in o.named if o.mutation.names
                  and re.search(o.mutation.names, line)), "")
    opcode = re.search(r"^(?:@!?\w+\s+)?([a-z]\w*(?:(?:\.|::)\w+)*)", place.strip())
    if opcode:
        text += f", at `{'.'.join(opcode[1].split('.')[:3])}`"
    comment = re.search(r"//\s*(\w+\[\d\])", place)
    if comment:
        text += f" of {comment[1]}"
    return text


def write_table(outcomes, path):
    caught = sum(o.got != HARMLESS for o in outcomes)
    rows = ["# Mutations of the kernels", "",
            "Written by `tests/mutations.py --write`.  One line of an emitted kernel is dropped, "
            "moved or changed, and",
            "`gen check` runs the kernel under the schedules of `emu/README.md` until the first "
            "fault.  The table says under",
            "which schedule that was, which check told it (`run-wrong`, `run-unwritten`: wrong "
            "numbers and nothing else),",
            "and which instruction the report names.", "",
            f"{len(outcomes)} mutants: {caught} are caught, "
            f"{len(outcomes) - caught} are harmless.", "",
            "| mutation | " + " | ".join(TILES) + " |", "|---" * (1 + len(TILES)) + "|"]
    for m in dict.fromkeys(o.mutation.name for o in outcomes):
        cells = []
        for tile in TILES:
            found = [o for o in outcomes if o.mutation.name == m and o.tile == tile]
            text = cell(found[0]) if found else "-"
            cells.append("the same" if cells and text == cells[0] else text)
        level = next(o.mutation.level for o in outcomes if o.mutation.name == m)
        name = f"{m} (`--check {level}`)" if level else m
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    Path(path).write_text("\n".join(rows) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="only mutations whose name has one of these")
    parser.add_argument("--tile", action="append", choices=TILES)
    parser.add_argument("--write", metavar="FILE", help="the table, as Markdown")
    parser.add_argument("--show", action="store_true", help="whole reports")
    args = parser.parse_args()
    chosen = [m for m in MUTATIONS if not args.words or any(w in m.name for w in args.words)]

    def show(o):
        why = o.wrong()
        print(f"{'WRONG ' if why else 'ok    '} {o.tile} {o.mutation.name}: {o.got} {o.check} "
              f"{o.schedule}{': ' + why if why else ''}", flush=True)
        if args.show:
            print(o.text)
    outcomes = run_all(chosen, args.tile or TILES, show)
    if args.write:
        write_table(outcomes, args.write)
    bad = sum(o.wrong() is not None for o in outcomes)
    print(f"{len(outcomes)} mutants, {bad} not as listed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
