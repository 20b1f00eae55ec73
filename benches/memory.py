"""Memory: what packing many items and holding a long session take, and whether packing for ever takes more.

    python -m benches.memory [--packs N] [items|session|known|new ...]

Each part runs in a process of its own, so that one's peak is not another's; MB are of resident memory above what the process
had with everything imported. Two loops pack N windows each (a million if not said, which takes minutes): of conversations that are
known, and of ones that are replaced by new ones all the time, whose texts fill the bounded caches. Each prints its resident memory
as it goes; a line through that of the second half says what a million packs more would add.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

N_ITEMS = 100_000
N_MESSAGES = 100_000
WORDS = ["river", "stone", "lamp", "copper", "letter", "winter", "garden", "signal", "harbour", "table"]
N_PACKS = 1_000_000
SAMPLES = 20
MB = 1 << 20


def resident() -> float:
    """MB of resident memory now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / MB


def peak() -> float:
    """MB of resident memory at its highest."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def text(draw: random.Random, n: int) -> str:
    """So many words."""
    return " ".join(draw.choices(WORDS, k=n))


def items() -> dict[str, float]:
    """Pack a hundred thousand items of some 200 bytes."""
    from holdall import ContextItem, ContextWindowPacker

    draw = random.Random(1)
    packer = ContextWindowPacker(max_tokens=200_000)
    packer.pack([ContextItem("recent_turns", "warm", 0, None, 0, 1.0)])
    before = resident()
    made = [ContextItem("rag_documents", text(draw, 32), at, None, at // 5, draw.random()) for at in range(N_ITEMS)]
    held = resident() - before
    began = time.perf_counter()
    result = packer.pack(made)
    took = time.perf_counter() - began
    assert 0 < len(result.kept) < N_ITEMS
    return {"items, MB": held, "peak of packing them, MB more": peak() - before - held, "s": took}


def session() -> dict[str, float]:
    """Hold, write and read a session of a hundred thousand messages of some 200 bytes."""
    from holdall import SessionState, StateSerializer

    draw = random.Random(1)
    serializer = StateSerializer()
    serializer.loads(serializer.dumps(SessionState("s", "u"))).messages.clear()
    before = resident()
    state = SessionState("s", "u")
    for at in range(N_MESSAGES):
        state.messages.append({"role": "assistant" if at % 2 else "user", "content": text(draw, 32)})
    built = resident() - before
    data = serializer.dumps(state)
    snapshot = serializer.snapshot(state)
    state.mark_saved(1, snapshot.pending)
    del snapshot
    stored = resident() - before - len(data) / MB
    writing = peak() - before
    del state
    before = resident()
    found = serializer.loads(data)
    assert len(found.messages) == N_MESSAGES
    return {
        "document, MB": len(data) / MB,
        "state, MB": built,
        "state once it is stored, MB": stored,
        "peak of writing it, MB": writing,
        "loaded and read, MB more than the freed memory": resident() - before,
    }


def loop(n_packs: int, *, is_new: bool) -> dict[str, float]:
    """Pack one window after the other, of conversations that are known or that are new, and see what memory they take."""
    from holdall import ContextWindowPacker

    draw = random.Random(1)
    packer = ContextWindowPacker(max_tokens=2000)

    def conversation() -> list[dict[str, str]]:
        return [{"role": ("user", "assistant")[at % 2], "content": text(draw, 60)} for at in range(100)]

    known = [conversation() for _ in range(20)]
    sizes: list[tuple[int, float]] = []
    every = max(n_packs // SAMPLES, 1)
    for n in range(1, n_packs + 1):
        if is_new and n % 20 == 0:
            known[draw.randrange(len(known))] = conversation()
        packer.pack_messages(draw.choice(known)[draw.randrange(50) :])
        if n % every == 0:
            sizes.append((n, resident()))
            print(f"  {n:,} packs: {sizes[-1][1]:,.1f} MB", file=sys.stderr, flush=True)
    late = sizes[len(sizes) // 2 :]
    mean_n, mean_mb = (sum(column) / len(late) for column in zip(*late, strict=True))
    slope = sum((at - mean_n) * (mb - mean_mb) for at, mb in late) / sum((at - mean_n) ** 2 for at, _ in late)
    return {
        "packs": n_packs,
        "MB after a tenth": sizes[len(sizes) // 10][1],
        "MB after half": late[0][1],
        "MB at the end": sizes[-1][1],
        "MB that a million packs more would add": slope * 1e6,
    }


PARTS = {
    "items": lambda _: items(),
    "session": lambda _: session(),
    "known": partial(loop, is_new=False),
    "new": partial(loop, is_new=True),
}


def main() -> None:
    """Run each part in a process of its own and print what it says."""
    parser = argparse.ArgumentParser(prog="python -m benches.memory", description=__doc__.split("\n", 1)[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all if none is given")
    parser.add_argument("--packs", type=int, default=N_PACKS, help=f"of each loop (default: {N_PACKS:,})")
    parser.add_argument("--here", action="store_true", help="in this process, as JSON")
    args = parser.parse_args()
    if unknown := set(args.parts) - PARTS.keys():
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    for name in args.parts or PARTS:
        if args.here:
            part: Any = PARTS[name]
            print(json.dumps(part(args.packs)))
            continue
        command = [sys.executable, "-m", "benches.memory", name, "--packs", str(args.packs), "--here"]
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        print(f"{name}: " + ", ".join(f"{what} {figure:,.1f}" for what, figure in found.items()))


if __name__ == "__main__":
    main()
