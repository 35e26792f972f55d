"""Settings of all tests: the async back ends, and the profiles of hypothesis."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from coverage import Coverage
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import none
from support.file_scheduling import FileScheduling
from xdist.remote import Producer

pytest_plugins = ["pytester"]

# Each HTTP client loads the authorities that it trusts, which takes 20 ms for those of a
# machine.  The tests stay on loopback: one authority, whose key is gone, will do.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "data/authority.pem")

# To look for garbage while the tests are collected takes half of the time, and there is none.
gc.disable()

_NPM_PACKAGES = {
    "tests/acceptance/node": "the SDKs for Node",
    "docs/page": "pages in a browser",
}


def _register(profile: str, examples: int, *, fixed: bool = False) -> None:
    settings.register_profile(
        profile,
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=fixed,
    )


# Each run meets new examples; before a release, many.
_register("default", 20)
_register("release", 500)
# A change is judged by the same examples each time, beside those.
_register("fixed", 40, fixed=True)
_register("quick", 20, fixed=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_collection_finish() -> None:
    """Keep the tests themselves out of each collection, and collect less often."""
    # Before its first example hypothesis looks for who refers to its random numbers, and would
    # find nobody among what is frozen.
    given(none())(lambda nothing: None)()
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


def pytest_sessionfinish() -> None:
    """Save what coverage has measured: a worker that ends slowly is killed before it does."""
    if (current := Coverage.current()) is not None:
        current.save()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say at the end what this run left out."""
    left = []
    if config.option.markexpr == "not slow":
        left.append('tests that take minutes; -m "" runs them, too')
    for variable, what in (
        ("STREAMNORM_CORPUS", "real streams"),
        ("STREAMNORM_REQUESTS", "requests of real agents"),
    ):
        if variable not in os.environ:
            left.append(f"{what}; {variable} names no folder of them")
    for folder, what in _NPM_PACKAGES.items():
        if not (Path(__file__).parents[1] / folder / "node_modules/.package-lock.json").exists():
            left.append(f"{what}; npm ci --prefix {folder} installs them")
    for line in left:
        terminalreporter.write_line(f"left out: {line}", yellow=True)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Send one report of a test that has passed, in place of those of its three phases.

    Most tests take less time than their reports take on the way from a worker.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if all(report.passed for report in reports):
        reports = [report for report in reports if report.when == "call"]
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileScheduling | None:
    """Replace the scheduler of `--dist loadfile`."""
    return FileScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run async tests with the mark `on_asyncio` on that back end alone."""
    is_marked = metafunc.definition.get_closest_marker("on_asyncio")
    if is_marked and "anyio_backend" in metafunc.fixturenames:
        backend = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module")
        metafunc.definition.add_marker(backend)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run each async test on both back ends."""
    return str(request.param)
