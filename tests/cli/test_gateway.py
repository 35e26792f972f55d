"""`streamnorm serve`, and a gateway in the workers of a server, as processes on loopback."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.cli.servers import provider, running

from streamnorm.cli import main
from streamnorm.testing import FakeProvider, faults

REQUEST = {
    "model": "claude-x",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Hello"}],
}
CONFIG = """
[upstreams.local]
dialect = "openai_chat"
base_url = "{url}"
"""


@pytest.fixture
def upstream() -> Iterator[str]:
    with provider(FakeProvider(["It snows."] * 9).app()) as url:
        yield url


def assert_refused(*arguments: object, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line with which a start was refused."""
    try:
        status: object = main(["serve", *map(str, arguments)])
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("streamnorm: ")
    assert said.err.count("\n") == 1
    return said.err


# The start


def test_upstreams_of_the_command_line_are_named_by_their_dialects(
    upstream: str, client: httpx.Client
) -> None:
    other = "http://127.0.0.1:9"
    with running(
        "serve", "--upstream", f"openai={upstream}/v1", "--upstream", f"anthropic={other}"
    ) as server:
        assert server.said == [
            f"listening on {server.url}",
            "upstreams: openai_chat (openai_chat), anthropic (anthropic)",
            f"  OPENAI_BASE_URL={server.url}/v1",
        ]
        assert server.url.startswith("http://127.0.0.1:")
        body = {**REQUEST, "model": "m"}
        answer = client.post(f"{server.url}/v1/chat/completions", json=body)
        assert (answer.status_code, "It snows." in answer.text) == (200, True)
        status, said = server.end(signal.SIGTERM)
    assert (status, said) == (0, [])


def test_config_and_command_line_add_up(
    upstream: str, client: httpx.Client, tmp_path: Path
) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(CONFIG.format(url=upstream) + '[[models]]\nmatch = "*"\nto = ["local"]\n')
    with running("serve", "--config", path, "--upstream", "anthropic=http://127.0.0.1:9") as server:
        assert server.said[1] == "upstreams: local (openai_chat), anthropic (anthropic)"
        answer = client.post(f"{server.url}/v1/messages", json=REQUEST)
        assert answer.json()["content"][0]["text"] == "It snows."
        assert server.end(signal.SIGINT) == (130, [])


def test_dashboard_is_announced_with_its_url(
    client: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "gateway.toml"
    dashboard = '[dashboard]\nadmin_keys = "env:ADMIN_KEYS"\n'
    path.write_text(CONFIG.format(url="http://127.0.0.1:9") + dashboard)
    monkeypatch.setenv("ADMIN_KEYS", "admin-0123456789abcdef")
    with running("serve", "--config", path) as server:
        assert server.said[2] == f"dashboard: {server.url}/dashboard"
        answer = client.post(f"{server.url}/dashboard/login", data={"key": "wrong"})
        assert answer.status_code == 401
        assert "no admin key" in answer.text
        assert server.end(signal.SIGTERM) == (0, [])


def test_key_is_read_from_the_environment(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[str] = []
    fake = FakeProvider("It snows.").app()

    async def keeping(scope: Any, receive: Any, send: Any) -> None:
        keys.extend(value.decode() for name, value in scope["headers"] if name == b"authorization")
        await fake(scope, receive, send)

    monkeypatch.setenv("SOME_KEY", "sk-0123456789")
    with (
        provider(keeping) as url,
        running(
            *("serve", "--upstream", f"openai_chat={url}", "--key", "chat=env:SOME_KEY")
        ) as server,
    ):
        client.post(f"{server.url}/v1/messages", json=REQUEST)
        server.end(signal.SIGTERM)
    assert keys == ["Bearer sk-0123456789"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "no upstream, expected --upstream or --config"),
        (("--upstream", "openai_chat"), "--upstream: no dialect and value, expected DIALECT=..."),
        (("--upstream", "cobol=http://a"), "cobol"),
        (("--upstream", "openai_chat=http://"), "upstreams.openai_chat.base_url"),
        *[
            (
                ("--upstream", f"chat={url}"),
                "--upstream openai_chat: no http:// or https:// before the host, "
                "expected openai_chat=http://HOST:PORT\n",
            )
            for url in ("nowhere", "127.0.0.1:9", "localhost:9/v1", "sk-123")
        ],
        (("--upstream", "openai=http://a", "--upstream", "chat=http://b"), "--config"),
        (("--key", "anthropic=client"), "--key anthropic"),
        (
            ("--upstream", "anthropic=http://127.0.0.1:9", "--key", "anthropic=sk-123"),
            "upstreams.anthropic.key",
        ),
        (
            ("--upstream", "anthropic=http://127.0.0.1:9", "--key", "anthropic=env:NOT_SET_HERE"),
            "upstreams.anthropic.key: NOT_SET_HERE",
        ),
        (("--config", "does-not-exist.toml"), "does-not-exist.toml"),
        (("--port", "70000"), "--port"),
        (
            ("--upstream", "anthropic=http://127.0.0.1:9", "--host", "no.such.host.invalid"),
            "host no.such.host.invalid",
        ),
    ],
)
def test_wrong_start_is_one_line_that_names_what_is_wrong(
    arguments: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert named in assert_refused(*arguments, capsys=capsys)


def test_key_in_the_place_of_its_source_is_not_repeated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    upstream = ("--upstream", "anthropic=http://127.0.0.1:9")
    for key in ("sk-ant-0123456789", "anthropic=sk-ant-0123456789"):
        assert "0123456789" not in assert_refused(*upstream, "--key", key, capsys=capsys)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("keepalive_s = 'x'\n" + CONFIG, "keepalive_s"),
        ("keep_alive = 1\n" + CONFIG, "keep_alive"),
        (CONFIG + "password = 1\n", "password"),
        (CONFIG + "[[models]]\nmatch = '*'\nto = ['away']\n", "models[0].to"),
        ("keepalive_s\nidle_s = 3", "line 1"),
    ],
)
def test_wrong_config_is_one_line_that_names_the_key(
    text: str, key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(text.format(url="http://127.0.0.1:9"))
    assert key in assert_refused("--config", path, capsys=capsys)


def test_missing_directory_of_metrics_stops_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path / "missing"))
    said = assert_refused("--upstream", "anthropic=http://127.0.0.1:9", capsys=capsys)
    assert said == "streamnorm: PROMETHEUS_MULTIPROC_DIR: no directory, expected one\n"


def test_upstream_of_the_command_line_does_not_replace_one_of_the_config(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(CONFIG.format(url="http://127.0.0.1:9").replace("local", "openai_chat"))
    arguments = ("--config", path, "--upstream", "openai_chat=http://127.0.0.1:8")
    assert "--upstream openai_chat" in assert_refused(*arguments, capsys=capsys)


ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"


@pytest.mark.parametrize("missing", ["aiohttp", "uvicorn", ZSTD])
def test_missing_extra_is_one_line_with_the_command(
    missing: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("streamnorm.gateway")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    said = assert_refused("--upstream", "anthropic=http://127.0.0.1:9", capsys=capsys)
    assert f"no {missing}, expected the extra `serve`: pip install '.[serve]' in a clone" in said


@pytest.mark.skipif(ZSTD != "backports.zstd", reason="Python has zstd itself")
def test_missing_extra_is_named_by_its_package_and_not_the_namespace(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no package in `backports` is installed, the namespace is what Python misses."""

    class Nowhere:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "backports":
                raise ModuleNotFoundError("No module named 'backports'", name=name)

    for name in [
        name for name in sys.modules if name.startswith(("streamnorm.gateway", "backports"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Nowhere(), *sys.meta_path])
    said = assert_refused("--upstream", "anthropic=http://127.0.0.1:9", capsys=capsys)
    assert "no backports.zstd, expected the extra `serve`" in said


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])  # noqa: S104
def test_other_host_without_keys_needs_open(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = assert_refused(
        "--upstream", "anthropic=http://127.0.0.1:9", "--host", host, capsys=capsys
    )
    assert said == (
        f"streamnorm: --host {host} without client_keys: whoever reaches it may use the upstreams,"
        " expected client_keys in a --config, or --open\n"
    )


@pytest.mark.parametrize(
    ("setting", "options"),
    [('client_keys = "env:PATH"', []), ("open = true", []), ("", ["--open"])],
)
def test_other_host_starts_with_keys_or_open(
    setting: str, options: list[str], tmp_path: Path
) -> None:
    config = tmp_path / "gateway.toml"
    config.write_text(setting + CONFIG.format(url="http://127.0.0.1:9"))
    wide = ("--host", "0.0.0.0", *options)  # noqa: S104
    with running("serve", "--config", str(config), *wide) as server:
        server.end(signal.SIGTERM)


def test_other_hosts_than_loopback_are_pointed_out() -> None:
    with running(
        "serve",
        "--upstream",
        "anthropic=http://127.0.0.1:9",
        "--host",
        "0.0.0.0",  # noqa: S104
        "--open",
    ) as server:
        assert server.said[2] == (
            "streamnorm: 0.0.0.0 without client_keys: whoever reaches it may use the upstreams"
        )
        server.end(signal.SIGTERM)


# The end


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_signal_gives_streams_their_grace_and_then_an_error_event(
    number: signal.Signals, status: int, client: httpx.Client, tmp_path: Path
) -> None:
    fake = FakeProvider("It snows today.", faults=[faults.stall(event=3)])
    path = tmp_path / "gateway.toml"
    with provider(fake.app()) as url:
        path.write_text("drain_grace_s = 0.05\n" + CONFIG.format(url=url))
        with (
            running("serve", "--config", path) as server,
            client.stream(
                "POST", f"{server.url}/v1/messages", json={**REQUEST, "stream": True}
            ) as response,
        ):
            chunks = response.iter_bytes()
            received = next(chunks)
            ended = server.end(number)
            received += b"".join(chunks)
    assert ended == (status, [])
    assert b"event: error" in received.splitlines()[-3:]


# The log


@contextmanager
def serving(
    upstream: str, *arguments: str, stdin: int = subprocess.DEVNULL, ignores_hangup: bool = False
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `streamnorm serve`, whose stdout can be read, and yield its URL."""
    hangup = signal.SIG_IGN if ignores_hangup else signal.SIG_DFL
    process = subprocess.Popen(
        [sys.executable, "-m", "streamnorm", "serve", "--upstream", f"chat={upstream}", *arguments],
        stdin=stdin,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, hangup),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stderr is not None
            yield process.stderr.readline().removeprefix("listening on ").rstrip(), process
        finally:
            process.kill()


def test_log_goes_to_stdout(upstream: str, client: httpx.Client) -> None:
    with serving(upstream) as (url, process):
        client.post(f"{url}/v1/messages", json=REQUEST)
        assert process.stdout is not None
        line = process.stdout.readline()
    time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"
    assert re.match(rf"{time} INFO client=anthropic operation=message model=claude-x ", line)
    assert "upstream=openai_chat status=200 outcome=completed attempts=1 " in line


def test_log_json_is_one_object_a_line(upstream: str, client: httpx.Client) -> None:
    with serving(upstream, "--log-json") as (url, process):
        client.post(f"{url}/v1/messages", json=REQUEST)
        assert process.stdout is not None
        fields = json.loads(process.stdout.readline())
    assert fields["level"] == "INFO"
    assert fields["outcome"] == "completed"
    assert fields["output_tokens"] > 0


@pytest.mark.skipif(sys.platform != "linux", reason="sizes of pipes")
def test_log_that_nobody_reads_holds_up_no_request(client: httpx.Client) -> None:
    """A pipe of one page is full after some 30 lines."""
    with serving("http://127.0.0.1:9") as (url, process):
        assert process.stdout is not None
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        for _ in range(100):
            assert client.post(f"{url}/v1/messages", content=b"{").status_code == 400
        process.terminate()
        assert process.wait(30) == 0
        assert len(process.stdout.read()) <= 4096


# The terminal


def test_hangup_says_that_it_does_nothing(upstream: str, client: httpx.Client) -> None:
    with serving(upstream) as (url, process):
        process.send_signal(signal.SIGHUP)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.endswith(
            " WARNING SIGHUP: nothing is done, the configuration is read at the start alone; "
            "SIGTERM lets running answers end\n"
        )
        assert client.post(f"{url}/v1/messages", json=REQUEST).status_code == 200


def test_closed_terminal_ends_the_gateway(upstream: str) -> None:
    terminal, side = os.openpty()
    with serving(upstream, stdin=side) as (_, process):
        process.send_signal(signal.SIGHUP)
        assert process.wait(30) == 0
    os.close(terminal)
    os.close(side)


def test_ignored_hangup_stays_ignored(upstream: str, client: httpx.Client) -> None:
    """As `nohup` starts a process, in a terminal."""
    terminal, side = os.openpty()
    with serving(upstream, stdin=side, ignores_hangup=True) as (url, process):
        process.send_signal(signal.SIGHUP)
        assert client.post(f"{url}/v1/messages", json=REQUEST).status_code == 200
    os.close(terminal)
    os.close(side)


# Workers


@contextmanager
def uvicorn(config: Path | None, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run `uvicorn --factory streamnorm.gateway:from_environment`."""
    command = ["-m", "uvicorn", "--factory", "streamnorm.gateway:from_environment", *arguments]
    env = {**os.environ, "STREAMNORM_CONFIG": "" if config is None else str(config)}
    process = subprocess.Popen(
        [sys.executable, *map(str, command)], stderr=subprocess.PIPE, text=True, env=env
    )
    with process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.slow
def test_workers_make_the_gateway_of_the_environment_and_drain_it(
    client: httpx.Client, tmp_path: Path
) -> None:
    # The turns: a whole answer, and a stream that never ends.
    fake = FakeProvider(["It snows.", ["It snows today.", faults.stall(event=3)]])
    path = tmp_path / "gateway.toml"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1/messages"
    with provider(fake.app()) as upstream:
        path.write_text("drain_grace_s = 0.05\n" + CONFIG.format(url=upstream))
        with uvicorn(path, "--workers", 2, "--port", port) as process:
            assert process.stderr is not None
            started = 0
            while started < 2:
                line = process.stderr.readline()
                assert line
                started += "Application startup complete" in line
            with httpx.Client(transport=httpx.HTTPTransport(retries=6), timeout=30) as patient:
                # uvicorn says that it has started before it listens.
                answer = patient.post(url, json=REQUEST)
            assert answer.json()["content"][0]["text"] == "It snows."
            with client.stream("POST", url, json={**REQUEST, "stream": True}) as response:
                chunks = response.iter_bytes()
                received = next(chunks)
                process.terminate()
                received += b"".join(chunks)
            assert b"event: error" in received.splitlines()[-3:]
            assert process.wait(30) == 0


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (CONFIG + "password = 1\n", "upstreams"),
        (None, "STREAMNORM_CONFIG: not set, expected the path of a configuration"),
    ],
)
def test_workers_do_not_start_with_a_wrong_config(
    text: str | None, said: str, workers: int, tmp_path: Path
) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text((text or "").format(url="http://127.0.0.1:9"))
    with uvicorn(path if text else None, "--workers", workers, "--port", 0) as process:
        _, err = process.communicate(timeout=300)
    lines = [line for line in err.splitlines() if not re.match("(INFO|ERROR): ", line)]
    assert 1 <= len(lines) <= workers
    assert all(said in line for line in lines)
    assert process.returncode == (3 if workers == 1 else 0)
