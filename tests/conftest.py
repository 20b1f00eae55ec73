"""Profiles, seeds and the recorded conversations that the tests read where they lie."""

from __future__ import annotations

import gzip
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import tiktoken
from hypothesis import HealthCheck, settings

from tests.servers.fixtures import (  # noqa: F401 - fixtures
    aws_server,
    cluster_server,
    mongodb_server,
    namespace,
    pgbouncer_server,
    postgres_server,
    proxy_to,
    redis7_server,
    sentinel_server,
    valkey_server,
)

# `ci` samples, `full` is what reported figures come from: HOLDALL_PROFILE=full pytest
PROFILE = os.environ.get("HOLDALL_PROFILE", "ci")
settings.register_profile(
    "ci", max_examples=60, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "full", max_examples=2000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(PROFILE)

SHARED = Path(os.environ.get("HOLDALL_SHARED", Path(__file__).resolve().parents[2] / "shared"))


@pytest.fixture(scope="session")
def full() -> bool:
    """Whether the whole load is asked for."""
    return PROFILE == "full"


@pytest.fixture(scope="session")
def recorded() -> Path:
    """The folder of recorded conversations, or a skip that says where it was looked for."""
    data = SHARED / "data"
    if not data.is_dir():
        pytest.skip(f"no recorded conversations at {data}; set HOLDALL_SHARED to the folder that holds data/")
    return data


_FIGURES = "figures"


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Print a line of figures at the end of the test run."""
    properties = request.node.user_properties  # what a worker process hands to the one that prints

    def add(line: str) -> None:
        properties.append((_FIGURES, line))

    return add


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what the tests counted: packs, kills, acknowledged writes."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.stats.get(outcome, [])]
    figures = [
        value
        for report in reports
        if report.when == "call"
        for name, value in report.user_properties
        if name == _FIGURES
    ]
    if figures:
        terminalreporter.section(f"figures ({PROFILE} profile)")
        for line in figures:
            terminalreporter.line(line)


# tiktoken keeps what it downloads under sha1(URL); the same files are in a wheel that the tests install.
VOCABULARIES = {
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
}


@pytest.fixture(scope="session")
def tiktoken_encoding(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tiktoken.Encoding]:
    """tiktoken's own encoding by name, offline; tiktoken checks the hash of the vocabulary that it is given."""
    wheel = importlib.util.find_spec("bpe_openai")  # found, not imported: its library is large
    assert wheel is not None, "install the test extra: the wheel bpe-openai brings tiktoken's vocabularies"
    data = Path(wheel.submodule_search_locations[0]) / "data"
    cache = tmp_path_factory.mktemp("tiktoken")
    for name, file in VOCABULARIES.items():
        (cache / file).write_bytes(gzip.decompress((data / f"{name}.tiktoken.gz").read_bytes()))

    def load(name: str) -> tiktoken.Encoding:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TIKTOKEN_CACHE_DIR", str(cache))
            return tiktoken.get_encoding(name)

    return load
