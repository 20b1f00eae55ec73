"""The report as one HTML page: no network, no scripts but its own, all text of conversations escaped."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files
from typing import Any, Final

from holdall.replay.registry import DESCRIPTIONS
from holdall.replay.replay import Replay
from holdall.replay.rows import Row
from holdall.replay.shape import shape_of, text_of
from holdall.replay.table import render
from holdall.replay.trace import Trace

# What keeps the page small: it is opened by a browser, and mailed.
MOST_TIMELINES: Final = 12
MOST_POINTS: Final = 140
MOST_QUESTIONS: Final = 400
EXCERPT: Final = 220

PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript><pre>{text}</pre></noscript>
<main id="app"></main>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def to_page(outcome: Replay) -> str:
    """Render the report."""
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return PAGE.format(
        policy=policy,
        title=html.escape(f"Replay: {', '.join(dict.fromkeys(trace.source for trace in outcome.traces))}"),
        style=style,
        script=script,
        text=html.escape(render(outcome)),
        data=_inline(_document(outcome)),
    )


def _asset(name: str) -> str:
    return files("holdall.replay").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _inline(value: Any) -> str:
    """JSON that cannot end the element it stands in, nor begin another, nor be read as a comment."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _document(outcome: Replay) -> dict[str, Any]:
    places = {(trace.source, trace.id): n for n, trace in enumerate(outcome.traces)}
    rows: dict[int, list[Row]] = {}
    for row in outcome.rows:
        rows.setdefault(places[row.source, row.trace], []).append(row)
    return {
        "model": outcome.model,
        "price": asdict(outcome.price),
        "encoding": outcome.encoding,
        "budgets": list(outcome.budgets),
        "strategies": [{"name": name, "about": DESCRIPTIONS.get(name, "yours")} for name in outcome.strategies],
        "sources": [_source(outcome, name) for name in dict.fromkeys(trace.source for trace in outcome.traces)],
        "figures": [_rounded(one.as_dict()) for one in outcome.figures],
        "traces": [_trace(trace) for trace in outcome.traces],
        "timelines": _timelines(outcome, rows),
        "questions": _questions(outcome, rows),
    }


def _source(outcome: Replay, name: str) -> dict[str, Any]:
    traces = [trace for trace in outcome.traces if trace.source == name]
    return {
        "name": name,
        "conversations": len(traces),
        "messages": sum(len(trace.messages) for trace in traces),
        "requests": next(one.requests for one in outcome.figures if one.source == name),
        "questions": next(one.asked for one in outcome.figures if one.source == name),
    }


def _rounded(figures: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in figures.items()}


def _trace(trace: Trace) -> dict[str, Any]:
    asked = next((text_of(one) for one in trace.messages if shape_of(one).role == "user"), "")
    return {"id": trace.id, "source": trace.source, "messages": len(trace.messages), "first": _excerpt(asked)}


def _excerpt(text: str) -> str:
    """The beginning of a text, on one line."""
    words = " ".join(text[: EXCERPT * 4].split())
    return words if len(words) <= EXCERPT else words[: EXCERPT - 1].rstrip() + "…"


def _timelines(outcome: Replay, rows: dict[int, list[Row]]) -> list[dict[str, Any]]:
    """Turn by turn, of each set's longest conversations: for each strategy and budget [messages, tokens, shared]."""
    turns = {n: max((len(row.timeline) for row in found), default=0) for n, found in rows.items()}
    order = sorted((n for n in turns if turns[n] > 1), key=lambda n: (-turns[n], n))
    sources = {trace.source for trace in outcome.traces}
    share = max(MOST_TIMELINES // len(sources), 2) if sources else 0
    longest = [
        n for source in sorted(sources) for n in [n for n in order if outcome.traces[n].source == source][:share]
    ]
    return [
        {
            "trace": n,
            "turns": turns[n],
            "lines": [
                {"strategy": row.strategy, "budget": row.budget, "points": _sampled(row.timeline)} for row in rows[n]
            ],
        }
        for n in longest
    ]


def _sampled(points: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    if len(points) <= MOST_POINTS:
        return list(points)
    return [points[n * (len(points) - 1) // (MOST_POINTS - 1)] for n in range(MOST_POINTS)]


def _questions(outcome: Replay, rows: dict[int, list[Row]]) -> dict[str, Any]:
    """Questions with the beginnings of their evidence, and how much of it each strategy kept at each budget, 0 to 9."""
    every = [(n, at) for n, trace in enumerate(outcome.traces) for at in range(len(trace.questions))]
    asked = [pair for pair in every if any(len(row.recalls) > pair[1] for row in rows.get(pair[0], ()))]
    shown = asked
    if len(asked) > MOST_QUESTIONS:
        shown = [asked[n * len(asked) // MOST_QUESTIONS] for n in range(MOST_QUESTIONS)]
    found = []
    for n, at in shown:
        trace = outcome.traces[n]
        question = trace.questions[at]
        evidence = sorted(question.evidence)
        found.append(
            {
                "trace": n,
                "text": _excerpt(question.text),
                "category": question.category,
                "size": len(evidence),
                "evidence": [{"at": k, "text": _excerpt(text_of(trace.messages[k]))} for k in evidence[:3]],
                "kept": {f"{row.strategy}|{row.budget}": int(row.recalls[at] * 9) for row in rows[n]},
            }
        )
    return {"all": len(asked), "shown": found}
