"""The report: a table, JSON, CSV, and one page that shows hostile text as text, in a real browser."""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdall.cli import main
from holdall.replay import Question, Replay, Trace, replay
from holdall.replay.page import to_page
from holdall.replay.table import dollars_text, render, time_text, to_csv, to_json, tokens_text
from tests.replay.conversations import agent, says, user

# What would run, or end the script element that holds the data, if it were taken as HTML.
HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"><!-- \u2028 & {data}"
)


def outcome() -> Replay:
    messages = [user(HOSTILE), says(f"It said {HOSTILE}"), *agent(25)[1:]]
    questions = [Question(f"What about {HOSTILE}?", frozenset([0, 1]), HOSTILE), Question("step 3?", frozenset([9]))]
    traces = [
        Trace(HOSTILE, f"set {HOSTILE}", messages, questions=questions),
        Trace("plain", "=second set", agent(30)),
    ]
    return replay(traces, budgets=[1_000, 2_000, 4_000], strategies="all")


@pytest.fixture(scope="module")
def replayed() -> Replay:
    return outcome()


@pytest.fixture(scope="module")
def page(replayed: Replay) -> str:
    return to_page(replayed)


def test_no_text_of_a_conversation_is_markup(page: str) -> None:
    assert page.count("<script") == 2
    assert page.count("</script") == 2
    assert "<img" not in page
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["traces"][0]["first"] == " ".join(HOSTILE.split())
    assert html.escape("</script>") in page  # in the text that is shown without scripts


def test_the_policy_allows_the_pages_own_script_and_style_alone(page: str) -> None:
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in policy[1].split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        text = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert text is not None
        digest = base64.b64encode(hashlib.sha256(text[1].encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert page.index("Content-Security-Policy") < page.index("<style")


def test_the_page_asks_the_network_for_nothing(page: str) -> None:
    assert not re.findall(r"""(?:src|href)\s*=|@import|url\(|fetch\(|XMLHttp""", page.replace("src=x", ""))
    assert set(re.findall(r"https?://[\w./]*", page)) == {"http://www.w3.org/2000/svg"}


def browser() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        lacking = "no Chromium on this machine: apt-get install chromium, and the page is opened in it"
        if os.environ.get("CI"):
            pytest.fail(lacking)
        pytest.skip(lacking)
    return found


def opened(page: str, folder: Path, *, width: int = 1280) -> tuple[str, str]:
    """The document after its scripts have run, and what the browser's console said."""
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    done = subprocess.run(
        [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={folder / 'profile'}",
         f"--window-size={width},900", "--enable-logging=stderr", "--v=0", "--virtual-time-budget=4000", "--dump-dom",
         path.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, "\n".join(said)


def test_a_browser_shows_the_page(page: str, tmp_path: Path) -> None:
    dom, console = opened(page, tmp_path)
    assert console == ""
    assert "<title>owned" not in dom
    assert dom.count("<svg") >= 6 + 8  # the charts, and one for each strategy turn by turn
    for section in ("verdict", "charts", "figures", "turns", "questions"):
        assert f'id="{section}"' in dom, section
    main_part = dom[dom.index("<main") : dom.index("</main>")]
    assert "<script" not in main_part
    assert "<img" not in main_part
    assert "&lt;/script&gt;" in main_part
    figures = dom[dom.index('id="figures"') : dom.index('id="turns"')]
    assert figures.count("<td") == 8 * figures.count("<th>") > 8 * 10
    assert not re.search(r"NaN|undefined|Infinity|>null<", main_part)


def test_a_browser_refuses_a_script_that_is_not_the_pages_own(page: str, tmp_path: Path) -> None:
    foreign = page.replace("<main", "<script>document.title='owned'</script><main")
    dom, console = opened(foreign, tmp_path)
    assert "Content Security Policy" in console
    assert "<title>owned" not in dom


def test_a_page_of_one_turn_and_one_budget_is_shown_too(tmp_path: Path) -> None:
    small = replay([Trace("t", "s", [user("a"), says("b")])], budgets=[100], strategies=["sliding"])
    dom, console = opened(to_page(small), tmp_path, width=360)
    assert console == ""
    assert not re.search(r"NaN|undefined|Infinity|>null<", dom[dom.index("<main") : dom.index("</main>")])
    assert "1 conversation · 2 messages · 1 request" in dom


def test_the_table_has_a_line_for_each_strategy_and_budget(replayed: Replay) -> None:
    text = render(replayed)
    assert sum(line.split()[:2] == ["1k", "full"] for line in text.splitlines()) == 2
    assert text.count("stable") >= 6
    assert "2 questions" in text
    verdicts = [line for line in text.splitlines() if line.startswith("-> ")]
    assert len(verdicts) == 2 * 3
    assert all("always valid: " in line and "cheapest " in line for line in verdicts)
    assert not any("full" in line for line in verdicts if line.startswith("-> 1k"))


def test_a_replay_of_nothing_is_an_empty_csv() -> None:
    assert to_csv(replay([], budgets=[100])).startswith("source,strategy,budget,")


def test_json_and_csv_carry_the_same_figures(replayed: Replay) -> None:
    document = json.loads(to_json(replayed))
    rows = list(csv.DictReader(io.StringIO(to_csv(replayed))))
    assert len(rows) == len(document["figures"]) == 2 * 8 * 3
    assert len(document["rows"]) == 2 * 8 * 3
    for row, figure in zip(rows, document["figures"], strict=True):
        assert float(row["dollars"]) == figure["dollars"]
        assert row["recall"] == ("" if figure["recall"] is None else str(figure["recall"]))
    assert {row["source"] for row in rows if row["source"].startswith("'")} == {"'=second set"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (tokens_text(900), "900"),
        (tokens_text(4_000), "4k"),
        (tokens_text(1_500_000), "1.5M"),
        (dollars_text(0.0123), "$0.0123"),
        (dollars_text(0.5), "$0.500"),
        (dollars_text(0.000068), "$0.000068"),
        (dollars_text(0.0), "$0"),
        (dollars_text(1234.5), "$1,234.50"),
        (time_text(12), "12 us"),
        (time_text(3_400), "3.4 ms"),
    ],
)
def test_figures_are_written_as_people_read_them(text: str, expected: str) -> None:
    assert text == expected


# -- the command ---------------------------------------------------------------------------------------------------------


def trace_file(folder: Path) -> str:
    path = folder / "talk.jsonl"
    path.write_text("\n".join(json.dumps({"id": f"t{n}", "messages": agent(8)}) for n in range(3)))
    return str(path)


def test_the_command_writes_all_its_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, table = tmp_path / "out.html", tmp_path / "out.csv"
    argv = ["replay", trace_file(tmp_path), "--budget", "600,1.2k", "--strategies", "sliding,optimal", "--jobs", "1"]
    assert main([*argv, "--report", str(report), "--csv", str(table), "--limit", "2"]) == 0
    out = capsys.readouterr().out
    assert "talk: 2 conversations, 38 messages, 18 requests" in out
    assert f"report: {report}" in out
    assert report.read_text().startswith("<!doctype html>")
    assert len(table.read_text().splitlines()) == 1 + 4
    assert not list(tmp_path.glob("*.partial"))


def test_files_are_written_though_nobody_reads_the_table(tmp_path: Path) -> None:
    report = tmp_path / "out.html"
    argv = ["replay", trace_file(tmp_path), "--budget", "600", "--strategies", "sliding", "--jobs", "1"]
    code = "import sys; from holdall.cli import main; sys.exit(main(sys.argv[1:]))"
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, *argv, "--report", str(report)],
            stdout=writer,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
    assert report.stat().st_size > 10_000


def test_the_command_prints_json_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["replay", trace_file(tmp_path), "--budget", "600", "--strategies", "stable", "--json", "--model", "gpt-4o"]
    assert main([*argv, "--jobs", "1", "--only", "turns"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["model"], document["budgets"], document["price"]["caching"]) == ("gpt-4o", [600], "automatic")


def test_a_strategy_is_found_in_the_folder_one_works_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine_of_replay.py").write_text("def newest(request):\n    return request.messages[-1:]\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [path for path in sys.path if path])
    argv = ["replay", trace_file(tmp_path), "--budget", "600", "--strategies", "mine_of_replay:newest"]
    assert main([*argv, "--jobs", "2"]) == 0
    assert "mine_of_replay:newest" in capsys.readouterr().out


def test_a_strategy_that_fails_ends_the_command_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wrong_of_replay.py").write_text("def wrong(request):\n    raise ValueError('no')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    argv = ["replay", trace_file(tmp_path), "--budget", "600", "--strategies", "wrong_of_replay:wrong"]
    assert main([*argv, "--jobs", "2"]) == 1
    error = capsys.readouterr().err
    assert "ValueError: no" in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(["--budget", "4q"], "4q", id="a budget that is none"),
        pytest.param(["--budget", ","], "list of budgets", id="no budget"),
        pytest.param(["--strategies", "slding"], "no strategy 'slding'", id="no such strategy"),
        pytest.param(["--model", "nope"], "no price for the model 'nope'", id="no such model"),
        pytest.param(["--prices", "/nonexistent"], "cannot read /nonexistent", id="no price file"),
        pytest.param(["--report", "/nonexistent/x.html"], "there is no folder", id="no such folder"),
        pytest.param(["--limit", "0"], "limit must be at least 1", id="no conversation"),
        pytest.param(["--jobs", "0"], "jobs must be at least 1", id="no process"),
        pytest.param(["/nonexistent.json"], "cannot read /nonexistent.json", id="no such file"),
    ],
)
def test_bad_use_is_one_clear_line_and_exit_2(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", trace_file(tmp_path), *options]) == 2
    captured = capsys.readouterr()
    assert said in captured.err.splitlines()[-1]
    assert captured.out == ""


@pytest.mark.data
def test_recorded_conversations_are_replayed(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [
        str(recorded / "trajectories" / "tau_airline.jsonl"),
        str(recorded / "state" / "peer_sqlite_new" / "openai_agents_session.sqlite"),
        str(recorded / "state" / "peer_sqlite_new" / "langgraph_checkpoints.sqlite"),
    ]
    assert main(["replay", *paths, "--budget", "4k,16k", "--json", "--jobs", "1"]) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    ours = [one for one in figures if one["strategy"] in ("summary", "greedy", "optimal", "stable")]
    assert len({one["source"] for one in figures}) == 3
    assert sum(one["requests"] for one in ours) > 1_500
    assert sum(one["invalid"] for one in ours) == 0
