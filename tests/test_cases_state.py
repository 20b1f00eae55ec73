"""The table of cases names tests that exist."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parents[1]
CASES = tomllib.loads((ROOT / "tests" / "cases_state.toml").read_text())["case"]


def _tests_of(path: Path) -> set[str]:
    """Names as pytest writes them: functions, and methods behind their class."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}::{item.name}"
                for item in node.body
                if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
            }
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
    return names


@pytest.mark.parametrize("case", CASES, ids=[f"case {case['id']}" for case in CASES])
def test_every_listed_test_exists(case):
    assert case["tests"], "a case without a test"
    assert case["seen"].strip(), "a test that was never seen to fail"
    for test in case["tests"]:
        path, _, name = test.partition("::")
        assert name.split("[")[0] in _tests_of(ROOT / path), test


def test_no_case_is_listed_twice():
    ids = [case["id"] for case in CASES]
    assert len(ids) == len(set(ids))
