"""Mutants of the kernels end as tests/mutations.py lists them; docs/mutations.md has them."""

import re

import pytest

from conftest import ALL, ROOT, SANITIZED
from mutations import HARMLESS, MUTATIONS, TILES, run_all

# A third of them on one tile shape, or with check-all all of them on both.
CHOSEN = MUTATIONS if ALL else MUTATIONS[::3]


@pytest.mark.skipif(SANITIZED and not ALL, reason="takes long: make check-all")
def test_mutants_are_caught_or_harmless():
    outcomes = run_all(CHOSEN, TILES if ALL else TILES[:1])
    bad = [f"{o.tile} {o.mutation.name}: {o.wrong()}\n{o.text}" for o in outcomes if o.wrong()]
    assert not bad, "\n".join(bad)


def test_every_harmless_mutation_has_a_reason():
    for m in MUTATIONS:
        assert (m.outcome == HARMLESS) == bool(m.reason), m.name


def test_the_table_has_them_all():
    text = (ROOT / "docs/mutations.md").read_text(encoding="utf-8")
    names = [re.sub(r" \(`--check [^`]*`\)$", "", row) for row in
             re.findall(r"^\| (.*?) \|", text, re.M)[1:] if not row.startswith("---")]
    assert names == [m.name for m in MUTATIONS]
