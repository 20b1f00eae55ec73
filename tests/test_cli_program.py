"""The program as a shell runs it: odd streams, odd locales, wrong input. Each is one clear line, and no traceback."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import holdall

SNOW = {"messages": [{"role": "user", "content": "Grüße ☃"}]}
TALK = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]


def run(
    *arguments: str, data: str | None = None, encoding: str = "utf-8", **env: str
) -> subprocess.CompletedProcess[str]:
    """Run the command as `python -m holdall` does."""
    done = subprocess.run(
        [sys.executable, "-m", "holdall", *arguments], input=data, capture_output=True, encoding=encoding, errors="replace",
        timeout=60, check=False, env={**os.environ, **env},
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return done


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in which `$holdall` is the command."""
    env = {**os.environ, "holdall": f"{sys.executable} -m holdall"}
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, check=False, env=env)
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def snow(tmp_path: Path) -> str:
    path = tmp_path / "snow.json"
    path.write_text(json.dumps(SNOW))
    return str(path)


@pytest.mark.parametrize(
    "env",
    [
        pytest.param({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, id="the C locale"),
        pytest.param({"PYTHONIOENCODING": "latin-1"}, id="latin-1"),
    ],
)
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_what_a_terminal_cannot_show_is_escaped(snow: str, env: dict[str, str], options: list[str]) -> None:
    done = run("pack", snow, *options, **env)
    assert done.returncode == 0
    assert r"\u2603" in done.stdout


def test_a_closed_standard_output_swallows_all(snow: str, tmp_path: Path) -> None:
    done = shell(f"$holdall pack {snow} --out {tmp_path}/out.json >&-")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((tmp_path / "out.json").read_text()) == SNOW


def test_a_closed_standard_input_is_told(snow: str) -> None:
    done = shell("$holdall count <&-")
    assert (done.returncode, done.stderr) == (2, "holdall count: cannot read -: standard input is closed\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
def test_a_full_disk_is_one_line_and_a_failure(snow: str) -> None:
    done = shell(f"$holdall pack {snow} >/dev/full")
    assert done.returncode == 1
    assert done.stderr == "holdall pack: cannot write standard output: No space left on device\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
def test_help_on_a_full_disk_is_a_failure_too() -> None:
    done = shell("unset PYTHONUNBUFFERED; $holdall --help >/dev/full")  # argparse swallows what fails at once
    assert (done.returncode, done.stderr) == (1, "holdall: cannot write standard output: No space left on device\n")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_is_json_in_any_encoding(snow: str, tmp_path: Path, encoding: str) -> None:
    done = run("pack", snow, "--json", PYTHONIOENCODING=encoding, encoding=encoding)
    assert json.loads(done.stdout)["request"] == SNOW
    state = holdall.SessionState(session_id="s", user_id="u", messages=SNOW["messages"])
    with holdall.open_sync(f"sqlite:///{tmp_path}/x.db") as store:
        store.save(state)
    done = run("sessions", "export", f"sqlite:///{tmp_path}/x.db", "s", PYTHONIOENCODING=encoding, encoding=encoding)
    assert "Grüße ☃" in str([json.loads(line) for line in done.stdout.splitlines()])


def test_what_is_written_goes_where_a_link_leads_and_keeps_its_mode(snow: str, tmp_path: Path) -> None:
    private, link = tmp_path / "private.json", tmp_path / "link.json"
    private.touch(mode=0o600)
    link.symlink_to(private)
    assert run("pack", snow, "--out", str(link)).returncode == 0
    assert link.is_symlink()
    assert json.loads(private.read_text()) == SNOW
    assert private.stat().st_mode & 0o777 == 0o600


def test_what_is_no_file_is_written_to_and_not_replaced(snow: str, tmp_path: Path) -> None:
    """As root `--out /dev/null` replaced the device for all of the machine."""
    os.mkfifo(tmp_path / "pipe")
    done = shell(f"$holdall pack {snow} --out {tmp_path}/pipe >{tmp_path}/said & cat {tmp_path}/pipe; wait")
    assert json.loads(done.stdout) == SNOW
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("command", [["pack", "--out"], ["replay", "--budget", "1k", "--report"]])
def test_a_folder_to_write_to_is_one_clear_line(snow: str, tmp_path: Path, command: list[str]) -> None:
    for folder in (str(tmp_path), "."):
        done = run(command[0], snow, *command[1:], folder)
        assert done.returncode == 2
        assert done.stderr == f"holdall {command[0]}: cannot write {folder}: Is a directory\n"


def test_an_interrupt_at_the_start_leaves_no_trace() -> None:
    program = """
import sys, holdall.cli
command = sys.modules["holdall.cli.main"]
def interrupted(name):
    raise KeyboardInterrupt
command.importlib.import_module = interrupted
sys.exit(command.main(["--help"]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (130, "")


def test_an_interrupt_while_processes_of_a_replay_start_leaves_no_trace(tmp_path: Path) -> None:
    """A terminal sends Ctrl-C to all of them; here the first to start does, at its first line."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\nif '--multiprocessing-fork' in sys.orig_argv: os.killpg(0, signal.SIGINT)\n"
    )
    (tmp_path / "talk.json").write_text(json.dumps(TALK))
    done = subprocess.run(
        [sys.executable, "-m", "holdall", "replay", "talk.json", "--jobs", "2"], capture_output=True, text=True, timeout=120,
        check=False, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, start_new_session=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("size", ["1", "512", "600"])
def test_a_window_too_small_for_the_demo_is_one_line(size: str) -> None:
    done = run("demo", "--max-tokens", size, "--json")
    assert done.returncode == (1 if size == "600" else 2)
    assert done.stderr.startswith("holdall demo: ")
    assert done.stderr.count("\n") == 1


def test_a_folder_for_the_demo_that_is_a_file_is_named(snow: str) -> None:
    done = run("demo", "--keep", snow)
    assert (done.returncode, done.stderr) == (2, f"holdall demo: cannot make the folder {snow}: File exists\n")


def test_a_size_of_tokens_is_read_alike_by_every_command() -> None:
    assert (
        run("advise", "--window", "16k", "--json").stdout == run("advise", "--window", "16000", "--json").stdout != ""
    )


def test_an_empty_model_is_no_model(snow: str) -> None:
    """As of a shell's variable that is not set: not counted for another model in silence."""
    assert "no tokenizer is known for the model ''" in run("count", snow, "--model", "").stderr


def test_a_model_without_a_public_tokenizer_says_what_to_do(snow: str) -> None:
    done = run("pack", snow, "--model", "claude-sonnet-5-5")
    assert done.returncode == 2
    assert "--encoding o200k_base" in done.stderr
    assert "Tokenizer." not in done.stderr


def test_a_file_that_is_no_text_is_not_asked_to_be_json(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"\xff\x00")
    assert "is it a text file?" in run("count", str(tmp_path / "x.bin")).stderr


def test_replay_reads_standard_input() -> None:
    done = run("replay", "-", "--budget", "1k", "--strategies", "sliding", data=json.dumps(TALK))
    assert done.returncode == 0
    assert done.stdout.startswith("stdin: 1 conversation, 2 messages")
    empty = run("replay", "-", data=" \n")
    assert (empty.returncode, empty.stderr) == (2, "holdall replay: - is empty; expected JSON, JSONL or SQLite\n")
    magic = run("replay", "-", data="SQLite format 3\0 and so on")
    assert (magic.returncode, magic.stderr) == (
        2,
        "holdall replay: - is SQLite, which can only be read as a file: give its path\n",
    )


def test_importing_what_is_no_session_says_what_one_is(snow: str, tmp_path: Path) -> None:
    done = run("sessions", "import", f"sqlite:///{tmp_path}/x.db", snow)
    assert done.returncode == 2
    assert "line 1 is not of a session" in done.stderr
    assert "holdall sessions export" in done.stderr


def test_progress_keeps_to_a_narrow_terminal() -> None:
    """A line that wraps cannot be written over, and would be left standing."""
    program = (
        "import os, sys; from holdall.cli import replay; replay.QUIET_S = replay.EVERY_S = 0.0; p = replay._Progress();"
        "p(3, 1000, 'a label that is longer than any narrow terminal would take')"
    )
    owner, terminal = pty.openpty()
    env = {**os.environ, "COLUMNS": "40"}
    subprocess.run([sys.executable, "-c", program], stderr=terminal, env=env, check=True, timeout=60)
    os.set_blocking(owner, False)
    said = os.read(owner, 10_000).decode()
    os.close(terminal)
    os.close(owner)
    assert said.startswith("\r3 of 1,000 turns")
    assert len(said.strip("\r")) <= 39
