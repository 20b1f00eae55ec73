"""What Python 3.10 does not have is not used, or only behind a look at the version: most machines have a newer one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NEWER_NAMES = {"BaseExceptionGroup", "ExceptionGroup"}
NEWER = {
    "asyncio": {"Barrier", "Runner", "TaskGroup", "timeout", "timeout_at"},
    "contextlib": {"chdir"},
    "datetime": {"UTC"},
    "enum": {"ReprEnum", "StrEnum", "member", "nonmember", "verify"},
    "hashlib": {"file_digest"},
    "inspect": {"getmembers_static"},
    "itertools": {"batched"},
    "operator": {"call"},
    "tomllib": set(),
    "typing": {
        "LiteralString",
        "Never",
        "NotRequired",
        "Required",
        "Self",
        "TypeVarTuple",
        "Unpack",
        "assert_never",
        "assert_type",
        "dataclass_transform",
        "override",
        "reveal_type",
    },
}


def beyond(source: str) -> Iterator[str]:
    """Name what a module uses that Python 3.10 lacks."""
    tree = ast.parse(source, feature_version=(3, 10))
    guarded = {
        inner
        for outer in ast.walk(tree)
        if isinstance(outer, ast.If)
        and ("version_info" in (test := ast.unparse(outer.test)) or "TYPE_CHECKING" in test)
        for inner in ast.walk(outer)
    }
    for node in ast.walk(tree):
        if node in guarded:
            continue
        match node:
            case ast.ClassDef(bases=[_, _, *_] as bases) if any("NamedTuple" in ast.unparse(base) for base in bases):
                yield f"{node.name} is a NamedTuple and more"
            case ast.Name(id=name) if name in NEWER_NAMES:
                yield name
            case ast.Attribute(value=ast.Name(id=module), attr=name) if name in NEWER.get(module, ()):
                yield f"{module}.{name}"
            case ast.Attribute(attr="add_note"):
                yield "add_note"
            case ast.Import(names=names):
                yield from (one.name for one in names if one.name in NEWER and not NEWER[one.name])
            case ast.ImportFrom(module=str(module), names=names) if module in NEWER:
                yield from (f"{module}.{one.name}" for one in names if one.name in NEWER[module] or not NEWER[module])
            # what asyncio raises is of another class there
            case (
                ast.ExceptHandler(type=ast.expr() as caught)
                | ast.Call(func=ast.Name(id="isinstance" | "suppress"), args=[*_, caught])
            ):
                names = {ast.unparse(one) for one in ast.walk(caught) if isinstance(one, (ast.Name, ast.Attribute))}
                if "TimeoutError" in names and "asyncio.TimeoutError" not in names:
                    yield "TimeoutError alone"
            case _:
                pass


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("class A(NamedTuple, Generic[T]): pass", ["A is a NamedTuple and more"]),
        ("async def f():\n    async with asyncio.timeout(1): pass", ["asyncio.timeout"]),
        ("from typing import Self, Any", ["typing.Self"]),
        ("import tomllib", ["tomllib"]),
        ("try: pass\nexcept TimeoutError: pass", ["TimeoutError alone"]),
        ("isinstance(error, (OSError, TimeoutError))", ["TimeoutError alone"]),
        ("isinstance(error, (TimeoutError, asyncio.TimeoutError))", []),
        ("if sys.version_info >= (3, 11):\n    x = asyncio.timeout", []),
        ("if TYPE_CHECKING:\n    from typing import Self", []),
        ("class A(NamedTuple): pass", []),
    ],
)
def test_it_is_told(source: str, found: list[str]) -> None:
    assert list(beyond(source)) == found


def test_nothing_newer_than_python_3_10_is_used() -> None:
    paths = [path for folder in ("python", "tests", "benches") for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(paths) > 300
    found = {str(path.relative_to(ROOT)): list(beyond(path.read_text(encoding="utf-8"))) for path in paths}
    assert {path: what for path, what in found.items() if what} == {}
