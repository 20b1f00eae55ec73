"""The code of `docs/choosing-a-strategy.md` runs as it stands."""

from __future__ import annotations

import json
import re
from pathlib import Path

from holdall.replay import Trace, replay

PAGE = (Path(__file__).parents[2] / "docs" / "choosing-a-strategy.md").read_text(encoding="utf-8")


def test_the_strategies_of_the_page_make_valid_windows() -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert examples
    for example in examples:
        known: dict[str, object] = {}
        exec(compile(example, "choosing-a-strategy.md", "exec"), known)  # noqa: S102
        messages = [{"role": "system", "content": "You help."}]
        for n in range(40):
            call = {"id": f"c{n}", "type": "function", "function": {"name": "f", "arguments": json.dumps({"n": n})}}
            messages += [
                {"role": "user", "content": f"question {n} " * 8},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"c{n}", "content": "found " * 20},
                {"role": "assistant", "content": f"answer {n}"},
            ]
        own = [
            value
            for name, value in known.items()
            if getattr(value, "__module__", None) == "builtins" and name[0] != "_"
        ]
        assert own
        outcome = replay([Trace("t", "s", messages)], budgets=[600], strategies=own)
        assert [(figures.invalid, figures.refused) for figures in outcome.figures] == [(0, 0)] * len(own)


def test_the_commands_of_the_page_name_what_there_is() -> None:
    """Options and strategies; the files are the reader's own."""
    from holdall.cli.main import parser

    commands = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL) for line in block.splitlines()]
    commands += re.findall(r"`(holdall [^`]*?)`", PAGE)
    parsed = [parser().parse_args(line.split()[1:]) for line in commands if "..." not in line and len(line.split()) > 2]
    assert parsed
