"""`streamnorm run`: a command on a gateway of its own, as processes on loopback."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.cli.servers import provider

from streamnorm.cli import main
from streamnorm.testing import FakeProvider, faults

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"),
    pytest.mark.usefixtures("heard_interrupts"),
]

RUN = (sys.executable, "-m", "streamnorm", "run")
NOWHERE = "openai_chat=http://127.0.0.1:9"
WAIT_S = 30.0
# What an agent does: asks once, with the variables that it was given.
ASK = """
import json, os, sys, urllib.error, urllib.request
body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
headers = {"content-type": "application/json", "x-api-key": os.environ["ANTHROPIC_API_KEY"]}
headers |= json.loads(os.environ.get("TEST_HEADERS", "{}"))
request = urllib.request.Request(url, json.dumps(body).encode(), headers)
try:
    with urllib.request.urlopen(request) as answer:
        print(json.load(answer)["content"][0]["text"])
except urllib.error.HTTPError as error:
    print(error.code)
"""
# Says each signal that it gets, and ends at SIGUSR1.
LISTEN = """
import os, signal, sys
def say(number, _frame):
    # At once: another signal may interrupt this one between the name and the end of its line.
    os.write(1, signal.Signals(number).name.encode() + b"\\n")
    if number == signal.SIGUSR1:
        sys.exit(0)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGCONT):
    signal.signal(number, say)
print("ready", os.getpid(), os.getppid(), os.environ.get("OPENAI_BASE_URL"), flush=True)
while True:
    signal.pause()
"""


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    """Yield the option that names an upstream."""
    with provider(FakeProvider(["It snows."] * 99).app()) as url:
        yield f"openai_chat={url}/v1"


def run(
    upstream: str, *arguments: str, stdin: str = "", **environ: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RUN, "--upstream", upstream, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env={**os.environ, **environ},
        timeout=WAIT_S,
    )


def python(code: str) -> tuple[str, ...]:
    return ("--", sys.executable, "-c", code)


@contextmanager
def listening(upstream: str) -> Iterator[tuple[subprocess.Popen[str], int, str]]:
    """Run the command that listens to signals; yield `run`, the command's id and its URL."""
    with subprocess.Popen(
        [*RUN, "--upstream", upstream, *python(LISTEN)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            _, text, _, url = process.stdout.readline().split()
            pid = int(text)
            late = threading.Timer(WAIT_S, os.kill, (pid, signal.SIGKILL))
            late.start()
            try:
                yield process, pid, url
            finally:
                late.cancel()
        finally:
            process.kill()


# What the command gets


def test_command_gets_the_variables_of_the_sdks_and_one_key(upstream: str) -> None:
    print_environ = "import json, os; print(json.dumps(dict(os.environ)))"
    done = run(
        upstream,
        *python(print_environ),
        OPENAI_API_KEY="sk-mine",
        ANTHROPIC_AUTH_TOKEN="sk-mine",  # noqa: S106 - no key
        CLAUDE_CODE_USE_BEDROCK="1",
        MINE="1",
    )
    assert (done.returncode, done.stderr) == (0, "")
    environ: dict[str, str] = json.loads(done.stdout)
    url = environ["ANTHROPIC_BASE_URL"]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
    assert environ["OPENAI_BASE_URL"] == f"{url}/v1"
    assert environ["GOOGLE_GEMINI_BASE_URL"] == url
    keys = {environ[f"{vendor}_API_KEY"] for vendor in ("OPENAI", "ANTHROPIC", "GEMINI")}
    (key,) = keys
    assert len(key) >= 32
    assert {"sk-mine", "1"} & {*environ.values()} == {"1"}
    assert environ["MINE"] == "1"
    assert "CLAUDE_CODE_USE_BEDROCK" not in environ


def test_arguments_and_streams_are_those_of_the_command(upstream: str) -> None:
    code = "import sys; print(sys.argv[1:], sys.stdin.read()); print('said', file=sys.stderr)"
    done = run(upstream, *python(code), "--config", "--", "x", stdin="typed")
    assert (done.stdout, done.stderr) == ("['--config', '--', 'x'] typed\n", "said\n")


def test_answer_reaches_the_command(upstream: str) -> None:
    done = run(upstream, *python(ASK))
    assert (done.stdout, done.stderr) == ("It snows.\n", "")


def test_request_without_the_key_of_the_command_is_refused(upstream: str) -> None:
    done = run(upstream, *python(ASK), TEST_HEADERS='{"x-api-key": "another"}')
    assert done.stdout == "401\n"


def sent_keys(*arguments: str, **environ: str) -> list[str]:
    """Return the keys that an upstream of Anthropic's gets from a command."""
    keys: list[str] = []
    fake = FakeProvider("It snows.").app()

    async def keeping(scope: object, receive: object, send: object) -> None:
        headers: list[tuple[bytes, bytes]] = scope["headers"]  # type: ignore[index]  # of ASGI
        keys.extend(value.decode() for name, value in headers if name == b"x-api-key")
        await fake(scope, receive, send)  # type: ignore[arg-type]  # of ASGI

    with provider(keeping) as url:
        done = run(f"anthropic={url}", *arguments, *python(ASK), **environ)
    assert done.stdout == "It snows.\n"
    return keys


def test_gateway_reads_the_key_that_its_command_does_not_get() -> None:
    key = {"ANTHROPIC_API_KEY": "sk-of-the-user"}
    assert sent_keys("--key", "anthropic=env:ANTHROPIC_API_KEY", **key) == ["sk-of-the-user"]


def test_command_keeps_its_own_key_for_an_upstream_that_is_sent_it() -> None:
    key = {"ANTHROPIC_API_KEY": "sk-of-the-user"}
    assert sent_keys("--key", "anthropic=client", **key) == ["sk-of-the-user"]


# The end


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 7", 7), ("kill -KILL $$", 137), ("kill -INT $$", 130), ("kill -PIPE $$", 141)],
)
def test_exit_status_is_that_of_the_command(script: str, status: int, upstream: str) -> None:
    done = run(upstream, "--", "sh", "-c", script)
    assert (done.returncode, done.stderr) == (status, "")


def test_command_that_cannot_be_started_is_one_line(upstream: str, tmp_path: Path) -> None:
    (tmp_path / "text").touch()
    for name, status, reason in (
        ("not-there", 127, "command not found"),
        ("text", 126, "Permission denied"),
    ):
        done = run(upstream, "--", str(tmp_path / name))
        assert done.stderr == f"streamnorm: {tmp_path / name}: {reason}\n"
        assert (done.returncode, done.stdout) == (status, "")


def test_nothing_is_left_behind(
    upstream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with listening(upstream) as (process, pid, url):
        assert is_open(url)
        process.send_signal(signal.SIGUSR1)
        assert process.wait(WAIT_S) == 0
        assert not is_open(url)
        assert has_ended(pid)
    assert list(tmp_path.iterdir()) == []


def is_open(url: str) -> bool:
    port = int(re.findall(r":(\d+)", url)[0])
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def has_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="where a process can end with its parent")
def test_command_gets_sigterm_when_run_is_killed(upstream: str) -> None:
    with listening(upstream) as (process, pid, url):
        process.kill()
        assert process.stdout is not None
        assert process.stdout.readline() == "SIGTERM\n"
        os.kill(pid, signal.SIGUSR1)
        # Linux may send it again as each thread of the run ends, which is then the parent.
        assert process.stdout.read().replace("SIGTERM\n", "") == "SIGUSR1\n"
        process.wait(WAIT_S)
        assert not is_open(url)


# Signals


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signal_to_run_alone_reaches_the_command_once(name: str, upstream: str) -> None:
    with listening(upstream) as (process, _pid, _url):
        assert process.stdout is not None
        process.send_signal(signal.Signals[name])
        assert process.stdout.readline() == f"{name}\n"
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.read() == "SIGUSR1\n"
        assert process.wait(WAIT_S) == 0


EARLY = """
import os, signal
from streamnorm.cli.agents import ForegroundCommand
with ForegroundCommand(["sleep", "60"], os.environ) as command:
    os.killpg(0, signal.SIGINT)
    print(command.run())
"""


def test_ctrl_c_before_the_start_ends_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EARLY],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        start_new_session=True,
    )
    assert (done.stdout, done.stderr) == ("130\n", "")


def test_stopped_command_stops_run_and_goes_on_with_it(upstream: str) -> None:
    with listening(upstream) as (process, pid, _url):
        assert process.stdout is not None
        os.kill(pid, signal.SIGSTOP)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        process.send_signal(signal.SIGCONT)
        assert process.stdout.readline() == "SIGCONT\n"
        process.send_signal(signal.SIGUSR1)
        assert process.wait(WAIT_S) == 0


# The terminal


IN_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """A terminal of which a shell is the session leader."""

    def __init__(self, script: str, *arguments: str) -> None:
        self._ours, theirs = os.openpty()
        self._said = ""
        self._process = subprocess.Popen(
            [sys.executable, "-c", IN_TERMINAL, "sh", "-c", script, "sh", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def read_until(self, pattern: str) -> re.Match[str]:
        """Return the first match of a pattern in what is printed from here on."""
        while not (found := re.search(pattern, self._said)):
            assert select.select([self._ours], [], [], WAIT_S)[0], self._said
            self._said += os.read(self._ours, 4096).decode()
        self._said = self._said[found.end() :]
        return found

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)


def test_keys_of_the_terminal_reach_the_command_once(upstream: str) -> None:
    script = 'trap : INT; "$@"; echo "status $?."'
    with Terminal(script, *RUN, "--upstream", upstream, *python(LISTEN)) as terminal:
        run_pid = int(terminal.read_until(r"ready \d+ (\d+) .*\n")[1])
        # Else two signals may reach the command as one.
        os.kill(run_pid, signal.SIGSTOP)
        terminal.type(b"\x03")
        terminal.read_until("SIGINT")
        os.kill(run_pid, signal.SIGCONT)
        # A SIGINT that were passed on would come before this one.
        os.kill(run_pid, signal.SIGUSR1)
        said = terminal.read_until(r"((?s:.*))status (\d+)\.")
        assert (said[1].split(), said[2]) == (["SIGUSR1"], "0")


def test_ctrl_z_stops_the_job_and_fg_continues_it(upstream: str) -> None:
    script = 'set -m; "$@"; echo "stopped $?."; fg >/dev/null; echo "status $?."'
    with Terminal(script, *RUN, "--upstream", upstream, *python(LISTEN)) as terminal:
        run_pid = int(terminal.read_until(r"ready \d+ (\d+) .*\n")[1])
        terminal.type(b"\x1a")
        stopped = int(terminal.read_until(r"stopped (\d+)\.")[1]) - 128
        assert stopped in (signal.SIGTSTP, signal.SIGSTOP)
        terminal.read_until("SIGCONT")
        os.kill(run_pid, signal.SIGUSR1)
        assert terminal.read_until(r"status (\d+)\.")[1] == "0"


def test_terminal_of_a_killed_command_has_its_modes_back(upstream: str) -> None:
    script = '"$@"; echo "status $?."; stty -a'
    raw = "import os, signal, tty; tty.setraw(0); os.kill(os.getpid(), signal.SIGKILL)"
    with Terminal(script, *RUN, "--upstream", upstream, *python(raw)) as terminal:
        assert terminal.read_until(r"status (\d+)\.")[1] == "137"
        assert terminal.read_until(r"-?icanon")[0] == "icanon"


# The log


def test_log_goes_to_its_file_alone(upstream: str, tmp_path: Path) -> None:
    path = tmp_path / "gateway.log"
    path.write_text("before\n")
    done = run(upstream, "--log", str(path), *python(ASK))
    assert (done.stdout, done.stderr) == ("It snows.\n", "")
    before, line = path.read_text().splitlines()
    assert before == "before"
    assert "client=anthropic" in line
    assert "status=200" in line


def test_failed_requests_are_counted_once_the_command_has_ended() -> None:
    fake = FakeProvider([faults.http(500), "It snows."]).app()
    with provider(fake) as url:
        done = run(f"openai_chat={url}/v1", *python(ASK + ASK))
    assert done.stdout == "500\nIt snows.\n"
    assert done.stderr == "streamnorm: 1 of 2 requests failed; --log FILE says how\n"


# The start


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ((), 2, "no command, expected -- COMMAND"),
        (("--",), 2, "no command, expected -- COMMAND"),
        (("--config", "not-there.toml", "--", "true"), 2, "not-there.toml"),
        (("--log", "/not/there", "--", "true"), 2, "--log /not/there: No such file or directory"),
        (("--", "true"), 1, "upstream openai_chat: 127.0.0.1 port 9: Connection refused"),
    ],
)
def test_wrong_start_is_one_line(
    arguments: tuple[str, ...], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--upstream", NOWHERE, *arguments]) == status
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("streamnorm: ")
    assert said in err


def test_taken_port_is_one_line(upstream: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(upstream, "--port", str(port), "--", "true")
    assert done.stderr == f"streamnorm: port {port}: Address already in use\n"
    assert done.returncode == 2


def test_upstream_that_does_not_answer_is_reported_if_another_does(upstream: str) -> None:
    done = run(upstream, "--upstream", "anthropic=http://127.0.0.1:9", "--", "true")
    assert done.stderr == ("streamnorm: upstream anthropic: 127.0.0.1 port 9: Connection refused\n")
    assert done.returncode == 0
