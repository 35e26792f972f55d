"""`streamnorm inspect --log`: a stream of a log, while it grows and later."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterable, AsyncIterator, Generator
from contextlib import aclosing, closing, contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import anyio
import httpx
import pytest
from support.cli.html_pages import Page
from support.cli.inspect_command import COMMAND, ROOT
from support.gateway.servers import served_gateway
from support.gateway.upstreams import REQUESTS
from support.http.strict_upstreams import strict_provider
from support.log.streams import source_of
from support.openai_chat.chunks import DONE, chunk, content
from support.state.stores import emptied
from support.state.valkey_servers import valkey_url as valkey_url

from streamnorm._exchange import client_scope
from streamnorm._registry import lookup
from streamnorm._upstream.requests import ClientRequest
from streamnorm.cli import main
from streamnorm.gateway import LogConfig
from streamnorm.log import open_log
from streamnorm.log.records import Record
from streamnorm.log.sqlite import SQLiteLogStore
from streamnorm.recording import Recording
from streamnorm.testing import FakeProvider

pytestmark = pytest.mark.usefixtures("heard_interrupts")

Out = pytest.CaptureFixture[str]

each_signal = pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
BEGIN = [content("It "), content("snows.")]
ANSWER = [*BEGIN, chunk({}, "stop") + DONE]
SECRET = "sk-proj-" + "a1B2c3D4" * 6
KEY = "key-of-a-client"
NO_SCOPE = (
    "without a scope: those of a gateway's clients that send a key need --client-keys or --scope"
)
PRODUCER = """
import sys
import anyio
from streamnorm.log import open_log
from streamnorm.log.records import Record
from streamnorm.log.sqlite import SQLiteLogStore

async def source():
    for read in {reads!r}:
        yield read
    print("produced", flush=True)
    await anyio.to_thread.run_sync(sys.stdin.readline)
    for read in {later!r}:
        yield read

async def main():
    async with open_log({url!r}, lease_s={lease_s}).produce("a", source()):
        pass

anyio.run(main)
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return the URL of a log."""
    return f"sqlite:{tmp_path}/log.db"


def store(
    url: str,
    source: AsyncIterable[bytes] | httpx.Response,
    *,
    scope: str = "",
    dialect: str | None = None,
    max_bytes: int = 1 << 20,
) -> None:
    """Produce a stream with the id `a`."""

    async def run() -> None:
        async with (
            aclosing(open_log(url, max_bytes=max_bytes)) as log,
            log.produce("a", source, scope=scope, dialect=dialect) as run,
        ):
            await run.wait()

    anyio.run(run)


def inspect(url: str, *options: str, id: str = "a") -> int:
    return main(["inspect", "--log", url, id, "--to", "anthropic", "--ascii", *options])


def test_page_is_that_of_the_stream_and_its_state(url: str, capsys: Out) -> None:
    store(url, source_of(ANSWER))
    assert inspect(url) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[:6] == [
        "stream    a",
        f"          {len(b''.join(ANSWER))} bytes, 4 frames, 6 events",
        "dialect   openai_chat",
        "server    not said",
        "message   chatcmpl-1",
        "model     gpt",
    ]
    assert "  0  It snows." in lines
    assert any(line.startswith("times     first bytes after 0.") for line in lines)
    assert lines[lines.index("outcome   completed") + 1] == "state     complete"
    assert err == ""


@pytest.mark.parametrize(
    "name",
    [
        "openai_chat/openai/parallel-tools-interleaved-two.sse",
        "bedrock_converse/bedrock/parallel-tools.eventstream",
        "gemini/google/array.body.json",
    ],
)
def test_saved_stream_is_a_recording(
    name: str, url: str, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recorded = Recording.load(ROOT / "recordings" / name)

    async def answer() -> AsyncIterator[bytes]:
        await anyio.sleep(0.01)  # a recording whose reads took no time has no times
        for data in recorded.chunks(100):
            yield data

    response = httpx.Response(200, headers=recorded.playback().headers, content=answer())
    store(url, response, dialect=recorded.dialect)
    saved = f"saved/a.{Path(name).name.partition('.')[2]}"
    assert inspect(url, "--save", saved) == 0
    page = capsys.readouterr().out.splitlines()
    loaded = Recording.load(saved)
    assert (loaded.body, loaded.dialect) == (recorded.body, recorded.dialect)
    assert (loaded.response.end, loaded.response.status) == ("eof", 200)
    assert loaded.message() == recorded.message()
    # What is shown of the file is what was shown of the stream, but for its name and its state.
    assert page.pop(page.index("outcome   completed") + 1) == "state     complete"
    main(["inspect", saved, "--to", "anthropic", "--ascii"])
    assert capsys.readouterr().out.splitlines()[1:] == page[1:]


async def ask(provider: FakeProvider) -> bytes:
    """Return the body of the provider's answer."""
    async with httpx.AsyncClient(transport=provider.transport("httpx")) as client:
        body = {"model": "gpt", "stream": True, "messages": [{"role": "user", "content": "?"}]}
        url = "https://api.openai.com/v1/chat/completions"
        return (await client.post(url, json=body)).content


def test_saved_stream_is_validated_and_played(url: str, tmp_path: Path, capsys: Out) -> None:
    recorded = Recording.load(ROOT / "recordings/openai_chat/openai/text.sse")
    store(url, source_of(recorded.chunks()))
    inspect(url, "--save", str(tmp_path / "saved"))
    capsys.readouterr()
    assert main(["validate", str(tmp_path / "saved.sse")]) == 0
    provider = FakeProvider([Recording.load(tmp_path / "saved.sse")])
    assert anyio.run(ask, provider) == recorded.body


@pytest.mark.parametrize("status", ["timeout", "reset"])
def test_saved_stream_ends_as_its_source_did(status: str, url: str, tmp_path: Path) -> None:
    async def source() -> AsyncIterator[bytes]:
        yield BEGIN[0]
        raise TimeoutError if status == "timeout" else ConnectionResetError

    store(url, source())
    assert inspect(url, "--save", str(tmp_path / "saved")) == 3
    assert Recording.load(tmp_path / "saved.sse").response.end == status


def test_stream_beyond_its_bound_is_saved_as_incomplete(url: str, tmp_path: Path) -> None:
    store(url, source_of(ANSWER), max_bytes=100)
    assert inspect(url, "--save", str(tmp_path / "saved")) == 3
    assert Recording.load(tmp_path / "saved.sse").response.end == "incomplete"


@pytest.mark.parametrize("option", ["--frames", "--json", "--frames --json"])
def test_secrets_are_not_shown(option: str, url: str, capsys: Out) -> None:
    store(url, source_of([content(f"It is {SECRET}."), content(""), ANSWER[2]]))
    assert inspect(url, *option.split(), "--width", "200") == 0
    shown = capsys.readouterr().out
    assert SECRET not in shown
    assert shown.count("x" * len(SECRET)) == (2 if "--frames" in option else 1)


def test_secrets_are_not_saved(url: str, tmp_path: Path) -> None:
    store(url, source_of([content(f"It is {SECRET}."), ANSWER[2]]))
    inspect(url, "--save", str(tmp_path / "saved"))
    saved = Recording.load(tmp_path / "saved.sse")
    assert saved.body == content(f"It is {'x' * len(SECRET)}.") + ANSWER[2]
    assert saved.redacted == 1


def test_secrets_are_not_in_the_page(url: str, tmp_path: Path) -> None:
    store(url, source_of([content(f"It is {SECRET}."), ANSWER[2]]))
    out = tmp_path / "page.html"
    inspect(url, "--html", str(out))
    page = Page(out.read_bytes())
    shown = f"It is {'x' * len(SECRET)}."
    assert page.stream["blocks"][0]["head"] == shown
    (_, _, data, events, written), *_ = page.chunks[0]
    assert (shown in data, events[-1][2], shown in written[-1][1]) == (True, shown, True)
    assert SECRET not in str((page.stream, page.chunks))


def test_dialect_can_be_named(url: str, capsys: Out) -> None:
    store(url, source_of(ANSWER))
    assert inspect(url, "--from", "anthropic") == 3
    assert "dialect   anthropic\n" in capsys.readouterr().out


# Whose stream it is


def test_stream_of_a_client_is_found_by_its_key(
    url: str, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"authorization": f"Bearer {KEY}"}
    request = ClientRequest(method="POST", path="/", headers=headers, body=b"")
    scope = client_scope(request, lookup("openai_chat"))
    store(url, source_of(ANSWER), scope=scope)
    monkeypatch.setenv("KEYS", f"another, {KEY}")
    assert inspect(url, "--client-keys", "env:KEYS") == 0
    assert inspect(url, "--scope", scope) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("KEYS", "another")
    assert inspect(url, "--client-keys", "env:KEYS") == 2
    assert inspect(url, "--scope", "another") == 2
    assert inspect(url) == 2
    given = "streamnorm: no stream has this id under the given scope\n"
    assert capsys.readouterr().err == given * 2 + f"streamnorm: no stream has this id {NO_SCOPE}\n"


def test_stream_of_a_signed_request_is_found_by_its_access_key(
    url: str, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable is that of the gateway's `aws_client_keys`."""
    request = ClientRequest(method="POST", path="/", headers={}, body=b"", signed_by="AKIDONE")
    store(url, source_of(ANSWER), scope=client_scope(request, lookup("bedrock_converse")))
    monkeypatch.setenv("KEYS", "AKIDOTHER:other-secret, AKIDONE:one-secret")
    assert inspect(url, "--client-keys", "env:KEYS") == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("KEYS", "AKIDOTHER:other-secret")
    assert inspect(url, "--client-keys", "env:KEYS") == 2


@pytest.mark.parametrize("key", ["", KEY])
def test_stream_of_a_gateway_is_found_by_its_id(
    key: str, url: str, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask_gateway() -> str:
        settings: dict[str, Any] = {"log": LogConfig(url=url)}
        if key:
            settings["client_keys"] = "env:KEYS"
        path, body = REQUESTS["anthropic"]
        headers = {"x-streamnorm-stream": "a"} | ({"x-api-key": key} if key else {})
        provider = strict_provider(["It snows."])
        async with (
            served_gateway(provider.app(), environ={"KEYS": key}, **settings) as gateway,
            httpx.AsyncClient() as client,
        ):
            answer = await client.post(gateway.url + path, json=body, headers=headers)
            assert answer.status_code == 200
            return answer.headers["x-streamnorm-stream"]

    id = anyio.run(ask_gateway)
    assert (id == "a") == bool(key)
    monkeypatch.setenv("KEYS", f"another,{key}")
    assert inspect(url, *(["--client-keys", "env:KEYS"] if key else []), id=id) == 0
    out, err = capsys.readouterr()
    assert "\n  0  It snows.\n" in out
    assert err == ""


def test_key_on_the_command_line_is_refused_and_not_shown(url: str, capsys: Out) -> None:
    store(url, source_of(ANSWER))
    assert inspect(url, "--client-keys", KEY) == 2
    assert capsys.readouterr().err == (
        "streamnorm: --client-keys: no place of keys, expected env: and the name of a variable\n"
    )


# What is not there


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("memory:", "--log: memory: is a log of one process, expected sqlite:PATH or redis://HOST"),
        ("what", "--log: no URL of a log, expected memory:, sqlite:PATH or redis://HOST"),
        ("sqlite:", "--log: no URL of a log, expected memory:, sqlite:PATH or redis://HOST"),
        ("sqlite:missing.db", "missing.db: No such file or directory"),
        ("sqlite:other.db", "the store is a database of another application"),
        ("env:NO_LOG", "--log: NO_LOG is not set in the environment"),
        ("redis://127.0.0.1:{port}", "the store cannot be reached"),
    ],
)
def test_log_that_cannot_be_read(
    log: str,
    message: str,
    tmp_path: Path,
    capsys: Out,
    monkeypatch: pytest.MonkeyPatch,
    free_tcp_port: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("other.db")) as other:
        other.execute("CREATE TABLE streams (a)")
    assert inspect(log.format(port=free_tcp_port)) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"streamnorm: {message}\n")
    assert not Path("missing.db").exists()


def test_url_may_stand_in_a_variable(
    url: str, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(url, source_of(ANSWER))
    monkeypatch.setenv("LOG", url)
    assert inspect("env:LOG") == 0
    assert url not in capsys.readouterr().out


def test_expired_stream_is_not_an_unknown_one(url: str, capsys: Out) -> None:
    store(url, source_of(ANSWER))
    with closing(sqlite3.connect(url.partition(":")[2])) as file, file:
        file.execute("UPDATE streams SET expires = 1")
    assert inspect(url) == 2
    assert capsys.readouterr() == ("", "streamnorm: the stream of this id has expired\n")


@pytest.mark.parametrize("option", ["--scope", "--client-keys", "--save"])
def test_options_of_a_log_need_one(option: str, capsys: Out) -> None:
    with pytest.raises(SystemExit):
        main(["inspect", "a.sse", option, "env:A"])
    assert capsys.readouterr().err.startswith(f"streamnorm: {option} without --log (see")


# While it grows


@contextmanager
def producer(url: str, *, lease_s: float = 30) -> Generator[subprocess.Popen[bytes]]:
    """Run a process that produces a stream, and goes on with it at a line on stdin."""
    script = PRODUCER.format(url=url, reads=BEGIN, later=ANSWER[2:], lease_s=lease_s)
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"produced\n"
            yield process
        finally:
            process.kill()


def heed_interrupts() -> None:
    """Heed SIGINT, which a shell that starts the tests in its background has ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def inspector(url: str, *options: str) -> Generator[subprocess.Popen[bytes]]:
    """Run `inspect` on the stream, to the first frame that it shows."""
    command = [*COMMAND, "--log", url, "a", "--frames", "--ascii", "--width", "200", *options]
    # Without a buffer: `communicate` does not return what `readline` has read beyond the line.
    with subprocess.Popen(
        command, bufsize=0, stdout=PIPE, stderr=PIPE, preexec_fn=heed_interrupts
    ) as process:
        try:
            assert process.stdout is not None
            assert b'"It "' in process.stdout.readline()
            yield process
        finally:
            process.kill()


def test_frames_are_shown_as_they_come(url: str) -> None:
    with producer(url) as produced, inspector(url) as process:
        assert process.stdout is not None
        assert b"snows." in process.stdout.readline()
        produced.communicate(b"\n", timeout=300)
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0
    assert b"\noutcome   completed\nstate     complete\n" in out
    assert err == b"the stream is running: Ctrl-C shows what there is\n"


@each_signal
def test_signal_shows_what_there_is(number: int, status: int, url: str, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    options = ("--save", str(tmp_path / "saved"), "--html", str(out))
    with producer(url), inspector(url, *options) as process:
        process.send_signal(number)
        written, err = process.communicate(timeout=300)
    assert process.returncode == status
    assert b"\n  0  It snows.\n" in written
    assert b"\noutcome   still open\nstate     running\n" in written
    assert b"Traceback" not in err
    saved = Recording.load(tmp_path / "saved.sse")
    assert (saved.body, saved.response.end) == (b"".join(BEGIN), "incomplete")
    assert len(Page(out.read_bytes()).chunks[0]) == 2


def test_closed_pipe_ends_it(url: str) -> None:
    with producer(url) as produced, inspector(url) as process:
        assert process.stdout is not None
        process.stdout.close()
        produced.communicate(b"\n", timeout=300)
        assert process.wait(30) == 141
        assert process.stderr is not None
        assert process.stderr.read() == b"the stream is running: Ctrl-C shows what there is\n"


def test_dead_producer_and_cancelled_stream_are_told_apart(url: str, tmp_path: Path) -> None:
    with producer(url, lease_s=2) as produced, inspector(url) as process:
        produced.kill()
        out, _ = process.communicate(timeout=300)
    assert process.returncode == 3
    assert b"\noutcome   transport: connection lost: its producer died after 2 events, " in out
    assert b"\nstate     truncated\n" in out

    async def cancel() -> None:
        async with aclosing(open_log(other)) as log:
            assert await log.cancel("a")

    other = f"sqlite:{tmp_path}/other.db"
    with producer(other), inspector(other, "--save", str(tmp_path / "saved")) as process:
        anyio.run(cancel)
        out, _ = process.communicate(timeout=300)
    assert process.returncode == 3
    assert b"\noutcome   transport: connection lost: the stream was cancelled after 2 " in out
    assert b"\nstate     cancelled\n" in out
    assert Recording.load(tmp_path / "saved.sse").response.end == "aborted"


@each_signal
def test_signal_before_the_first_bytes(number: int, status: int, url: str) -> None:
    async def claim() -> None:
        async with aclosing(SQLiteLogStore(url.partition(":")[2], ttl_s=100)) as store:
            await store.aclaim("", "a", Record("e1", b"", 0, 0, False, None, 60.0))

    anyio.run(claim)
    command = [*COMMAND, "--log", url, "a"]
    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, preexec_fn=heed_interrupts) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"the stream is running: Ctrl-C shows what there is\n"
        process.send_signal(number)
        assert process.communicate(timeout=300) == (b"", b"")
    assert process.returncode == status


def test_stream_in_a_server(valkey_url: str, capsys: Out) -> None:
    emptied(valkey_url)
    store(valkey_url, source_of(ANSWER))
    assert inspect(valkey_url, "--json") == 0
    out, err = capsys.readouterr()
    written = json.loads(out)
    assert (written["stream"], written["state"]) == ("a", "complete")
    assert [block["head"] for block in written["blocks"]] == ["It snows."]
    assert err == ""
