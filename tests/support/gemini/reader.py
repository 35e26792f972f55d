"""An independent Gemini client, as strict as the strictest real client.

Written from the vendor's reference: nothing but lines of
`data: ` with one object each, one part of one answer in each, arguments that are an
object, padded Base64, the finish reason and the counts in the last chunk alone, and an
error whose first key says so.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["Read", "chunks", "read"]

_FAILURES = (
    *("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"),
    *("MISSING_THOUGHT_SIGNATURE", "MALFORMED_RESPONSE"),
)
_PARTS = (
    *("text", "functionCall", "functionResponse", "toolCall", "toolResponse"),
    *("executableCode", "codeExecutionResult", "inlineData", "fileData"),
)
_PLAIN = str.maketrans("+/", "-_")  # both alphabets of Base64 are taken
_NAMES = ("responseId", "modelVersion")
_COUNTS = ("promptTokenCount", "candidatesTokenCount", "totalTokenCount")
_SUMMED = (*_COUNTS[:2], "thoughtsTokenCount", "toolUsePromptTokenCount")
_SOURCES = ("groundingMetadata", "citationMetadata")


class Read(NamedTuple):
    """A stream as read by a client.

    Attributes:
        parts: The parts, texts that go on joined, each with its sources as `sources`.
        names: What all chunks say of the message.
        finish: Why it ended; None if that did not come.
        usage: The counts; None if they did not come.
        error: What ended the stream, as its message and its word.
        others: What else the chunks held, but for sources, in their order.
    """

    parts: list[dict[str, Any]]
    names: dict[str, str]
    finish: str | None
    usage: dict[str, Any] | None
    error: dict[str, Any] | None
    others: list[dict[str, Any]]


def chunks(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the payloads of a stream; assert that the framing is the API's.

    Behind an error, and only there, is an event that does not end.
    """
    *frames, rest = data.decode().split("\r\n\r\n")
    is_error = bool(frames) and frames[-1].removeprefix("\r\n").startswith('data: {"error"')
    assert rest.removeprefix("\r\n") == (":" if is_error else "")
    for frame in frames:
        line = frame.removeprefix("\r\n")  # an empty line says nothing
        if not line:
            continue
        assert len(line.splitlines()) == 1  # by the rules of Python, too
        assert line.startswith("data: {")
        yield json.loads(line[6:])


def read(data: bytes) -> Read:
    """Read a stream; assert everything that a client depends on."""
    reader = _Reader()
    for chunk in chunks(data):
        reader.take(chunk)
    return reader.end()


class _Reader:
    """State of a client that reads one stream."""

    def __init__(self) -> None:
        self.parts: list[dict[str, Any]] = []
        self.names: dict[str, str] = {}
        self.finish: str | None = None
        self.usage: dict[str, Any] | None = None
        self.error: dict[str, Any] | None = None
        self.others: list[dict[str, Any]] = []
        self._begun = False
        self._blocked: str | None = None
        self._goes_on = False  # whether more text would continue the last part

    def take(self, chunk: dict[str, Any]) -> None:
        """Read one chunk."""
        assert self.finish is None
        assert self.error is None
        assert self.usage is None or self._blocked or "error" in chunk  # the counts come last
        if "error" in chunk:
            assert next(iter(chunk)) == "error"
            self.error = error = chunk["error"]
            assert error.keys() >= {"code", "message", "status"}
            assert isinstance(error["code"], int)
            assert isinstance(error["message"], str)
            assert error["status"] == error["status"].upper()
            return
        feedback = chunk.get("promptFeedback", {})
        reason = feedback.get("blockReason", "")
        blocked = reason if not reason.endswith("_UNSPECIFIED") else ""
        if "candidates" not in chunk and not self._blocked and not blocked:
            self.others.append(chunk)
            return
        names = {key: chunk[key] for key in _NAMES if key in chunk}
        assert names == self.names or not self._begun
        self.names, self._begun = names, True
        if "usageMetadata" in chunk:
            assert self.usage is None
            self.usage = dict(chunk["usageMetadata"])
            _check_usage(self.usage)
        if blocked:
            assert self._blocked is None
            self._blocked = blocked
        if self._blocked:  # there is no candidate
            assert "candidates" not in chunk
            return
        (candidate,) = chunk["candidates"]
        assert candidate["index"] == 0
        assert candidate["content"]["role"] == "model"
        (part,) = candidate["content"]["parts"]
        self._take_part(part)
        rest = {k: v for k, v in candidate.items() if k not in ("content", "index")}
        self._take_beside(rest)

    def end(self) -> Read:
        """Return the complete stream."""
        finish = self.finish or self._blocked
        assert (finish is None) == (self.error is not None)
        return Read(self.parts, self.names, finish, self.usage, self.error, self.others)

    def _take_part(self, part: dict[str, Any]) -> None:
        """Read a part; a signature without text signs the previous part."""
        known = [key for key in part if key in _PARTS]
        signature, thought = part.get("thoughtSignature"), part.get("thought", False)
        assert thought in (False, True)
        redacted = False
        if signature is not None:
            value = base64.urlsafe_b64decode(signature.translate(_PLAIN))
            redacted = value.startswith(b"sn1-redacted.")  # which belongs to no text
            assert len(signature) % 4 == 0
        if "text" not in part:
            self._take_whole(part, known)
            return
        assert known == ["text"]
        part["text"].encode()
        extra = {k: v for k, v in part.items() if k not in ("text", "thought", "thoughtSignature")}
        if extra:
            assert not part["text"]
            self.others.append(extra)
            return
        if not part["text"] and signature is None:
            return
        last = self.parts[-1] if self.parts and self._goes_on else None
        is_own = bool(part["text"] or thought)  # what signs hidden reasoning signs no text
        if last is None or redacted or (is_own and last["thought"] is not thought):
            sources: list[dict[str, Any]] = []
            last = {"text": "", "thought": thought, "signature": None, "sources": sources}
            self.parts.append(last)
        last["text"] += part["text"]
        last["signature"] = signature
        self._goes_on = signature is None

    def _take_whole(self, part: dict[str, Any], known: list[str]) -> None:
        if "functionCall" in part:
            call = part["functionCall"]
            assert call.keys() == {"id", "name", "args"}
            assert call["id"]
            assert call["name"]
            assert isinstance(call["args"], dict)
        assert len(known) <= 1
        self.parts.append(part)
        self._goes_on = False

    def _take_beside(self, rest: dict[str, Any]) -> None:
        finish = rest.pop("finishReason", None)
        if finish in _FAILURES:
            self.error = {"message": rest.pop("finishMessage"), "status": finish}
        elif finish is not None:
            assert finish == finish.upper()
            self.finish = finish
        sources = {key: rest.pop(key) for key in _SOURCES if key in rest}
        if sources and self.parts and "sources" in self.parts[-1]:
            self._take_sources(sources)
        if rest and finish is None:
            self.others.append(rest)

    def _take_sources(self, told: dict[str, Any]) -> None:
        """Read the sources of the preceding text."""
        last = self.parts[-1]
        data = last["text"].encode()
        texts = [part["text"] for part in self.parts[:-1] if part.get("thought") is False]
        before = len("".join(texts).encode())  # what was recited is counted from the first text
        for source in told.get("citationMetadata", {}).get("citations", ()):
            first, end = (source[key] - before for key in ("startIndex", "endIndex"))
            if not 0 <= first <= end <= len(data):  # as its own server has counted
                continue
            data[first:end].decode()
            last["sources"].append({"kind": "citation", **source})
        grounding = told.get("groundingMetadata", {})
        for support in grounding.get("groundingSupports", ()):
            segment, numbers = support["segment"], support["groundingChunkIndices"]
            words = data[segment.get("startIndex", 0) : segment["endIndex"]]
            if words.decode("utf-8", "replace") != segment["text"]:  # as its own server counts
                continue
            assert len(support.get("confidenceScores", numbers)) == len(numbers)
            for number in numbers:
                ((kind, source),) = grounding["groundingChunks"][number].items()
                last["sources"].append({"kind": kind, **segment, **source})


def _check_usage(usage: dict[str, Any]) -> None:
    counts = [usage.get(key, 0) for key in (*_COUNTS, *_SUMMED, "cachedContentTokenCount")]
    assert all(isinstance(count, int) and count >= 0 for count in counts)
    assert all(key in usage for key in _COUNTS)
