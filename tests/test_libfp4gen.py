"""What a user's program sees of libfp4gen: its header and its symbols."""

import os
import re
import shutil
import subprocess

import pytest

from conftest import ROOT, SANITIZED

BUILD = ROOT / os.environ.get("FP4GEN_BUILD", "build/release")
pytestmark = pytest.mark.skipif(SANITIZED, reason="sanitizers add symbols of their own")
HEADER = ROOT / "runtime/fp4gen.h"

# A program with names of its own that the library uses inside.
PROGRAM = """
#include "runtime/fp4gen.h"
#include <stdio.h>
#include <string.h>
int fail(void) { return 0; }
int driver_open(void) { return 0; }
int main(void)
{
    fp4gen_device *dev = NULL;
    fp4gen_error err;
    memset(&err, 0, sizeof err);
    if (fp4gen_open(&dev, FP4GEN_DRIVER_EMU, 0, "sm_99", &err) != FP4GEN_BAD_ARGUMENT)
        return 1;
    puts(err.text);
    return fail() + driver_open();
}
"""


def declared():
    names = set(re.findall(r"\b(fp4gen_\w+)\(", HEADER.read_text(encoding="utf-8")))
    assert len(names) > 15
    return names


def defined(*flags_and_file):
    out = subprocess.run(["nm", "--defined-only", *flags_and_file], check=True, text=True,
                         capture_output=True).stdout
    return set(re.findall(r"^[0-9a-f]+ [A-Z] (\w+)$", out, re.M))


def test_shared_library_exports_the_header_and_nothing_else():
    assert defined("-D", BUILD / "lib/libfp4gen.so") == declared()


def test_static_library_exports_the_header_and_nothing_else():
    names = {n for n in defined("-g", BUILD / "lib/libfp4gen.a") if not n.startswith("__")}
    assert names == declared()


@pytest.mark.parametrize("language, compiler", (("c", "cc"), ("c++", "c++")))
@pytest.mark.parametrize("library", ("static", "shared"))
def test_program_links(language, compiler, library, tmp_path):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    source = tmp_path / "program.c"
    source.write_text(PROGRAM)
    link = ([BUILD / "lib/libfp4gen.a", "-ldl"] if library == "static" else
            ["-L", BUILD / "lib", "-lfp4gen", f"-Wl,-rpath,{BUILD / 'lib'}"])
    subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", "-I", ROOT, "-x", language,
                    source, "-x", "none", *link, "-o", tmp_path / "program"], check=True)
    done = subprocess.run([tmp_path / "program"], text=True, capture_output=True,
                          check=False)
    assert done.returncode == 0
    assert "'sm_99' is no target" in done.stdout
