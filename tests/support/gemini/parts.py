"""Random blocks of Gemini streams: their parts, and the expected unified blocks."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from streamnorm import (
    Block,
    Citation,
    Document,
    Image,
    OpaqueBlock,
    Reasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
)
from streamnorm._core.text import tag_signature
from support.draws import Draws
from support.gemini.arguments import partial_arguments
from support.gemini.sources import make_sources

__all__ = ["Bit", "Blocks", "Payload", "marked"]

_PLAIN: tuple[dict[str, Any], ...] = ({}, {"a": [{"b": 1}, 2.5]})

Payload = dict[str, Any]


class Bit(Struct):
    """A part with its candidate's fields, sent in one chunk.

    Attributes:
        part: A part; None for none.
        beside: Fields of its candidate.
    """

    part: Payload | None = None
    beside: Payload = {}


def marked(text: str) -> str:
    """Return a placeholder that is replaced by JSON text."""
    return f"@{base64.b64encode(text.encode()).decode()}@"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Blocks:
    """Generator of one candidate's blocks, in order.

    Args:
        d: Draws.
        ascii: Whether other characters are escaped.
        last: How the last call may end: `broken` off, without its `end`, or `whole`.

    Attributes:
        blocks: The blocks so far.
        extras: The extra fields of each.
        bits: The parts of the blocks.
        asked: Ids and names of the calls without a result.
    """

    def __init__(self, d: Draws, *, ascii: bool, last: str) -> None:
        self.blocks: list[Block] = []
        self.extras: list[Payload | None] = []
        self.bits: list[Bit] = []
        self.asked: list[tuple[str, str]] = []
        self._d = d
        self._ascii = ascii
        self._last = last
        self._open = ""  # the kind of text that the next would continue
        self._base = 0  # bytes of the texts so far
        self._running = 0  # number of the provider's calls without a result

    def add(self, *, last: bool) -> None:
        """Generate one more block, or a group of blocks.

        Args:
            last: Whether nothing will follow it.
        """
        makers: tuple[Callable[[], None], ...] = (
            *(self._text, self._text, self._thought, self._thought, self._call, self._call),
            *(self._code, self._tool, self._media, self._unknown, self._sealed, self._answer),
            lambda: self._streamed(last=last),
        )
        self._d.pick(makers)()
        if self._d.flag(8):  # a part that says nothing
            self.bits.append(Bit({"text": "", **self._d.pick(({}, {"thought": True}))}))

    def _take(self, block: Block, extra: Payload | None = None, opens: str = "") -> None:
        self.blocks.append(block)
        self.extras.append(extra or None)
        self._open = opens

    # Text

    def _text(self) -> None:
        if self._open == "text":
            self._call()
            return
        text, sources = self._d.text(1, 8), list[Citation]()
        self._send(text, {})
        if self._d.flag(3):
            sources, told = make_sources(self._d, text, self._base)
            if self._d.flag():
                self.bits[-1].beside = told
            else:
                self.bits.append(Bit(beside=told))
        sealed = self._sign({})
        self._base += len(text.encode())
        self._take(Text(text, tuple(sources), **sealed), opens="" if sealed else "text")

    def _thought(self) -> None:
        if self._open == "thought":
            self._call()
            return
        text = self._d.text(1, 8)
        self._send(text, {"thought": True})
        sealed = self._sign({"thought": True})
        self._take(Reasoning((text,), **sealed), opens="" if sealed else "thought")

    def _send(self, text: str, mark: Payload) -> None:
        self.bits += [Bit({"text": piece, **mark}) for piece in self._d.cut(text, 4)]

    def _sign(self, mark: Payload) -> dict[str, Any]:
        """Add a signature part for the text; return the signature, None without text."""
        place = self._d.pick(("none", "none", "last", "own", "twice"))
        if place == "none":
            return {}
        wire, sealed = self._signature()
        signing = {"text": "", "thoughtSignature": wire, **self._d.pick(({}, mark))}
        if place == "last" and self.bits[-1].part is not None:
            self.bits[-1].part = {**self.bits[-1].part, "thoughtSignature": wire}
        else:
            self.bits += [Bit(dict(signing)) for _ in range(1 + (place == "twice"))]
        return sealed

    def _signature(self) -> tuple[str, dict[str, Any]]:
        signature = base64.b64encode(f"sig{len(self.blocks)}".encode()).decode()
        issuer = self._d.pick(("google", "google", "anthropic"))
        if issuer == "google":
            return signature, {"signature": signature, "issuer": issuer}
        wire = base64.b64encode(tag_signature(signature, issuer).encode()).decode()
        return wire, {"signature": signature, "issuer": issuer}

    def _sealed(self) -> None:
        """Add a signature part without text."""
        if self._open:
            self._call()
            return
        wire, sealed = self._signature()
        thought = self._d.flag(3)
        mark = {"thought": True} if thought else {}
        self.bits.append(Bit({"text": "", "thoughtSignature": wire, **mark}))
        self._take(Reasoning((), **sealed) if thought else Text(**sealed))

    # Calls of the client's tools

    def _head(self) -> tuple[Payload, str, str]:
        name = f"f_{len(self.blocks)}"
        id = self._d.pick((f"call-{len(self.blocks)}", ""))
        self.asked.append((id, name))
        return {"name": name, **({"id": id} if id else {})}, id, name

    def _call(self) -> None:
        head, id, name = self._head()
        text = self._arguments()
        call = {**head, **({"args": marked(text)} if text else {})}
        wire, sealed = self._signature() if self._d.flag() else ("", {})
        extra = {"partMetadata": {"k": 1}} if self._d.flag(6) else {}
        signing = {"thoughtSignature": wire} if wire else {}
        self.bits.append(Bit({"functionCall": call, **signing, **extra}))
        self._take(ToolCall(id, name, text, **sealed), extra)

    def _arguments(self) -> str:
        d = self._d
        value: Any = {d.text(0, 3): d.pick((d.text(0, 6), 1, None, [d.text()])) for _ in range(3)}
        value = d.pick((value, *_PLAIN))
        text = json.dumps(
            value, ensure_ascii=d.flag(), separators=d.pick(((",", ":"), (" , ", ": ")))
        )
        return d.pick((text, text, text, ""))

    def _streamed(self, *, last: bool) -> None:
        """Add a call with arguments in `partialArgs`."""
        d = self._d
        head, id, name = self._head()
        pieces = partial_arguments(d)
        cut_off = last and self._last == "broken" and d.flag()
        if cut_off:
            del pieces[d.below(len(pieces) + 1) :]
        groups: list[list[Payload]] = [[]]
        for piece in pieces:
            groups += [[]] if d.flag() else []
            groups[-1].append(piece.entry)
        text = pieces[-1].whole if pieces else ""
        wire, sealed = self._signature() if d.flag(3) else ("", {})
        calls = [{**(head if not n else {}), "partialArgs": g} for n, g in enumerate(groups)]
        calls = [{**call, "willContinue": True} for call in calls]
        if not pieces:
            del calls[0]["partialArgs"]
        if cut_off:
            text = pieces[-1].text if pieces else "{"
        else:
            goes_on = any(entry.get("willContinue") for entry in groups[-1])
            if len(calls) > 1 and not goes_on and d.flag():
                del calls[-1]["willContinue"]
            elif last and self._last == "end" and d.flag():
                text = pieces[-1].text if pieces else "{"
            else:
                calls.append({})
        for number, call in enumerate(calls):
            signing = {"thoughtSignature": wire} if wire and not number else {}
            self.bits.append(Bit({"functionCall": call, **signing}))
        self._take(ToolCall(id, name, text, **sealed))

    def _answer(self) -> None:
        """Add a call's result, which makes the call a server tool call."""
        if not self.asked:
            self._call()
            return
        id, name = self.asked.pop(0)
        value = {"name": name, **({"id": id} if id else {}), "response": {"output": "é"}}
        self.bits.append(Bit({"functionResponse": value}))
        self._take(ServerToolResult(id, "functionResponse", value))

    # All else

    def _code(self) -> None:
        id = {"id": f"code_{len(self.blocks)}"} if self._d.flag() else {}
        text = json.dumps({"language": "PYTHON", "code": "é\n", **id}, ensure_ascii=self._ascii)
        known = id.get("id", "")
        self.bits.append(Bit({"executableCode": marked(text)}))
        self._take(ServerToolCall(known, "code_execution", text, "executableCode"))
        others, self._running = self._running, self._running + 1
        if self._d.flag() and (id or not others):  # a result without an id needs a single call
            self._running -= 1
            named = id if others else self._d.pick((id, {}))
            result = {"outcome": "OUTCOME_OK", "output": "1\n", **named}
            self.bits.append(Bit({"codeExecutionResult": result}))
            self._take(ServerToolResult(known, "codeExecutionResult", result))

    def _tool(self) -> None:
        id, type = f"tool_{len(self.blocks)}", "GOOGLE_SEARCH_WEB"
        text = json.dumps({"id": id, "toolType": type, "args": {"q": "é"}})
        self.bits.append(Bit({"toolCall": marked(text)}))
        self._take(ServerToolCall(id, type, text, "toolCall"))
        self._running += 1
        if self._d.flag():
            self._running -= 1
            result = {"id": id, "toolType": type, "response": {"r": ["é"]}}
            self.bits.append(Bit({"toolResponse": result}))
            self._take(ServerToolResult(id, "toolResponse", result))

    def _media(self) -> None:
        audio = {"mimeType": "audio/wav", "data": "AAAA"}
        image = {"mimeType": "image/png", "data": "AAAA"}
        options: tuple[tuple[str, Payload, Block], ...] = (
            ("inlineData", image, Image("image/png", "AAAA")),
            (
                "fileData",
                {"mimeType": "application/pdf", "fileUri": "gs://f"},
                Document("application/pdf", url="gs://f"),
            ),
            (
                "inlineData",
                {"mimeType": "text/plain", "data": "w6k="},
                Document("text/plain", "é"),
            ),
            ("inlineData", audio, OpaqueBlock("gemini", "inlineData", _compact(audio))),
        )
        field, value, block = self._d.pick(options)
        extra: Payload = {}
        if self._d.flag(3):
            extra = {"thoughtSignature": "c2ln"}
        if self._d.flag(4):
            extra["thought"] = True
            block = OpaqueBlock("gemini", field, _compact(value))
        self.bits.append(Bit({field: value, **extra}))
        if isinstance(block, Image) and extra:
            block, extra = Image("image/png", "AAAA", signature="c2ln", issuer="google"), {}
        self._take(block, extra)

    def _unknown(self) -> None:
        value = {"lines": [self._d.text(), {"é": None}]}
        self.bits.append(Bit({"sketch": value}))
        self._take(OpaqueBlock("gemini", "sketch", _compact(value)))
