"""The pytest plugin with the fixture `streamnorm_recording`.

    def test_agent(streamnorm_recording):
        http = streamnorm_recording.client(openai.DefaultHttpxClient)
        client = openai.OpenAI(http_client=http, api_key="…")
        assert agent.run(client) == "done"

`pytest --streamnorm-record=once` records missing exchanges beside the test module, in
`recordings/<module>/<test>/`; without it, tests replay and reach no network.  See
`RecordingFixture` for the interface of the fixture.

Modes of `--streamnorm-record`, or else of the environment variable `STREAMNORM_RECORD`:

    none      replay; a request without a recording fails the test
    once      record if the test has no recordings, else like `none`
    new       replay what is recorded, and record the rest after it
    rewrite   record anew, and replace the recordings if the test passes

All but `none` are refused if `CI` is set, unless `--streamnorm-allow-ci` is given.

`@pytest.mark.streamnorm` takes the name of recordings that several tests share, any options
of `ReplayTransport`, and `allow_unplayed=True` for a test that may leave recordings unplayed.

Every run of pytest loads this module, so it imports nothing but pytest.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Generator, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import pytest

if TYPE_CHECKING:
    from streamnorm.testing.fixture import RecordingFixture


Mode: TypeAlias = Literal["none", "once", "new", "rewrite"]
"""Recording mode of a run: see above."""

_FIXTURE = "streamnorm_recording"
_MARKER = (
    "streamnorm(name, *, match, drift, speed, rechunk, max_gap_s, faults, ignore, redact, "
    "allow_unplayed): which recordings the fixture streamnorm_recording uses, and how it "
    "replays them"
)

REPLAY_OPTIONS = ("match", "drift", "rechunk", "faults", "ignore", "redact", "speed", "max_gap_s")
"""The options of `ReplayTransport`."""

_KEYWORDS = (*REPLAY_OPTIONS, "allow_unplayed")
# Characters of a file name that are not valid on every system, or need quotes in a shell.
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+|\.$")
_MAX_CHARS = 100


@dataclass
class _Tally:
    """Totals of a test run.

    Attributes:
        recorded: Number of exchanges recorded.
        replayed: Number of requests answered by a recording.
        failures: Messages about exchanges that could not be recorded.
        unrecorded: Messages about requests that no recording answered, below their test.
        without_faults: Ids of tests that were recorded without their faults.
    """

    recorded: int = 0
    replayed: int = 0
    failures: list[str] = field(default_factory=list[str])
    unrecorded: list[str] = field(default_factory=list[str])
    without_faults: list[str] = field(default_factory=list[str])

    def add(self, other: _Tally) -> None:
        for name, total in vars(other).items():
            setattr(self, name, getattr(self, name) + total)


_MODE = pytest.StashKey[Mode]()
_TALLY = pytest.StashKey[_Tally]()
_PASSED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the plugin's options."""
    group = parser.getgroup("streamnorm", "recorded streams of LLM providers")
    group.addoption(
        "--streamnorm-record",
        choices=get_args(Mode),
        help="record what tests ask a provider: none (default), once, new or rewrite; "
        "also by STREAMNORM_RECORD",
    )
    group.addoption(
        "--streamnorm-allow-ci", action="store_true", help="record even where CI is set"
    )
    parser.addini(
        "streamnorm_dir",
        "folder of recordings, beside each test module (default: recordings)",
        default="recordings",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and determine the mode."""
    config.addinivalue_line("markers", _MARKER)
    config.stash[_TALLY] = _Tally()
    config.stash[_MODE] = _read_mode(config)


def _read_mode(config: pytest.Config) -> Mode:
    given = config.getoption("--streamnorm-record") or os.environ.get("STREAMNORM_RECORD")
    modes: tuple[Mode, ...] = get_args(Mode)
    if given and given not in modes:
        raise pytest.UsageError(f"STREAMNORM_RECORD is {given!r}, expected {', '.join(modes)}")
    mode = modes[modes.index(given or "none")]
    ci = os.environ.get("CI", "").lower() not in ("", "0", "false")
    if mode != "none" and ci and not config.getoption("--streamnorm-allow-ci"):
        raise pytest.UsageError(
            f"recording ({mode}) where CI is set, expected none, or --streamnorm-allow-ci"
        )
    return mode


@pytest.fixture
def streamnorm_recording(request: pytest.FixtureRequest) -> Iterator[RecordingFixture]:
    """The recordings of this test, with replaying or recording HTTP clients."""
    from streamnorm.testing.fixture import open_recordings

    config, item = request.config, request.node
    recording = open_recordings(item, config.stash[_MODE])
    yield recording
    try:
        problems = recording.finish(passed=item.stash.get(_PASSED, False))
    finally:
        failures = [f"{item.nodeid}: {failure}" for failure in recording.failures]
        unrecorded = [f"{item.nodeid}\n{message}" for message in recording.unrecorded]
        faultless = [item.nodeid] if recording.ran_without_faults else []
        tally = _Tally(recording.recorded, recording.replayed, failures, unrecorded, faultless)
        config.stash[_TALLY].add(tally)
    if problems:
        pytest.fail("\n\n".join(problems), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Store whether a test passed, for the fixture's teardown."""
    report = yield
    if call.when == "call" and _FIXTURE in getattr(item, "fixturenames", ()):
        item.stash[_PASSED] = report.passed
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the totals of a pytest-xdist worker to the controller."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None and _TALLY in session.config.stash:
        # pytest-xdist sends it by execnet, which serialises builtin types alone.
        output["streamnorm"] = asdict(session.config.stash[_TALLY])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add the totals of a pytest-xdist worker, unless it crashed."""
    output = getattr(node, "workeroutput", {})
    if "streamnorm" in output:
        node.config.stash[_TALLY].add(_Tally(**output["streamnorm"]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print requests without recordings, failures and totals."""
    tally = terminalreporter.config.stash[_TALLY]
    if tally.unrecorded:
        # A test may have swallowed the error, and `--tb=no` shows none.
        terminalreporter.section("streamnorm: requests without a recording", red=True)
        terminalreporter.write_line("\n\n".join(tally.unrecorded))
    if tally.failures:
        terminalreporter.section("streamnorm: not recorded", yellow=True)
        for failure in tally.failures:
            terminalreporter.write_line(failure)
    for test in tally.without_faults:
        terminalreporter.write_line(f"streamnorm: recorded without its faults, run again: {test}")
    if tally.recorded and terminalreporter.verbosity >= 0:
        terminalreporter.write_line(
            f"streamnorm: {tally.recorded} recorded, {tally.replayed} replayed"
        )


class MarkerOptions(NamedTuple):
    """Options of a test's markers; the nearest marker overrides others.

    Attributes:
        name: Name of shared recordings; None for recordings of this test alone.
        options: Options of `ReplayTransport`.
        allow_unplayed: Whether the test may leave recordings unplayed.
    """

    name: str | None
    options: Mapping[str, Any]
    allow_unplayed: bool


def read_markers(item: pytest.Item) -> MarkerOptions:
    """Return the options of a test's markers.

    Raises:
        pytest.UsageError: A marker has other arguments.
    """
    name: str | None = None
    options: dict[str, Any] = {}
    for marker in reversed([*item.iter_markers("streamnorm")]):
        if len(marker.args) > 1:
            raise pytest.UsageError(
                f"marker streamnorm of {item.nodeid} has {len(marker.args)} names, expected one"
            )
        unknown = sorted(marker.kwargs.keys() - set(_KEYWORDS))
        if unknown:
            raise pytest.UsageError(
                f"marker streamnorm of {item.nodeid} has {', '.join(unknown)},"
                f" expected {', '.join(_KEYWORDS)}"
            )
        name = _check_name(marker.args[0], item) if marker.args else name
        options |= marker.kwargs
    return MarkerOptions(name, options, bool(options.pop("allow_unplayed", False)))


def _check_name(name: object, item: pytest.Item) -> str:
    """Return a name, checked to stay within its folder on every system."""
    inside = (
        isinstance(name, str)
        and not re.search(r'[\\:*?"<>|\x00-\x1f]', name)
        and all(part.strip(". ") for part in name.split("/"))
    )
    if not inside:
        raise pytest.UsageError(
            f"marker streamnorm of {item.nodeid} has the name {name!r},"
            ' expected one as "agent" or "agent/two-tools"'
        )
    return str(name)


def locate_recordings(item: pytest.Item, name: str | None) -> Path:
    """Return the folder or file of a test's recordings, which need not exist.

    Args:
        item: The test.
        name: Name from its marker; None for a folder of its own.

    Raises:
        pytest.UsageError: The ini option `streamnorm_dir` is no relative path.
    """
    folder = PurePosixPath(item.config.getini("streamnorm_dir"))
    if folder.is_absolute() or Path(folder).is_absolute():
        raise pytest.UsageError(
            f"streamnorm_dir is {str(folder)!r}, expected a path relative to the test module"
        )
    root = item.path.parent / folder
    if name is None:
        return root / _make_safe(item.path.stem) / _make_safe(_name_of(item))
    files = (root / f"{name}{suffix}" for suffix in (".sse", ".eventstream"))
    return next((file for file in files if file.is_file()), root / name)


def _name_of(item: pytest.Item) -> str:
    """Return a test's name with its classes and parameters."""
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    call = getattr(item, "callspec", None)
    if call is None:
        return ".".join([*classes, item.name])
    function = item.name.removesuffix(f"[{call.id}]")
    return ".".join([*classes, f"{function}-{call.id}"])


def _make_safe(name: str) -> str:
    """Return a valid file name, unique for each name."""
    safe = _UNSAFE.sub("_", name)
    if safe == name and len(safe) <= _MAX_CHARS:
        return name
    digest = blake2b(name.encode("utf-8", "backslashreplace"), digest_size=4).hexdigest()
    return f"{safe[:_MAX_CHARS]}-{digest}"


def write_command(item: pytest.Item, mode: str) -> str:
    """Return the command that runs a single test in a recording mode."""
    path = Path(os.path.abspath(item.path))
    inside = item.nodeid.partition("::")[2]
    try:
        file = os.path.relpath(path, item.config.invocation_params.dir)
    except ValueError:  # on another drive
        file = str(path)
    return f"pytest {shlex.quote(f'{file}::{inside}')} --streamnorm-record={mode}"
