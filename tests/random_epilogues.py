"""Random epilogues, the same for the same number, as text of a config.

Two kinds: what a layer may want, an activation or a gate, with every way to quantise it; and
dense ones, many operations on many inputs with up to three outputs."""

import itertools
import random

SCALAR = "e.param('seed', { type = 'u32' })"
BODIES = (
    "local h = e.acc",
    "local g, u = e.interleaved(8) local h = e.silu(g) * u",
    "local g, u = e.interleaved(32) local h = e.gelu_tanh(g) * u",
    "local g, u = e.interleaved(8) local h = e.precise.silu(g) * u",
    "local h = e.relu2(e.acc + e.bias)",
    "local h = e.acc + e.aux 'c'",
    "local h = e.gelu_erf(e.acc)",
    "local h = e.silu(e.acc * e.row_scale + e.bias)",
)
ROUNDINGS = ("", ", rounding = 'halfstep'", ", rounding = 'stochastic', seed = " + SCALAR)
PATHS = ("auto", "integer")
DIVISIONS = ("exact", "reciprocal")
UNARY = ("e.abs", "-", "e.floor", "e.ceil", "e.trunc", "e.round", "e.relu", "e.relu2", "e.bf16",
         "e.f16", "e.e4m3", "e.e5m2", "e.e2m1", "e.silu", "e.exp2", "e.tanh", "e.rcp",
         "e.gelu_erf", *(f"e.precise.{name}" for name in
                         ("silu", "gelu_tanh", "tanh", "exp", "sigmoid", "rcp", "sqrt", "erf",
                          "log2", "rsqrt")))
INFIX = ("+", "-", "*", "/")
BINARY = ("min", "max", "minimum", "maximum", "copysign")
COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
OUTPUTS = ("f32", "bf16", "f16", "d", "amax", "e4m3", "e5m2", "e2m1", "nvfp4", "mxfp4", "mxfp8")


def config(tile_n, lines):
    body = "\n".join("    " + line for line in lines)
    return (f"gemm {{\n  tile = {{ m = 128, n = {tile_n}, k = 256 }},\n"
            f"  epilogue = function(e)\n{body}\n  end,\n}}\n")


def plausible():
    """All of them, by a name of what they are."""
    found = {}
    for body, rounding, path, division, n in itertools.product(BODIES, ROUNDINGS, PATHS,
                                                               DIVISIONS, (128, 256)):
        call = (f"return e.nvfp4(h, {{ global = e.param 'g'{rounding}, path = '{path}', "
                f"division = '{division}' }})")
        found[f"{n}: {body} {call}"] = config(n, [body, call])
    return found


class Dense:
    """One of many operations."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.lines = []
        self.values = []    # names
        self.whole = set()  # of these: of one column, so fit to be stored
        self.pairs = self.r.random() < 0.4

    def any(self):
        return self.r.choice(self.values)

    def add(self, name, text, *made_of):
        self.lines.append(f"local {name} = {text}")
        self.values.append(name)
        if self.whole.intersection(made_of):
            self.whole.add(name)

    def begin(self):
        if self.pairs:
            group = self.r.choice((1, 2, 4, 8, 16, 32))
            order = self.r.choice(("gate_up", "up_gate"))
            self.lines.append(f"local g, u = e.interleaved({group}, {{ order = '{order}' }})")
            self.values = ["g", "u"]
        else:
            self.lines.append("local g, u = e.acc, e.unscaled")
            self.values = ["g", "u"]
        self.whole.update(self.values)

    def inputs(self):
        per = ", per = 'pair'" if self.pairs else ""
        kind = "e.pair_index" if self.pairs else "e.col_index"
        types = [self.r.choice(("f32", "bf16", "f16")) for _ in range(3)]
        forms = ("e.alpha", "e.row_scale", "e.param 's'",
                 f"e.col('bb', {{ type = '{types[0]}'{per} }})",
                 f"e.aux('c', {{ type = '{types[1]}'{per} }})",
                 f"e.row('rr', {{ type = '{types[2]}' }})",
                 "e.from_uint(e.row_index)", f"e.from_uint({kind})")
        taken = self.r.sample(forms, self.r.randint(0, 3))
        for i, form in enumerate(taken):
            self.add(f"s{i}", form)
        return [f"s{i}" for i in range(len(taken))]

    def integer(self, name):
        to, back = self.r.choice((("e.to_int", "e.from_int"), ("e.to_uint", "e.from_uint"),
                                  ("e.bits", "e.from_bits"), ("e.bits", "e.from_uint")))
        a, b = self.any(), self.any()
        op = self.r.choice(("+", "-", "*", "&", "|", "~", "<<", ">>"))
        if op in ("<<", ">>"):
            self.add(name, f"{back}({to}({a}) {op} {self.r.randint(0, 31)})", a)
        else:
            self.add(name, f"{back}({to}({a}) {op} {to}({b}))", a, b)

    def operation(self, name):
        a, b, x, y = (self.any() for _ in range(4))
        kind = self.r.random()
        if kind < 0.3:
            self.add(name, f"{self.r.choice(UNARY)}({a})", a)
        elif kind < 0.45:
            self.add(name, f"{a} {self.r.choice(INFIX)} {b}", a, b)
        elif kind < 0.6:
            self.add(name, f"e.{self.r.choice(BINARY)}({a}, {b})", a, b)
        elif kind < 0.68:
            self.add(name, f"e.fma({a}, {b}, {x})", a, b, x)
        elif kind < 0.78:
            test = f"{self.r.choice(('', '~'))}e.{self.r.choice(COMPARE)}({a}, {b})"
            self.add(name, f"e.select({test}, {x}, {y})", a, b, x, y)
        elif kind < 0.9:
            self.integer(name)
        else:
            a = self.r.choice([v for v in self.values if v in self.whole])
            fold = self.r.choice(("amax", "max", "min"))
            self.add(name, f"{a} - e.block_{fold}({a}, {self.r.choice((16, 32))})", a)

    def output(self, k, value):
        form = self.r.choice(OUTPUTS)
        path = f"path = '{self.r.choice(PATHS)}', "
        rounding = self.r.choice(("", "rounding = 'halfstep', ",
                                  "rounding = 'stochastic', seed = 9, "))
        scale = f"scale = '{self.r.choice(('up', 'down'))}', "
        kind = f"type = '{self.r.choice(('e4m3', 'e5m2'))}', "
        division = f"division = '{self.r.choice(DIVISIONS)}', "
        options = {"nvfp4": "global = e.param 'g', " + rounding + division + path,
                   "mxfp4": scale + rounding + path, "mxfp8": scale + kind + path,
                   "e4m3": path, "e5m2": path, "e2m1": path}.get(form, "")
        return f"e.{form}({value}, {{ {options}name = 'o{k}' }})"

    def text(self):
        self.begin()
        sources = self.inputs()
        for k in range(self.r.randint(1, 10)):
            self.operation(f"v{k}")
        last = ["g", "u", "e.alpha * 0"] if self.pairs else ["g", "u"]
        self.add("all", " + ".join(last + sources), "g")
        late = [v for v in self.values if v in self.whole]
        values = [f"{late[-2 if len(late) > 2 else -1]} + all * 0.25"]
        values += [late[max(0, len(late) - 3 - k)] for k in range(self.r.choice((0, 0, 1, 2)))]
        calls = ", ".join(self.output(k, value) for k, value in enumerate(values))
        return config(self.r.choice((64, 128, 192, 256)), self.lines + ["return " + calls])


def dense(seed):
    return Dense(seed).text()
