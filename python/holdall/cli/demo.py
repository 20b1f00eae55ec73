"""`holdall demo`: a recorded agent session, packed turn by turn and checkpointed, killed with SIGKILL, and resumed.

The worker is another process (demo_worker.py). This one starts it, kills it, starts a second, and then compares what the
store says with what the steps did outside it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdall.cli.demo_worker import OUTPUT_RESERVE, n_steps
from holdall.cli.files import UsageError, printable, tokens

# A step takes about 80 ms, most of it the pretended model; a kill falls anywhere in it.
_KILL_WITHIN_S: Final = 0.085
_TIMEOUT_S: Final = 60.0


def register(subparsers: Any) -> None:
    """Add the command to the top parser."""
    parser = subparsers.add_parser(
        "demo",
        help="watch an agent session being killed and resumed",
        description=(
            "Run a recorded agent session: each turn is packed into a window and each step checkpointed to SQLite. The "
            "worker is killed with SIGKILL at a random step; another one resumes. At the end every step's effect outside "
            "the store is counted."
        ),
    )
    parser.add_argument("--seed", type=int, help="which step is killed, and how far into it; random by default")
    parser.add_argument("--max-tokens", type=tokens, default=4096, metavar="N", help="the window's size (4096)")
    parser.add_argument("--keep", metavar="FOLDER", help="leave the SQLite file and the effects in this folder")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


class Worker(NamedTuple):
    """What a worker process said before its end."""

    pid: int
    said: list[dict[str, Any]]
    exit_code: int


def run(args: argparse.Namespace) -> int:
    """Tell the whole story; 0 when nothing was lost and nothing was done twice."""
    if args.max_tokens <= OUTPUT_RESERVE:
        raise UsageError(f"--max-tokens {args.max_tokens}: more than the {OUTPUT_RESERVE} that are kept for the answer")
    seed = random.SystemRandom().randrange(10_000) if args.seed is None else args.seed
    if args.keep is None:
        with tempfile.TemporaryDirectory(prefix="holdall-demo-") as made:
            return _story(Path(made), seed, args)
    folder = Path(args.keep)
    if (folder / "sessions.db").exists() or (folder / "effects.jsonl").exists():
        raise UsageError(f"{folder} holds an earlier demo; name an empty folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the folder {folder}: {error.strerror or error}") from None
    return _story(folder, seed, args)


def _story(folder: Path, seed: int, args: argparse.Namespace) -> int:
    rng = random.Random(seed)  # noqa: S311 - which step to kill, not a secret
    total = n_steps()
    victim, after_s = rng.randint(2, total - 1), rng.uniform(0, _KILL_WITHIN_S)
    tell = (lambda _text: None) if args.json else print
    tell(f"An agent session of {total} steps, checkpointed to {folder / 'sessions.db'} (seed {seed})\n")
    started = time.monotonic()
    first = _work(folder, args.max_tokens, tell, kill=(victim, after_s))
    if first.exit_code > 0:
        return first.exit_code  # it has said why
    tell(f"\n  SIGKILL to process {first.pid}, {after_s * 1000:.0f} ms into step {victim}\n")
    second = _work(folder, args.max_tokens, tell)
    if second.exit_code > 0:
        return second.exit_code
    if second.exit_code:
        raise UsageError(f"the second worker was killed by signal {-second.exit_code}")
    report = reconcile(folder, first, second) | {
        "seed": seed,
        "killed_pid": first.pid,
        "killed_by_signal": -first.exit_code if first.exit_code < 0 else None,
        "killed_in_step": victim,
        "resumed_pid": second.pid,
        "seconds": round(time.monotonic() - started, 2),
    }
    if args.json:
        print(json.dumps(report))
    else:
        _print(report)
    return 0 if report["ok"] else 1


def _work(folder: Path, max_tokens: int, tell: Any, kill: tuple[int, float] | None = None) -> Worker:
    """Run one worker to its end, or kill it so many seconds after it started a step."""
    command = [sys.executable, "-m", "holdall.cli.demo_worker", str(folder), str(max_tokens)]
    # In a session of its own, where Ctrl-C does not reach it: it is this process that stops, and ends it.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)  # noqa: S603 - our own module
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    said: list[dict[str, Any]] = []
    try:
        with process.stdout as lines:
            for line in lines:
                event = json.loads(line)
                said.append(event)
                if event["event"] == "started" and kill is not None and event["step"] == kill[0]:
                    time.sleep(kill[1])
                    os.kill(process.pid, signal.SIGKILL)
                    kill = None
                shown = _shown(process.pid, event)
                if shown:
                    tell(shown)
        return Worker(process.pid, said, process.wait(_TIMEOUT_S))
    finally:
        process.kill()  # nothing to do where it has ended; when this process is interrupted it must not run on alone
        process.wait()


def _shown(pid: int, event: dict[str, Any]) -> str | None:
    if event["event"] == "resumed":
        if not event["recorded"]:
            return f"  process {pid} starts the session"
        return f"  process {pid} resumes: {event['recorded']} steps are recorded, next is step {event['next_step']}"
    if event["event"] == "packed":
        return (
            f"  step {event['step']:>2}  {printable(event['name']):<34} window {event['tokens']:>5,} of {event['budget']:,} "
            f"tokens, {event['kept']:>2} of {event['messages']:>2} messages"
        )
    if event["event"] == "effect" and event["found"]:
        return f"           the effect of step {event['step']} is there already, found by its key: not repeated"
    return None


def reconcile(folder: Path, first: Worker, second: Worker) -> dict[str, Any]:
    """Compare the steps that the store holds with the effects that the steps left outside it."""
    effects = [json.loads(line) for line in (folder / "effects.jsonl").read_text().splitlines()]
    end = next(event for event in second.said if event["event"] == "end")
    acknowledged = [event["step"] for event in first.said if event["event"] == "saved"]
    recorded_at_kill = next(event for event in second.said if event["event"] == "resumed")["recorded"]
    resumed_with = set(range(1, recorded_at_kill + 1))
    redone = sorted({event["step"] for event in second.said if event["event"] == "started"} & resumed_with)
    cut_off = {event["step"] for event in first.said if event["event"] == "started"} - resumed_with
    by_step: dict[int, list[int]] = {step: [] for step in range(1, end["steps"] + 1)}
    for effect in effects:
        by_step[effect["step"]].append(effect["pid"])
    between = sorted(step for step in cut_off if first.pid in by_step[step])
    lost = sorted(set(acknowledged) - resumed_with)
    without = sorted(step for step, pids in by_step.items() if not pids)
    twice = sorted(step for step, pids in by_step.items() if len(pids) > 1)
    return {
        "steps": end["steps"],
        "messages": end["messages"],
        "messages_expected": end["messages_expected"],
        "acknowledged_before_kill": len(acknowledged),
        "recorded_at_kill": recorded_at_kill,
        "lost_steps": lost,
        "redone_steps": redone,
        "effects": len(effects),
        "steps_without_effect": without,
        "steps_with_two_effects": twice,
        "cut_off_steps": sorted(cut_off),
        "killed_between_effect_and_record": between,
        "effects_by_process": {str(pid): sum(e["pid"] == pid for e in effects) for pid in (first.pid, second.pid)},
        "ok": not (lost or redone or without or twice) and end["messages"] == end["messages_expected"],
    }


def _print(report: dict[str, Any]) -> None:
    killed, resumed = str(report["killed_pid"]), str(report["resumed_pid"])
    print(f"\nKilled process {killed} (signal {report['killed_by_signal']}); process {resumed} finished the session.")
    print(f"  acknowledged before the kill   {report['acknowledged_before_kill']:>3} steps")
    print(f"  recorded when it was resumed   {report['recorded_at_kill']:>3} steps, lost {len(report['lost_steps'])}")
    print(f"  recorded steps done again      {len(report['redone_steps']):>3}")
    print(f"  messages in the session        {report['messages']:>3} of {report['messages_expected']}")
    by = report["effects_by_process"]
    print(
        f"  effects outside the store      {report['effects']:>3} for {report['steps']} steps "
        f"({by[killed]} by {killed}, {by[resumed]} by {resumed}), "
        f"missing {len(report['steps_without_effect'])}, twice {len(report['steps_with_two_effects'])}"
    )
    for step in report["cut_off_steps"]:
        if step in report["killed_between_effect_and_record"]:
            print(
                f"\nStep {step} was killed after its effect and before its record. No store can make that one event, so the "
                f"step ran\nagain with the same key, and what it acts on saw the key and did not act twice."
            )
        else:
            print(f"\nStep {step} was killed before its effect: it ran again from its start, and acted once.")
    if not report["cut_off_steps"]:
        print("\nThe kill fell between two steps: nothing was cut off.")
    print(
        f"\n{'Nothing lost, nothing done twice' if report['ok'] else 'SOMETHING IS WRONG'}, in {report['seconds']} s."
    )
