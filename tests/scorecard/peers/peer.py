"""A peer in its own process, and what it makes of streams and requests."""

from __future__ import annotations

import base64
import json
import os
import selectors
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from .client_requests import client_request
from .upstream import Upstream, open_upstream

if TYPE_CHECKING:
    from ..cases import Case

__all__ = ["Outcome", "Peer", "RequestOutcome"]

# LiteLLM's proxy takes minutes to import where other work has the cores.
_START_S = 600.0
_ANSWER_S = 90.0
_FAILED = 400
_EVENTSTREAM = "application/vnd.amazon.eventstream"
_MEDIA_TYPES = {"bedrock_converse": _EVENTSTREAM, "bedrock_invoke": _EVENTSTREAM}
# The shortest whole stream of each upstream, for requests, whose answer nobody reads.
_CHUNK = '{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[%s]}'
_EMPTY_STREAMS = {
    "openai_chat": f"data: {_CHUNK}\n\ndata: [DONE]\n\n"
    % '{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":"stop"}',
}


_CHAT_FIELDS = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1764288000,
    "model": "gpt",
}
_CHAT_COUNTS = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


class Outcome(NamedTuple):
    """What a peer made of one stream.

    Attributes:
        case: The stream.
        out: The bytes that a client received; b"" if there are none.
        error: The exception, the HTTP error or the end of the peer's process; None if it answered.
    """

    case: Case
    out: bytes
    error: str | None


class RequestOutcome(NamedTuple):
    """What a peer made of one request.

    Attributes:
        path: The path that it asked the upstream at; None if it did not ask.
        body: The JSON that it sent.
        headers: The headers that it sent, in lower case.
        error: Its refusal; None if it asked.
    """

    path: str | None
    body: Any
    headers: dict[str, str]
    error: str | None


class Peer:
    """A converter that is driven by a script in its own interpreter.

    A context manager: the process starts with the first question, and again after a crash.

    Args:
        name: The name in tables.
        command: The interpreter and its script; the base URL of the upstream is appended.
    """

    def __init__(self, name: str, command: tuple[str, ...]) -> None:
        self.name = name
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._hello: dict[str, Any] | None = None
        self._unread = b""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the peer
        self._context = open_upstream()
        self._upstream: Upstream | None = None

    def __enter__(self) -> Self:
        self._upstream = self._context.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()
        self._errors.close()
        self._context.__exit__(exc_type, exc, traceback)

    @property
    def version(self) -> str:
        """Version of the installed package."""
        return str(self._start()["version"])

    def converts(self, source: str, target: str) -> bool:
        """Return whether the peer converts streams of one dialect to another."""
        return [source, target] in self._start()["converts"]

    def run(self, cases: Iterable[Case], target: str) -> Iterator[Outcome]:
        """Yield what the peer makes of streams for a client of a dialect, one after the other."""
        for case in cases:
            request = client_request(target, (call.name for call in case.expected.calls))
            job = {"source": case.source, "target": target, "model": None, "request": request}
            answer = self._ask(case.frames, case.source, job)
            yield Outcome(case, base64.b64decode(answer["out"]), answer["error"])

    def run_requests(
        self, requests: Iterable[tuple[str, dict[str, Any]]], target: str
    ) -> Iterator[RequestOutcome]:
        """Yield what the peer sends to a vendor of `target` for requests of other dialects.

        Args:
            requests: The dialect of each client and its request, with the vendor's model as
                `model`, also where a client of the dialect has it in the path.
            target: The dialect of the vendor.
        """
        for dialect, request in requests:
            body = request if dialect == "gemini" else {**request, "stream": True}
            model = request.get("model")
            job = {"source": target, "target": dialect, "model": model, "request": body}
            frames = (_EMPTY_STREAMS.get(target, "").encode(),)
            answer = self._ask(frames, target, job)
            asked = self._upstream.request if self._upstream is not None else None
            if asked is None:
                yield RequestOutcome(None, None, {}, answer["error"] or "no request was sent")
            else:
                yield RequestOutcome(*asked, None)

    def cpu_of(
        self, data: bytes, source: str, target: str, tools: Iterable[str], rounds: int
    ) -> tuple[bytes, float]:
        """Return what the peer makes of a stream that arrives at once, and its CPU in seconds.

        The CPU is that of the peer's process, the least of the rounds.

        Raises:
            RuntimeError: The peer refused the stream.
        """
        request = client_request(target, tools)
        job = {"source": source, "target": target, "model": None, "request": request}
        job["rounds"] = rounds
        answer = self._ask((data,), source, job)
        if answer["error"] is not None:
            raise RuntimeError(answer["error"])
        return base64.b64decode(answer["out"]), answer["cpu_s"]

    def _ask(self, frames: tuple[bytes, ...], source: str, job: dict[str, Any]) -> dict[str, Any]:
        self._start()
        assert self._upstream is not None
        assert self._process is not None
        self._upstream.frames = tuple(map(_complete, frames)) if source == "openai_chat" else frames
        self._upstream.media_type = _MEDIA_TYPES.get(source, "text/event-stream")
        self._upstream.request = None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            self._process.stdin.flush()
            answer = self._read(_ANSWER_S * job.get("rounds", 1))
        except (EOFError, OSError) as exc:
            late = isinstance(exc, TimeoutError)
            how = "gave no answer in time" if late else f"ended with code {self._process.wait()}"
            self._stop()
            return {"out": "", "error": f"the process {how}", "cpu_s": None}
        if answer["error"] is None and answer["status"] >= _FAILED:
            body = base64.b64decode(answer["out"])[:300].decode(errors="replace")
            answer |= {"error": f"HTTP {answer['status']}: {body}", "out": ""}
        return answer

    def _start(self) -> dict[str, Any]:
        if self._process is None:
            assert self._upstream is not None, "use the peer as a context manager"
            environment = {**os.environ}
            # The peer must not find our packages in the place of its own.
            environment.pop("PYTHONPATH", None)
            self._process = subprocess.Popen(
                [*self._command, self._upstream.url],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
            )
            self._unread = b""
            try:
                self._hello = self._read(_START_S)
            except (EOFError, TimeoutError) as exc:
                self._stop()
                raise RuntimeError(f"{self.name} does not start{self._last_error()}") from exc
        assert self._hello is not None
        return self._hello

    def _read(self, timeout_s: float) -> dict[str, Any]:
        """Return the next line of the process.

        Raises:
            EOFError: The process ended.
            TimeoutError: It wrote none in time.
        """
        assert self._process is not None
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(timeout_s):
                    raise TimeoutError
                more = os.read(self._process.stdout.fileno(), 1 << 16)
                if not more:
                    raise EOFError
                self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        value: dict[str, Any] = json.loads(line)
        return value

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _last_error(self) -> str:
        """Return the last line that the process wrote as an error, to be put behind a sentence."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        return next((f": {line}" for line in reversed(lines) if line.strip()), "")


def _complete(frame: bytes) -> bytes:
    """Add to a chunk what the scorecard's leave out and every server of Chat sends.

    any-llm reads no chunk without it.
    """
    head, _, rest = frame.partition(b"data: ")
    payload, end, rest = rest.partition(b"\r\n" if b"\r\n" in rest else b"\n")
    try:
        value = json.loads(payload)
    except ValueError:
        return frame
    if not isinstance(value, dict) or "choices" not in value:
        return frame
    complete = {**_CHAT_FIELDS, **value}
    usage = complete.get("usage")
    if isinstance(usage, dict):
        complete["usage"] = {**_CHAT_COUNTS, **usage}
    if complete == value:
        return frame
    return head + b"data: " + json.dumps(complete).encode() + end + rest
