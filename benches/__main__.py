"""`python -m benches [NAME ...] [--all] [--full] [--json]`: what was promised, ours and the peer's in one run.

Without a name it runs what `benches/promises.py` lists and prints each promise with its rows; `--all` runs and prints the rest
too. Benches sample what is slow; `--full` (or HOLDALL_PROFILE=full) measures the whole of it.

A bench is a file `bench_NAME.py` with `rows()`, which asserts equal results, times both sides in turn, and yields dicts:

- what: one line, names the work and the peer
- ours, peer: seconds (`benches.figures.Median`, which knows its quartiles), or another figure where `unit` says so; peer may be
  None
- ratio: how many times better ours is (peer / ours for times), or the figure itself where there is no peer
- must, aim: what the ratio has to reach; None where nothing was promised
- lower: true where a smaller ratio is better (a share, a size)
- spread: the quartiles of the ratio, where the samples of both sides do not say them
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import platform
import sys
import time
import traceback
from pathlib import Path

from benches.figures import Row, as_json, render, verdict
from benches.promises import PROMISES

# In this order, since later ones leave more behind in the process.
PROMISED = tuple(dict.fromkeys(["start", "codec", "pack", "tokens", *(promise.bench for promise in PROMISES)]))


def measured(name: str) -> list[Row]:
    """The rows of one bench; a bench that fails is a row that says so, and the others go on."""
    rows: list[Row] = []
    nothing = {"ours": None, "peer": None, "ratio": None, "must": None, "aim": None}
    try:
        rows += importlib.import_module(f"benches.bench_{name}").rows()
    except ImportError as error:
        rows.append({"what": f"not run: {error}", **nothing})
    except Exception as error:  # noqa: BLE001 - the figures of the other benches are worth having
        traceback.print_exc()
        rows.append({"what": f"failed: {error!r:.120}", **nothing, "failed": True})
    gc.collect()
    return [{"bench": name, **row} for row in rows]


def sections(table: list[Row], *, is_all: bool) -> list[tuple[str, list[Row]]]:
    """Rows by promise; what belongs to none comes last, if asked for."""
    ran = {row["bench"] for row in table}
    found: list[tuple[str, list[Row]]] = []
    shown: set[int] = set()
    for promise in PROMISES:
        if promise.bench in ran:
            rows = [row for row in table if promise.covers(row["bench"], row["what"])]
            what = f"not measured: first run {promise.first}" if promise.first else "not measured"
            found.append((promise.title, rows or [{"what": what, "bench": promise.bench, "failed": True}]))
            shown |= {id(row) for row in rows}
    for bench in dict.fromkeys(row["bench"] for row in table):
        rest = [row for row in table if row["bench"] == bench and id(row) not in shown]
        if not is_all:
            rest = [row for row in rest if row["ratio"] is None]
        if rest:
            found.append((f"{bench}: the rest", rest))
    return found


def main() -> int:
    """Run the benches asked for and print their rows."""
    known = sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))
    parser = argparse.ArgumentParser(prog="python -m benches", description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}; else what was promised")
    parser.add_argument("--all", action="store_true", help="what nothing was promised of, too")
    parser.add_argument("--full", action="store_true", help="the whole of what is sampled otherwise")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    if unknown := set(args.names) - set(known):
        parser.error(f"no bench {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if args.full:
        os.environ["HOLDALL_PROFILE"] = "full"
    names = args.names or [*PROMISED, *(name for name in known if args.all and name not in PROMISED)]
    table: list[Row] = []
    began = time.perf_counter()
    for name in names:
        start = time.perf_counter()
        print(f"… {name}", end="", file=sys.stderr, flush=True)
        table += measured(name)
        print(f" {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    took = time.perf_counter() - began
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {took:.0f} s"
    found = sections(table, is_all=args.all or bool(args.names))
    if args.json:
        rows = [{"promise": title, **as_json(row)} for title, rows in found for row in rows]
        print(json.dumps({"machine": machine, "rows": rows}))
    else:
        print(machine, render(found), sep="\n")
    return 1 if any(verdict(row) in ("SHORT", "FAILED") for _, rows in found for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
