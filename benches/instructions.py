"""`python -m benches.instructions [--check | --write]`: how many instructions the hot kernels take.

Valgrind counts them (callgrind), one run of `benches/instructions.rs`, so a busy machine changes nothing. They are held
against `benches/instructions.json`: `--check` fails where one has risen by more than 3 %, `--write` writes the file anew.
Counts depend on the compiler and on which instructions the machine's C library picks; write the file on the one you check on.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BASELINE = Path(__file__).with_suffix(".json")
ROOT = Path(__file__).parent.parent
KERNELS = "instructions::kernels::"
RISE = 1.03


def built() -> Path:
    """The bench, compiled."""
    command = ["cargo", "bench", "--quiet", "--bench", "instructions", "--no-run", "--message-format=json"]
    profile = {"CARGO_PROFILE_BENCH_LTO": "thin", "CARGO_PROFILE_BENCH_CODEGEN_UNITS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **profile}, stdout=subprocess.PIPE, text=True, check=True
    )
    artifacts = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return Path(next(one["executable"] for one in artifacts if one.get("executable")))


def counted(bench: Path) -> dict[str, int]:
    """Instructions of each kernel, what it calls included."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "callgrind.out")
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", str(bench)]
        subprocess.run(command, stderr=subprocess.DEVNULL, check=True)
        return inclusive(out.read_text(encoding="utf-8"))


def inclusive(profile: str) -> dict[str, int]:
    """Instructions of each call of a kernel in callgrind's format, summed by kernel."""
    names: dict[str, str] = {}
    counts: dict[str, int] = {}
    called, is_call = "", False
    for line in profile.splitlines():
        if named := re.match(r"c?fn=\((\d+)\)(?: (.*))?", line):
            number, name = named.groups()
            names[number] = name or names[number]
            called = names[number] if line.startswith("c") else called
        elif line.startswith("calls="):
            is_call = True
        elif is_call:
            is_call = False
            if called.startswith(KERNELS):
                kernel = called.removeprefix(KERNELS)
                counts[kernel] = counts.get(kernel, 0) + int(line.split()[1])
    return counts


def main() -> int:
    """Count, print, and hold against the baseline."""
    parser = argparse.ArgumentParser(prog="python -m benches.instructions", description=__doc__.split("\n", 1)[0])
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--check", action="store_true", help="fail where a count has risen by more than 3 %%")
    group.add_argument("--write", action="store_true", help="write the baseline anew")
    args = parser.parse_args()
    if missing := [tool for tool in ("valgrind", "cargo") if shutil.which(tool) is None]:
        parser.error(f"{' and '.join(missing)} must be installed")
    counts = counted(built())
    if args.write:
        BASELINE.write_text(json.dumps(counts, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    known: dict[str, int] = json.loads(BASELINE.read_text(encoding="utf-8"))
    risen = []
    for kernel, count in sorted(counts.items()):
        share = count / known[kernel] if kernel in known else float("inf")
        print(f"{kernel:24} {count / 1e6:10.2f} million  {share - 1:+8.1%}")
        if share > RISE:
            risen.append(kernel)
    if gone := sorted(known.keys() - counts.keys()):
        print(f"not counted: {', '.join(gone)}", file=sys.stderr)
    return 1 if args.check and (risen or gone) else 0


if __name__ == "__main__":
    sys.exit(main())
