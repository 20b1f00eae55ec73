"""`python -m benches [NAME ...] [--json]`: every figure of the README, ours and the peer's in one run.

A bench is a file `bench_NAME.py` with `rows()`, which asserts equal results, times both sides in turn, and yields dicts:

- what: one line, names the work and the peer
- ours, peer: seconds (medians), or another figure where `unit` says so; peer may be None
- ratio: how many times better ours is (peer / ours for times), or the figure itself where there is no peer
- must, aim: what the ratio has to reach; None where nothing was promised
- lower: true where a smaller ratio is better (a share, a size)
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any


def main() -> int:
    """Run the benches asked for and print their rows."""
    known = sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))
    parser = argparse.ArgumentParser(prog="python -m benches", description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which; all of {', '.join(known)} if none is given")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    if unknown := set(args.names) - set(known):
        parser.error(f"no bench {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    table = []
    for name in args.names or known:
        start = time.perf_counter()
        print(f"… {name}", end="", file=sys.stderr, flush=True)
        try:
            rows = list(importlib.import_module(f"benches.bench_{name}").rows())
        except ImportError as error:
            rows = [{"what": f"not run: {error}", "ours": None, "peer": None, "ratio": None, "must": None, "aim": None}]
        table += [{"bench": name, **row} for row in rows]
        print(f" {time.perf_counter() - start:.0f} s", file=sys.stderr)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    if args.json:
        print(json.dumps({"machine": machine, "rows": [{**row, "verdict": verdict(row)} for row in table]}))
    else:
        print(render(table, machine))
    return 1 if any(verdict(row) == "SHORT" for row in table) else 0


def verdict(row: dict[str, Any]) -> str:
    """Whether a row reaches its aim, its must, or falls short."""
    ratio, must, aim = row.get("ratio"), row.get("must"), row.get("aim")
    if ratio is None or must is None:
        return ""
    sign = -1 if row.get("lower") else 1
    if sign * ratio < sign * must:
        return "SHORT"
    return "aim" if aim is not None and sign * ratio >= sign * aim else "must"


def figure(value: float | None, unit: str) -> str:
    """A figure a person can read."""
    if value is None:
        return ""
    if unit != "s":
        return f"{value:,.4g} {unit}".rstrip()
    for size, name in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value / 1e-9:.3g} ns"


def render(table: list[dict[str, Any]], machine: str) -> str:
    """The whole table as text."""
    cells = [["what", "ours", "peer", "ratio", "must", "aim", ""]]
    for row in table:
        unit = row.get("unit", "s")
        numbers = [f"{row[k]:,.3g}" if row.get(k) is not None else "" for k in ("ratio", "must", "aim")]
        cells.append(
            [row["what"], figure(row.get("ours"), unit), figure(row.get("peer"), unit), *numbers, verdict(row)]
        )
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if column in (0, 6) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    return "\n".join([machine, *lines])


if __name__ == "__main__":
    sys.exit(main())
