"""`python -m benches.usage`: what providers billed for recorded sessions, against our counts, and the calibration that follows.

The prompts billed hold what the records do not: a coding agent's own system prompt and tool schemas, the same in every request of
a session. So billed = constant + slope x counted is fitted for each stretch between two compactions; the slope is what a counter
of another vendor's vocabulary needs, and slope - 1 is the `margin` to give it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from holdall import ContextWindowPacker, Tokenizer, count_messages

DATA = Path(os.environ.get("HOLDALL_SHARED", Path(__file__).resolve().parents[2] / "shared")) / "data" / "trajectories"
SHORTEST = 8  # requests in a stretch; fewer say little of a slope


def stretches(tokenizer: Tokenizer) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """(session, [(counted, billed), ...]) between compactions, for every session with billed usage."""
    for file in ("claude_code.jsonl", "pi_coding_agent.jsonl"):
        for line in (DATA / file).open(encoding="utf-8"):
            session = json.loads(line)
            messages = session["messages"]
            sizes = [count_messages([m], tokenizer=tokenizer) - 3 for m in messages]
            marks = sorted(c["at"] for c in session.get("compactions") or [] if "at" in c)
            for start, end in zip([0, *marks], [*marks, len(messages)], strict=True):
                pairs = [
                    (3 + sum(sizes[start : int(index)]), billed)
                    for index, (billed, _) in (session.get("usage") or {}).items()
                    if start < int(index) < end
                ]
                if len(pairs) >= SHORTEST:
                    yield f"{session['id']}[{start}:{end}]", pairs


def line_through(pairs: list[tuple[int, int]]) -> tuple[float, float, float]:
    """Constant, slope and the largest error in tokens of the least-squares line."""
    n = len(pairs)
    mean_x, mean_y = sum(x for x, _ in pairs) / n, sum(y for _, y in pairs) / n
    spread = sum((x - mean_x) ** 2 for x, _ in pairs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in pairs) / spread
    constant = mean_y - slope * mean_x
    return constant, slope, max(abs(constant + slope * x - y) for x, y in pairs)


def main() -> None:
    """Print a row per stretch, for both vocabularies, and what `calibrate` makes of them."""
    for name in ("o200k_base", "cl100k_base"):
        tokenizer = Tokenizer(name)
        print(f"{name}: billed = constant + slope x counted")
        print(f"  {'session':<40} requests  constant  slope  worst error  calibrated margin")
        for session, pairs in stretches(tokenizer):
            constant, slope, worst = line_through(pairs)
            packer = ContextWindowPacker(max_tokens=200_000, tokenizer=tokenizer)
            margin = packer.calibrate(pairs).margin
            print(
                f"  {session:<40} {len(pairs):>8}  {constant:>8,.0f}  {slope:>5.2f}  {worst:>11,.0f}  {margin:>17.2f}"
            )


if __name__ == "__main__":
    main()
