"""Imports run one way: no two modules need each other, also for their types or in a function alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def modules(folder: Path, above: Path) -> dict[str, Path]:
    """Every module but the `__init__` files, which hold names only."""
    return {
        ".".join(path.relative_to(above).with_suffix("").parts): path
        for path in folder.rglob("*.py")
        if path.name != "__init__.py"
    }


def needed(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules that a file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names & known.keys()


@pytest.mark.parametrize(("folder", "above"), [("python/holdall", "python"), ("benches", ".")])
def test_imports_run_one_way(folder: str, above: str) -> None:
    """`prepare` raises a CycleError, which names the circle."""
    known = modules(ROOT / folder, ROOT / above)
    assert len(known) > 20
    TopologicalSorter({name: needed(path, known) - {name} for name, path in known.items()}).prepare()


def test_importing_holdall_brings_nothing_that_only_some_of_it_needs():
    code = (
        "import sys, holdall; print([m for m in ('asyncio', 'dataclasses', 'inspect', 'sqlite3') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
