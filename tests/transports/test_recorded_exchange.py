"""Requests and responses are recorded as they pass, even if writing fails."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from support.http.families import READS, URL, FamilyUnderTest, each_family, recorded_in

from streamnorm._core.errors import RecordingError

# Requests


@pytest.mark.anyio
@each_family
async def test_request_asks_for_identity_coding_and_is_not_modified(
    family: FamilyUnderTest, tmp_path: Path
) -> None:
    seen: list[Any] = []

    def answer(request: Any) -> Any:
        seen.append(request)
        return family.http.Response(200, stream=family.http.ByteStream(b"{}"))

    transport = family.transports.RecordingTransport(family.inner(answer), tmp_path)
    headers = [("accept-encoding", "gzip"), ("x-trace", "1"), ("accept-encoding", "br")]
    request = family.http.Request(
        "POST", URL + "?a=1", headers=headers, content=b"{}", extensions={"timeout": {"read": 3}}
    )
    before = request.headers.multi_items()
    transport.handle_request(request).close()
    await (await transport.handle_async_request(request)).aclose()

    assert request.headers.multi_items() == before
    for sent in seen:
        assert (sent.method, sent.url, sent.content) == ("POST", request.url, b"{}")
        assert sent.headers.get_list("accept-encoding") == ["identity"]
        rest = [item for item in before if item[0] != "accept-encoding"]
        assert [i for i in sent.headers.multi_items() if i[0] != "accept-encoding"] == rest
        assert sent.extensions["timeout"] == {"read": 3}


@each_family
def test_body_of_a_request_is_recorded(family: FamilyUnderTest, tmp_path: Path) -> None:
    inner = family.answering(family.http.ByteStream(b"{}"))
    transport = family.transports.RecordingTransport(inner, tmp_path)
    family.fetch(transport, json={"model": "m", "messages": []})
    family.fetch(transport, json=None, content="plain words")
    first, second = (recording.request for recording in recorded_in(tmp_path))
    assert first is not None
    assert second is not None
    assert (first.method, first.url) == ("POST", URL)
    assert first.body == {"model": "m", "messages": []}
    assert second.text == "plain words"


@pytest.mark.anyio
@each_family
async def test_streamed_upload_passes_and_is_recorded(
    family: FamilyUnderTest, tmp_path: Path
) -> None:
    seen: list[bytes] = []

    def answer(request: Any) -> Any:
        seen.append(request.content)  # which the mock has read from what it was given
        return family.http.Response(200, stream=family.http.ByteStream(b"{}"))

    async def pieces() -> AsyncIterator[bytes]:
        yield b"first"
        yield b"second"

    transport = family.transports.RecordingTransport(family.inner(answer), tmp_path)
    family.fetch(transport, json=None, content=iter([b"first", b"second"]))
    await family.async_fetch(transport, json=None, content=pieces())
    family.fetch(transport, json=None, files={"file": ("a.txt", b"of a file")})

    assert seen[:2] == [b"firstsecond"] * 2
    assert b"of a file" in seen[2]
    written = [recording.request for recording in recorded_in(tmp_path)]
    assert [request and request.text for request in written[:2]] == ["firstsecond"] * 2
    assert written[2] is not None
    assert "\r\n\r\nof a file\r\n" in str(written[2].text)


@each_family
@pytest.mark.parametrize(
    ("size", "read", "text", "stated"),
    [(8, 9, "a" * 8, None), (9, 9, None, 9), (8, 4, None, 8)],
    ids=["bound", "above", "part"],
)
def test_recorded_upload_is_bounded_and_whole(
    family: FamilyUnderTest,
    size: int,
    read: int,
    text: str | None,
    stated: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server may answer before it has read all."""

    class Server(family.http.BaseTransport):  # type: ignore[misc, name-defined]  # a parameter
        def handle_request(self, request: Any) -> Any:
            pieces = iter(request.stream)
            for _ in range(read):
                next(pieces, None)
            return family.http.Response(200, stream=family.http.ByteStream(b"{}"))

    monkeypatch.setattr("streamnorm.transports.recorded.MAX_REQUEST_BYTES", 8)
    transport = family.transports.RecordingTransport(Server(), tmp_path)
    headers = {"content-length": str(size)}
    family.fetch(transport, json=None, content=iter([b"a"] * size), headers=headers)
    (recording,) = recorded_in(tmp_path)
    assert recording.request is not None
    assert (recording.request.text, recording.request.bytes) == (text, stated)
    assert recording.request.sha256 is None


@pytest.mark.anyio
@each_family
async def test_secret_of_an_upload_is_replaced_in_its_response(
    family: FamilyUnderTest, tmp_path: Path
) -> None:
    inner = family.answering(family.http.ByteStream(b'{"echo": "cAn4ry-qX8zuk7"}'))
    transport = family.transports.RecordingTransport(inner, tmp_path)
    form = {"api_key": "cAn4ry-qX8zuk7"}
    for content in (b"text", b"\xff\x00"):
        files = {"file": ("a.wav", content)}
        family.fetch(transport, json=None, data=form, files=files)
        await family.async_fetch(transport, json=None, data=form, files=files)
    written = recorded_in(tmp_path)
    assert len(written) == 4
    for recording in written:
        assert b"cAn4ry" not in recording.body
        assert "cAn4ry" not in repr(recording.request)


@each_family
def test_upload_without_request_bodies_leaves_no_trace(
    family: FamilyUnderTest, tmp_path: Path
) -> None:
    inner = family.answering(family.http.ByteStream(b"{}"))
    transport = family.transports.RecordingTransport(inner, tmp_path, request_bodies=False)
    family.fetch(transport, json=None, files={"file": ("a.wav", b"\xff\x00")})
    (recording,) = recorded_in(tmp_path)
    request = recording.request
    assert request is not None
    assert (request.body, request.text, request.bytes, request.sha256) == (UNSET, None, None, None)


@each_family
@pytest.mark.parametrize(("size", "text"), [(7, "a" * 7), (8, "a" * 8), (9, None)])
def test_body_of_a_request_is_bounded(
    family: FamilyUnderTest,
    size: int,
    text: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("streamnorm.transports.family.MAX_REQUEST_BYTES", 8)
    inner = family.answering(family.http.ByteStream(b"{}"))
    transport = family.transports.RecordingTransport(inner, tmp_path)
    family.fetch(transport, json=None, content=b"a" * size)
    (recording,) = recorded_in(tmp_path)
    assert recording.request is not None
    assert recording.request.text == text


# Responses


@each_family
@pytest.mark.parametrize("in_memory", [True, False])
def test_whole_document_is_recorded(
    family: FamilyUnderTest, in_memory: bool, tmp_path: Path
) -> None:
    content = b'{"error": {"type": "overloaded_error"}}'
    given = {"content": content} if in_memory else {"stream": family.http.ByteStream(content)}
    headers = {"content-type": "application/json"}
    transport = family.transports.RecordingTransport(
        family.inner(lambda _: family.http.Response(529, headers=headers, **given)), tmp_path
    )
    with family.http.Client(transport=transport) as client:
        response = client.post(URL)
    assert (response.status_code, response.content) == (529, content)
    (recording,) = recorded_in(tmp_path)
    assert recording.body == content
    assert recording.response.body == ".body.json"
    assert (recording.response.status, recording.response.end) == (529, "eof")


@each_family
def test_unread_closed_response_is_recorded_as_aborted(
    family: FamilyUnderTest, tmp_path: Path
) -> None:
    def answer(_: Any) -> Any:
        response = family.http.Response(200, stream=family.http.ByteStream(b"data: 1"))
        response.close()
        return response

    transport = family.transports.RecordingTransport(family.inner(answer), tmp_path)
    with pytest.raises(family.http.StreamClosed):
        family.fetch(transport)
    (recording,) = recorded_in(tmp_path)
    assert recording.response.end == "aborted"


@pytest.mark.anyio
@each_family
async def test_compressed_response_is_recorded_decoded_and_passed_unchanged(
    family: FamilyUnderTest, tmp_path: Path
) -> None:
    packed = gzip.compress(b"".join(READS))
    reads = [packed[:12], packed[12:]]
    for body in (family.body(reads), family.async_body(reads)):
        inner = family.answering(body, content_encoding="gzip")
        transport = family.transports.RecordingTransport(inner, tmp_path)
        if hasattr(body, "aclose"):
            assert await family.async_fetch(transport) == reads
        else:
            assert family.fetch(transport) == reads
    for recording in recorded_in(tmp_path):
        assert recording.body == b"".join(READS)
        assert recording.response.end == "eof"


@each_family
def test_client_decodes_a_compressed_response_itself(
    family: FamilyUnderTest, tmp_path: Path
) -> None:
    packed = gzip.compress(b"data: 1\n\n")
    inner = family.answering(family.body([packed]), content_encoding="gzip")
    transport = family.transports.RecordingTransport(inner, tmp_path)
    with family.http.Client(transport=transport) as client:
        assert client.post(URL).content == b"data: 1\n\n"


# Several, and what goes wrong


@pytest.mark.anyio
@each_family
async def test_concurrent_exchanges_are_recorded_separately(
    family: FamilyUnderTest, tmp_path: Path
) -> None:
    bodies = [[b"data: %d\n\n" % number, b"data: end\n\n"] for number in range(3)]
    waiting = iter(bodies)
    transport = family.transports.RecordingTransport(
        family.inner(lambda _: family.http.Response(200, stream=family.async_body(next(waiting)))),
        tmp_path,
    )
    request = family.http.Request("POST", URL)
    streams = [(await transport.handle_async_request(request)).stream for _ in bodies]
    for turn in range(2):
        for number in (2, 0, 1):
            assert await anext(streams[number]) == bodies[number][turn]
    for stream in reversed(streams):
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
    assert [recording.chunks() for recording in recorded_in(tmp_path)] == bodies


@each_family
def test_unwritable_directory_breaks_no_exchange(family: FamilyUnderTest, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    told: list[RecordingError] = []
    transport = family.transports.RecordingTransport(
        family.answering(family.body(READS)), tmp_path / "file", on_failure=told.append
    )
    assert family.fetch(transport) == READS
    assert len(told) == 1
    assert transport.failures == tuple(told)


@each_family
def test_redacted_secret_is_not_written(family: FamilyUnderTest, tmp_path: Path) -> None:
    source = family.body([b"data: hunter", b"two\n\n"])
    transport = family.transports.RecordingTransport(
        family.answering(source), tmp_path, redact=["huntertwo"]
    )
    assert family.fetch(transport) == [b"data: hunter", b"two\n\n"]
    (recording,) = recorded_in(tmp_path)
    assert recording.body == b"data: xxxxxxxxx\n\n"


# The inner transport


@pytest.mark.anyio
@each_family
async def test_inner_transport_is_entered_and_closed(
    family: FamilyUnderTest, tmp_path: Path
) -> None:
    seen: list[str] = []

    class Inner(family.http.BaseTransport, family.http.AsyncBaseTransport):
        def __enter__(self) -> None:
            seen.append("enter")

        def __exit__(self, *_: object) -> None:
            seen.append("exit")

        async def __aenter__(self) -> None:
            seen.append("aenter")

        async def __aexit__(self, *_: object) -> None:
            seen.append("aexit")

        def close(self) -> None:
            seen.append("close")

        async def aclose(self) -> None:
            seen.append("aclose")

    transport = family.transports.RecordingTransport(Inner(), tmp_path)
    with family.http.Client(transport=transport):
        pass
    async with family.http.AsyncClient(transport=transport):
        pass
    transport.close()
    await transport.aclose()
    assert seen == ["enter", "exit", "aenter", "aexit", "close", "aclose"]


@pytest.mark.anyio
@each_family
async def test_transport_of_another_kind_is_refused(
    family: FamilyUnderTest, tmp_path: Path
) -> None:
    class Other:
        def handle_request(self, request: object) -> None:
            pytest.fail("sent")

    transport = family.transports.RecordingTransport(Other(), tmp_path)
    with pytest.raises(TypeError, match=rf"Other, expected a synchronous transport of {family}$"):
        family.fetch(transport)
    with pytest.raises(TypeError, match=rf"Other, expected an asynchronous .* of {family}$"):
        await family.async_fetch(transport)
