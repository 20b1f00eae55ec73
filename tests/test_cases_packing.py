"""The table of packing cases is whole, and names tests that exist."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.test_cases_state import _tests_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parents[1]
CASES = tomllib.loads((ROOT / "tests" / "cases_packing.toml").read_text())["case"]
N_CASES, N_FAULTS = 28, 23


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_every_listed_test_exists(case):
    assert case["tests"], "a case without a test"
    assert case["seen"].strip(), "a test that was never seen to fail"
    for test in case["tests"]:
        path, _, name = test.partition("::")
        assert name in _tests_of(ROOT / path), test


def test_every_case_is_listed_once():
    ids = [case["id"] for case in CASES]
    assert [name for name in ids if name.startswith("A")] == [f"A{n:02}" for n in range(1, N_CASES + 1)]
    assert len(set(ids)) == len(ids) == N_CASES + N_FAULTS
