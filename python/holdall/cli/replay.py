"""`holdall replay TRACES...`: which context strategy is best for recorded conversations."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from holdall.cli.files import UsageError, print_json, printable, tokens, write_text

DEFAULT_BUDGETS = (4_000, 8_000, 16_000)
# Work shorter than this needs no progress; then it is told this often, on a line of its own where nobody watches.
QUIET_S, EVERY_S, EVERY_LINE_S = 1.0, 0.1, 5.0


def register(subparsers: Any) -> None:
    """Add the command to the top parser."""
    parser = subparsers.add_parser(
        "replay",
        help="run context strategies over recorded conversations and compare them",
        description="Replay recorded conversations turn by turn with several context strategies, and measure without a "
        "model: evidence recall, validity, input dollars with prompt caching, prefix stability, latency.",
    )
    parser.add_argument(
        "traces",
        metavar="TRACES",
        nargs="+",
        help="JSON or JSONL (- reads standard input) of OpenAI chat, OpenAI Responses or Anthropic messages; session logs of Claude Code; SQLite files "
        "of OpenAI Agents or LangGraph",
    )
    parser.add_argument(
        "--budget",
        type=_budgets,
        default=DEFAULT_BUDGETS,
        metavar="N,N",
        help="tokens a whole request may have, by commas: 4k,8k,16k (default)",
    )
    parser.add_argument(
        "--strategies",
        default="all",
        metavar="NAMES",
        help="by commas: full, sliding, summary, masking, hybrid, greedy, optimal, stable, all (default), or your own as "
        "module:function",
    )
    parser.add_argument(
        "--model", default="claude-sonnet-5-5", help="whose prices and tokenizer count (default: claude-sonnet-5-5)"
    )
    parser.add_argument(
        "--prices", metavar="FILE", help="your prices: JSON by model, or litellm's model_prices_and_context_window.json"
    )
    parser.add_argument("--report", metavar="FILE", help="write one self-contained HTML page")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--csv", metavar="FILE", help="write the figures as CSV")
    parser.add_argument("--limit", type=int, metavar="N", help="take at most N conversations")
    parser.add_argument(
        "--only", choices=["turns", "questions"], help="only replay the turns, or only ask the questions"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (default: one for each core)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Replay and report."""
    from holdall.replay import load_traces, replay
    from holdall.replay.page import to_page
    from holdall.replay.table import render, to_csv, to_json

    for target in (args.report, args.csv):
        if target is not None and not Path(target).absolute().parent.is_dir():
            raise UsageError(f"cannot write {target}: there is no folder {Path(target).parent}")
        if target is not None and Path(target).is_dir():
            raise UsageError(f"cannot write {target}: Is a directory")
    # As `python -m` does, so that module:function finds what lies here.
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    traces = load_traces(args.traces, limit=args.limit)
    progress = _Progress()
    try:
        outcome = replay(
            traces,
            budgets=args.budget,
            strategies=args.strategies,
            model=args.model,
            prices=args.prices,
            turns=args.only != "questions",
            questions=args.only != "turns",
            jobs=args.jobs,
            progress=progress,
        )
    finally:
        progress.end()
    if args.csv:
        write_text(args.csv, to_csv(outcome))
    if args.report:
        write_text(args.report, to_page(outcome))
    # Files first: the reader of the table may leave early.
    if args.json:
        print_json(to_json(outcome) + "\n")
    else:
        print(printable_lines(render(outcome)))
    if args.report:
        print(f"report: {args.report}", file=sys.stderr if args.json else sys.stdout)
    return 0


def printable_lines(text: str) -> str:
    """Text whose lines cannot drive a terminal."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _budgets(text: str) -> tuple[int, ...]:
    sizes = tuple(dict.fromkeys(tokens(part) for part in text.split(",") if part.strip()))
    if not sizes or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of budgets; write 4k,8k,16k")
    return sizes


class _Progress:
    """How far the work is, on standard error: one line that is written over, or now and then a new one."""

    def __init__(self) -> None:
        self.watched = sys.stderr.isatty()
        self.begun = self.told = time.monotonic()
        self.width = 0

    def __call__(self, done: int, total: int, label: str) -> None:
        now = time.monotonic()
        pause = EVERY_S if self.watched else EVERY_LINE_S
        if now - self.begun < QUIET_S or (now - self.told < pause and done < total):
            return
        if done >= total and not self.width and not self.watched:
            return  # it has never spoken, and need not begin at the end
        self.told = now
        left = (now - self.begun) * (total - done) / max(done, 1)
        line = (
            f"{done:,} of {total:,} turns ({done * 100 // max(total, 1)}%), about {left:.0f} s left: {printable(label)}"
        )
        if self.watched:
            line = line[: shutil.get_terminal_size().columns - 1]  # a line that wraps cannot be written over
            sys.stderr.write("\r" + line.ljust(self.width))
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()
        self.width = len(line)

    def end(self) -> None:
        """Clear the line."""
        if self.watched and self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()
