"""tests/golden: a config beside the exact PTX, or the exact refusal, that it gives.

`make golden` (GOLDEN_UPDATE=1) rewrites them; the diff is reviewed like code."""

import os

import pytest

from conftest import ROOT, gen

GOLDEN = ROOT / "tests/golden"
UPDATE = os.environ.get("GOLDEN_UPDATE") == "1"


@pytest.mark.parametrize("config", sorted(p.name for p in GOLDEN.glob("*.lua")))
def test_golden(config):
    path = GOLDEN / config
    code, out, err = gen(path.relative_to(ROOT))
    refused = code != 0
    expected = path.with_suffix(".err" if refused else ".ptx")
    other = path.with_suffix(".ptx" if refused else ".err")
    text = err if refused else out
    if UPDATE:
        expected.write_text(text)
        other.unlink(missing_ok=True)
    assert expected.exists(), f"{config} was {'refused' if refused else 'accepted'}: {err}"
    assert text == expected.read_text()
