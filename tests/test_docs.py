"""The documents name what exists, and nothing else."""

import re
import subprocess

from conftest import ROOT


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def sources(*folders):
    return [p for folder in folders for p in sorted((ROOT / folder).rglob("*"))
            if p.suffix in (".c", ".h", ".py", ".sh", ".in")]


def test_environment_names_every_variable():
    used = set()
    for path in sources("emu", "runtime", "gen", "tests", "bench", "python"):
        text = path.read_text(encoding="utf-8")
        used |= set(re.findall(r'"((?:FP4EMU|FP4GEN|GOLDEN)_[A-Z_]+)"', text))
        used |= set(re.findall(r"\b((?:FP4EMU|FP4GEN|GOLDEN)_[A-Z_]+)=", text))
    documented = set(re.findall(r"`((?:FP4EMU|FP4GEN|GOLDEN)_[A-Z_]+)", read(
        "docs/environment.md")))
    # A name that tests use to be refused, and status codes, are no variables.
    used = {name for name in used if not name.endswith("_")}
    assert documented <= used, documented - used
    rows = set(re.findall(r'\{"(FP4EMU_[A-Z]+)"', read("emu/env.c")))
    rows |= set(re.findall(r'getenv\("(FP4GEN_[A-Z_]+)"', "".join(
        p.read_text(encoding="utf-8") for p in sources("runtime", "gen"))))
    assert rows <= documented, rows - documented


def test_manifest_names_every_key():
    keys = re.findall(r'buf_printf\(out, "([a-z-]+): ', read("gen/manifest.c"))
    assert len(keys) > 10
    text = read("docs/manifest.md")
    for key in keys:
        assert f"`{key}`" in text, key


def test_files_that_documents_name_exist():
    for doc in ("README.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))):
        for name in re.findall(r"`((?:core|gen|emu|runtime|tests|templates|configs|docs|"
                               r"python|bench|scripts)/[\w./-]+\w)`", read(doc)):
            if not re.search(r"NAME|results\.json", name):
                assert (ROOT / name).exists(), f"{doc}: {name}"


def test_make_targets_are_documented():
    done = subprocess.run(["make", "-s", "help"], cwd=ROOT, text=True, check=True,
                          capture_output=True)
    targets = re.findall(r"^([a-z-]+) {2,}", done.stdout, re.M)
    assert len(targets) > 10
    readme = read("README.md")
    for target in targets:
        assert f"`{target}`" in readme, target


def test_each_check_lists_its_kernels():
    files = sorted(p.name for p in (ROOT / "tests/checks").glob("*.ptx"))
    sections = re.split(r"(?m)^## (\d+)\. ", read("docs/emulator-checks.md"))[1:]
    for number, text in zip(sections[::2], sections[1::2]):
        own = [f for f in files if int(f[:2]) == int(number)]
        listed = re.search(r"(?s)\nAll: (.*?)\.\n\n", text)
        assert re.findall(r"`([^`]+)`", listed[1] if listed else "") == (
            own if len(own) > 1 else []), number
