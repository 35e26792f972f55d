"""`streamnorm record` and `streamnorm replay`, as processes on loopback."""

from __future__ import annotations

import json
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.cli.servers import provider, running
from support.http.asgi_client import CHUNKS
from support.http.raw_http import raw_upstream
from support.http.tls import Authority
from websockets.sync.client import connect

from streamnorm.asgi import ReplayApp
from streamnorm.cli import main
from streamnorm.recording import RecordedRequest, RecordedResponse, Recording
from streamnorm.recording.format import Companion, Playback, PlaybackEnd, Step, WireRequest
from streamnorm.testing import FakeProvider

STEPS = tuple(Step(0, data) for data in CHUNKS)
BODY = b"".join(CHUNKS)
SIZE = f"{len(BODY)} bytes"
CHAT = "/chat/completions"
KEY = "sk-live-0123456789abcdefghijklmnop"


class Provider:
    """A responder whose answers end as the request's body names; it stores the keys sent."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def respond(self, request: WireRequest) -> Playback:
        self.keys.append(dict(request.headers).get("authorization", ""))
        ends: dict[bytes, PlaybackEnd] = {b"cut": "reset", b"silent": "timeout"}
        end = ends.get(request.body or b"", "eof")
        return Playback(200, {"content-type": "text/event-stream"}, STEPS, end)


@pytest.fixture(scope="module")
def script() -> Provider:
    return Provider()


@pytest.fixture(scope="module")
def upstream(script: Provider) -> Iterator[str]:
    with provider(ReplayApp(script)) as url:
        yield url


def recorded(directory: Path, content: str = "hi") -> Path:
    """Write a recording of a request for this content."""
    request = RecordedRequest("POST", f"https://a.example/v1{CHAT}", {}, {"content": content})
    companion = Companion(1, "openai_chat", request=request, response=RecordedResponse())
    path = directory / "01-chat-completions.sse"
    Recording(BODY, companion).save(path)
    return path


# record


def test_exchanges_are_forwarded_recorded_and_reported(
    upstream: str, script: Provider, client: httpx.Client, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "out"
    with running(
        "record", "--upstream", f"{upstream}/v1", "--out", out, "--redact", "custom-secret"
    ) as server:
        headers = {"authorization": f"Bearer {KEY}"}
        answer = client.post(server.url + CHAT, headers=headers, content=b"custom-secret")
        assert answer.content == BODY
        assert script.keys[-1] == f"Bearer {KEY}"
        assert server.line() == f"01-chat-completions  200  {SIZE}  complete"
        with pytest.raises(httpx.RemoteProtocolError):
            client.post(server.url + CHAT, content=b"cut")
        assert server.line() == f"02-chat-completions  200  {SIZE}  cut"
        assert server.end(signal.SIGTERM) == (0, [])
    assert server.said[1:] == [f"recording into {out}", f"  OPENAI_BASE_URL={server.url}"]
    first = Recording.load(out / "01-chat-completions.sse")
    assert first.chunks() == CHUNKS
    assert first.request is not None
    assert first.request.url == f"{upstream}/v1{CHAT}"
    files = [path.read_bytes() for path in out.iterdir()]
    assert len(files) == 4
    assert not any(secret in data for data in files for secret in (KEY.encode(), b"custom-secret"))


def test_conversation_over_a_websocket_is_recorded_and_replayed(tmp_path: Path) -> None:
    create = json.dumps({"type": "response.create", "model": "m", "input": "Hi."})

    def ask(url: str) -> list[Any]:
        with connect(f"ws{url.removeprefix('http')}/v1/responses") as socket:
            socket.send(create)
            found = [json.loads(socket.recv())]
            while found[-1]["type"] not in ("response.completed", "error"):
                found.append(json.loads(socket.recv()))
        return found

    with (
        provider(FakeProvider("It snows.").app(), has_websockets=True) as upstream,
        running("record", "--upstream", upstream, "--out", tmp_path) as server,
    ):
        answer = ask(server.url)
        assert answer[-1]["type"] == "response.completed"
        name, _, end = server.line().split("  ", 2)
        assert (name, end[-8:]) == ("01-responses", "complete")
        with connect(f"ws{server.url.removeprefix('http')}/v1/responses") as socket:
            socket.ping()
            assert server.end(signal.SIGINT) == (130, [])
    with running("replay", tmp_path) as server:
        assert ask(server.url) == answer
        assert ask(server.url)[-1]["status"] == 404
        assert "all played" in server.line()
        assert server.end(signal.SIGTERM)[0] == 6


def test_request_bodies_are_not_written_if_switched_off(
    upstream: str, client: httpx.Client, tmp_path: Path
) -> None:
    with running(
        "record", "--upstream", upstream, "--out", tmp_path, "--no-request-bodies"
    ) as server:
        assert client.post(server.url + CHAT, json={"prompt": "private"}).content == BODY
        server.line()
    assert len(list(tmp_path.iterdir())) == 2
    assert not any(b"private" in path.read_bytes() for path in tmp_path.iterdir())


def test_interrupt_ends_open_streams(upstream: str, client: httpx.Client, tmp_path: Path) -> None:
    with (
        running("record", "--upstream", upstream, "--out", tmp_path) as server,
        client.stream("POST", f"{server.url}/v1{CHAT}", content=b"silent") as response,
    ):
        reads = response.iter_raw()
        received = b""
        while received != BODY:
            received += next(reads)
        status, said = server.end(signal.SIGINT)
        with pytest.raises(httpx.RemoteProtocolError):
            next(reads)
    assert status == 130
    assert said == [f"01-chat-completions  200  {SIZE}  client left"]
    assert Recording.load(tmp_path / "01-chat-completions.sse").response.end == "aborted"


def test_failure_to_record_is_reported_once_and_does_not_break_the_stream(
    upstream: str, client: httpx.Client, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with running("record", "--upstream", upstream, "--out", out) as server:
        out.rmdir()
        out.write_bytes(b"")
        assert client.post(server.url + CHAT, content=b"{}").content == BODY
        status, said = server.end(signal.SIGTERM)
    assert status == 6
    assert len(said) == 1
    assert said[0].startswith(f"streamnorm: not recorded: {out}/01-chat-completions: ")


def test_status_that_no_server_can_send_is_a_502_and_not_recorded(
    client: httpx.Client, tmp_path: Path
) -> None:
    answer = b"HTTP/1.1 999 Denied\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"
    with (
        raw_upstream(answer) as upstream,
        running("record", "--upstream", upstream.url, "--out", tmp_path) as server,
    ):
        assert client.post(f"{server.url}/v1{CHAT}", content=b"{}").status_code == 502
        status, said = server.end(signal.SIGTERM)
    assert status == 6
    assert said == [
        f"streamnorm: not recorded: {tmp_path}/01-chat-completions: status 999,"
        " expected 200 to 599",
        "streamnorm: no answer from upstream: status 999 of the provider, expected 200 to 599",
    ]


def test_unreachable_provider_is_reported(client: httpx.Client, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    upstream = f"http://user:s3cret@127.0.0.1:{port}"
    with running("record", "--upstream", upstream, "--out", tmp_path) as server:
        response = client.post(f"{server.url}/?key={KEY}", content=b"{}")
        assert response.status_code == 502
        _, said = server.end(signal.SIGTERM)
    assert said == [
        "streamnorm: no answer from upstream: connection error: the provider refused the connection"
    ]
    assert server.said[2:] == [
        f"  OPENAI_BASE_URL={server.url}/v1",
        f"  ANTHROPIC_BASE_URL={server.url}",
        f"  GOOGLE_GEMINI_BASE_URL={server.url}",
        f"  AWS_ENDPOINT_URL_BEDROCK_RUNTIME={server.url}",
    ]


def test_authorities_to_trust_are_those_of_the_file(
    client: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, other = Authority(tmp_path / "1"), Authority(tmp_path / "2")
    untrusted = "TLS error: the provider's certificate is not trusted: "
    with authority.upstream() as upstream:
        arguments = ("record", "--upstream", upstream.url, "--out", tmp_path / "out")
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        with running(*arguments) as server:
            response = client.get(server.url)
            assert response.status_code == 502
            message = response.json()["error"]["message"]
            assert message == untrusted + "unable to get local issuer certificate"
            assert server.line() == f"streamnorm: no answer from upstream: {message}"
        with running(*arguments, "--ca", authority.file) as server:
            assert client.get(server.url).status_code == 200
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        with running(*arguments) as server:
            assert client.get(server.url).status_code == 200
        with running(*arguments, "--ca", other.file) as server:
            assert client.get(server.url).status_code == 502
            assert server.line().startswith(f"streamnorm: no answer from upstream: {untrusted}")


def test_damaged_file_of_the_environment_is_one_line_on_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "gone.pem"))
    assert main(["record", "--upstream", "https://a.example", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"streamnorm: SSL_CERT_FILE {tmp_path}/gone.pem: No such file or directory\n"
    )


# replay


def test_unrecorded_request_is_reported(client: httpx.Client, tmp_path: Path) -> None:
    recorded(tmp_path)
    with running("replay", tmp_path) as server:
        url = f"{server.url}/v1{CHAT}"
        assert client.post(url, json={"content": "hi"}).content == BODY
        refused = client.post(url, json={"content": "other"})
        assert refused.status_code == 404
        message = refused.json()["error"]["message"]
        assert '+  "content": "other",' in message.splitlines()
        status, said = server.end(signal.SIGINT)
    assert status == 6
    assert said == f"streamnorm: {message}".splitlines()
    assert server.said[1] == f"recordings: 1 in {tmp_path}"


def test_options_choose_the_recordings_and_their_chunks(
    client: httpx.Client, tmp_path: Path
) -> None:
    path = recorded(tmp_path)
    options = ("--drift", "warn", "--rechunk", "byte", "--speed", "2.5")
    with running("replay", path, *options) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nconnection: close\r\n"
                b'content-length: 19\r\n\r\n{"content":"other"}'
            )
            with connection.makefile("rb") as file:
                answer = file.read()
        status, said = server.end(signal.SIGTERM)
    assert answer.endswith(
        b"\r\n\r\n" + b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"
    )
    assert status == 0
    assert said[0].startswith("streamnorm: POST /v1/chat/completions")
    assert '+  "content": "other",' in said


def test_ignored_matches_may_differ(client: httpx.Client, tmp_path: Path) -> None:
    path = recorded(tmp_path, "run 1 of a day")
    with running("replay", path, "--ignore", "run [0-9]+", "--ignore", "day|night") as server:
        url = f"{server.url}/v1{CHAT}"
        assert client.post(url, json={"content": "run 23 of a night"}).content == BODY
        assert client.post(url, json={"content": "walk 1 of a day"}).status_code == 404


def test_faults_change_the_answers(client: httpx.Client, tmp_path: Path) -> None:
    path = recorded(tmp_path)
    with running("replay", path, "--fault", "http(529, times=1)", "--fault", "bom") as server:
        url = f"{server.url}/v1{CHAT}"
        assert client.post(url, json={"content": "hi"}).status_code == 529
        assert client.post(url, json={"content": "hi"}).content == b"\xef\xbb\xbf" + BODY


# Errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["record", "--out", "x"], "required: --upstream"),
        (["record", "--upstream", "http://a.example"], "required: --out"),
        (
            ["record", "--upstream", "api.a.example", "--out", "x"],
            "upstream is no http or https URL",
        ),
        (
            ["record", "--upstream", "https://a", "--out", "x", "--ca", "gone.pem"],
            "ca gone.pem: No such file or directory",
        ),
        (
            ["record", "--upstream", "https://a", "--out", "x", "--ca", "file"],
            "ca file: no PEM certificates",
        ),
        (["record", "--upstream", "https://a", "--out", "x", "--ca", "rec"], "ca rec: "),
        (["record", "--upstream", "http://a", "--out", "file/x"], "file/x: Not a directory"),
        (["replay", "nowhere"], "nowhere: no such directory or recording"),
        (["replay", "empty"], "streamnorm: empty: no recordings\n"),
        (["replay", "."], ".: no recordings, but in its folders rec\n"),
        (["replay", "rec", "--port", "65536"], "argument --port: '65536', expected 0 to 65535"),
        (["replay", "rec", "--port", "-1"], "--port"),
        (["replay", "rec", "--speed", "nan"], "argument --speed: 'nan', expected a number of 0"),
        (["replay", "rec", "--speed", "inf"], "argument --speed: 'inf', expected a number of 0"),
        (["replay", "rec", "--speed", "x"], "argument --speed: 'x', expected a number of 0"),
        (["replay", "rec", "--rechunk", "some"], "rechunk 'some', expected recorded, event"),
        (["replay", "rec", "--rechunk", "0"], "rechunk 0, expected recorded, event"),
        (["replay", "rec", "--match", "x"], "invalid choice: 'x'"),
        (
            ["replay", "rec", "--fault", "explode"],
            "argument --fault: 'explode', expected one of bom",
        ),
        (["replay", "rec", "--fault", "cut(event="], "'cut(event=', expected one as cut(event=3)"),
        (["replay", "rec", "--fault", "cut(event=1, byte=2)"], "argument --fault: 'cut(event=1,"),
        (["replay", "rec", "--fault", "http()"], "'http()', expected http(status, times=...)"),
        (["replay", "rec", "--fault", "http(__import__('os'))"], "expected one as cut(event=3)"),
        (["replay", "rec", "--ignore", "("], "argument --ignore: '(' is no regular expression: "),
        (["replay", "rec", "--drift", "x"], "invalid choice: 'x'"),
    ],
)
def test_wrong_usage_is_one_line_on_stderr_and_status_2(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_bytes(b"")
    Path("rec").mkdir()
    Path("empty").mkdir()
    recorded(Path("rec"))
    assert status_of(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("streamnorm: ")
    assert message in err


def test_folders_with_recordings_are_named_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(7):
        folder = Path("all", "chat", f"server-{number}")
        folder.mkdir(parents=True)
        recorded(folder)
    Path("all", "empty").mkdir()
    (Path("all", "link")).symlink_to(tmp_path)
    expected = ", ".join(f"chat/server-{number}" for number in range(5))
    for arguments in (["replay", "all"], ["export", "all", "--out", "x.har"]):
        assert status_of(arguments) == 2
        found = f"streamnorm: all: no recordings, but in its folders {expected} and 2 more\n"
        assert capsys.readouterr().err == found


def status_of(arguments: list[str]) -> object:
    try:
        return main(arguments)
    except SystemExit as stop:
        return stop.code


def test_port_in_use_is_one_line_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recorded(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["replay", str(path), "--port", port]) == 2
    assert capsys.readouterr().err == f"streamnorm: port {port}: Address already in use\n"


def test_missing_server_is_reported_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["replay", str(recorded(tmp_path))]) == 2
    assert capsys.readouterr().err == (
        "streamnorm: no uvicorn, expected the extra `serve`: pip install '.[serve]' in a clone\n"
    )
