"""Random Chat Completions streams, and their expected messages.

A message is split into deltas as providers split it, and written with the deviations of some
server.  The expected message follows by one rule: a block starts with its first delta, and
text continues the block that started last if that is of its kind.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct, structs

from streamnorm import (
    Block,
    Event,
    Message,
    Reasoning,
    Refusal,
    StopReason,
    Text,
    ToolCall,
    Usage,
    accumulate,
)
from support.draws import Draws
from support.openai_chat.chunks import anonymous
from support.streams.generated import Source, cut_units

__all__ = ["Source", "agrees", "cut_units", "make_chat_stream"]

_LATE = "?"  # before an id that may come too late for its block, which then has a minted one
_FIELDS = {"text": "content", "refusal": "refusal"}
_RANKS = {"reasoning": 0, "text": 1, "refusal": 2, "call": 3}


class _Server(Struct):
    """Deviations of one server."""

    identity: str
    base: int
    step: int
    repeats_id: bool
    repeats_name: bool
    missing: str
    reasoning: str
    ascii: bool
    newline: str
    extras: bool


class _Op(Struct):
    """One delta to send: its block, kind and content."""

    item: int
    kind: str
    piece: Any


def _server(d: Draws) -> _Server:
    return _Server(
        identity=d.pick(("indexed", "by id", "first id", "no index", "drifting", "no id")),
        base=d.pick((0, 1, 7)),
        step=d.pick((1, 3)),
        repeats_id=d.flag(),
        repeats_name=d.flag(),
        missing=d.pick(("absent", "null", "empty")),
        reasoning=d.pick(("reasoning_content", "reasoning", "both", "details")),
        ascii=d.flag(),
        newline=d.pick(("\n", "\r\n", "\r")),
        extras=d.flag(),
    )


def _arguments(d: Draws) -> str:
    value: Any = {d.text(0, 3): d.pick((d.text(0, 6), 1, None, [d.text(), {}])) for _ in range(3)}
    value = d.pick((value, {}, {"a": [{}]}, [d.text()]))
    return json.dumps(value, ensure_ascii=d.flag(), indent=d.pick((None, None, 1)))


def _call_pieces(d: Draws, server: _Server, number: int, *, cut_off: bool) -> list[dict[str, Any]]:
    """Return the fragments of a call."""
    sequential = server.identity in ("first id", "no index", "drifting")
    index: int | None = server.base + server.step * number
    if server.identity in ("by id", "first id"):
        index = d.pick((0, -1)) if server.identity == "by id" else 0
    elif server.identity == "no index":
        index = None
    id = None if server.identity == "no id" else d.pick((f"call_{number}", f"functions.f:{number}"))
    name = d.text(2, 5, "abc_")
    whole = d.pick((_arguments(d), _arguments(d), ""))
    if cut_off and whole:
        whole = whole[: 1 + d.below(len(whole))]
    fragments = cut_units(d, whole, 5)
    late_id = server.identity == "indexed" and d.flag(4)
    late_name = id is not None and not late_id and server.identity != "drifting" and d.flag(4)
    head: dict[str, Any] = {"index": index, "id": id, "name": name, "arguments": None}
    if late_name:
        head["name"] = None
    if late_id:
        head["id"] = None
    if fragments and not late_name and (server.identity == "drifting" or d.flag()):
        head["arguments"] = fragments.pop(0)
    rest = [{"index": index, "id": None, "name": None, "arguments": text} for text in fragments]
    if late_name:
        rest.insert(d.below(len(rest) + 1), {**head, "id": None, "name": name, "arguments": None})
    if late_id:
        rest.insert(d.below(len(rest) + 1), {**head, "id": id, "name": None, "arguments": None})
    if d.flag(4) and not sequential:
        rest.append({"index": index, "id": None, "name": None, "arguments": ""})
    drifts = server.identity == "drifting" and bool(head["arguments"])  # within them alone
    # A fragment at a new index that looks like the start of arguments may be of another call.
    drifts = drifts and not any(text.lstrip().startswith("{") for text in fragments)
    for piece in rest:
        if drifts:
            piece["index"] = index and index + 1000
        if server.identity == "by id" or (server.repeats_id and not late_id):
            piece["id"] = id
        if server.repeats_name and not late_name and server.identity != "drifting":
            piece["name"] = name
    pieces = [head, *rest]
    if not late_name and len(name) > 2 and head["arguments"] is None and d.flag(4):
        at = 1 + d.below(len(name) - 1)
        if name[at:] != name[:at] and not server.repeats_name:
            tail = {**head, "name": name[at:]}
            pieces = [{**head, "name": name[:at]}, tail, *rest]
            pieces[0]["split"] = True
    pieces[0]["is"] = ToolCall(_LATE + str(id) if late_id else id or "", name, whole)
    return pieces


def _answer(d: Draws, server: _Server, *, cut_off: bool) -> list[_Op]:
    """Return the deltas of one choice in wire order."""
    count = d.below(6)
    ops: list[_Op] = []
    pending: dict[int, list[dict[str, Any]]] = {}  # calls with pieces left
    for number in range(count):
        kind = d.pick(("text", "call", "call", "reasoning", "refusal"))
        sequential = server.identity in ("first id", "no index", "drifting")
        while pending and ((sequential and kind == "call") or d.flag()):
            _send(d, pending, ops)
        if kind != "call":
            text = d.text(1, 8)
            ops += [_Op(number, kind, piece) for piece in cut_units(d, text, 4)]
            continue
        pieces = _call_pieces(d, server, number, cut_off=cut_off and number == count - 1)
        together = 2 if pieces[0].pop("split", False) else 1
        ops += [_Op(number, "call", piece) for piece in pieces[:together]]
        if pieces[together:]:
            pending[number] = pieces[together:]
    while pending:
        _send(d, pending, ops)
    return ops


def _send(d: Draws, pending: dict[int, list[dict[str, Any]]], ops: list[_Op]) -> None:
    number = d.pick(list(pending))
    ops.append(_Op(number, "call", pending[number].pop(0)))
    if not pending[number]:
        del pending[number]


_GROWN: dict[str, Any] = {"text": Text, "refusal": Refusal, "reasoning": Reasoning}


def _blocks(ops: list[_Op]) -> tuple[Block, ...]:
    """Return the blocks accumulated from the deltas."""
    blocks: list[tuple[str, Any]] = []  # kind; pieces or the call
    for op in ops:
        if op.kind == "call":
            if "is" in op.piece:
                blocks.append(("call", op.piece.pop("is")))
        elif blocks and blocks[-1][0] == op.kind:
            blocks[-1][1].append(op.piece)
        else:
            blocks.append((op.kind, [op.piece]))
    return tuple(
        what
        if kind == "call"
        else _GROWN[kind](_joined(what) if kind != "reasoning" else (_joined(what),))
        for kind, what in blocks
    )


def _joined(pieces: list[str]) -> str:
    return "".join(pieces).encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _reason(word: str | None, blocks: tuple[Block, ...]) -> StopReason:
    if any(isinstance(block, Refusal) for block in blocks) or word == "content_filter":
        return "refusal"
    if word == "length":
        return "max_tokens"
    if word is None and any(isinstance(b, ToolCall) and not b.arguments for b in blocks):
        return "other"  # the arguments may not have come
    return "tool_use" if any(isinstance(block, ToolCall) for block in blocks) else "end_turn"


def _wire_call(server: _Server, piece: dict[str, Any]) -> dict[str, Any]:
    filler = {"absent": None, "null": None, "empty": ""}[server.missing]
    function = {
        key: piece[key] if piece[key] is not None else filler for key in ("name", "arguments")
    }
    wire: dict[str, Any] = {"index": piece["index"], "type": "function"}
    wire["id"] = piece["id"] if piece["id"] is not None else filler
    wire["function"] = function
    if server.missing == "absent":
        wire["function"] = {key: value for key, value in function.items() if value is not None}
        wire = {key: value for key, value in wire.items() if value is not None}
    return wire


def _add(server: _Server, delta: dict[str, Any], op: _Op) -> None:
    if op.kind == "call":
        delta.setdefault("tool_calls", []).append(_wire_call(server, op.piece))
    elif op.kind != "reasoning":
        delta[_FIELDS[op.kind]] = op.piece
    elif server.reasoning == "details":
        detail = {"type": "reasoning.text", "text": op.piece, "index": 0}
        delta |= {"reasoning_details": [detail], "reasoning": op.piece}
    elif server.reasoning == "both":
        delta |= {"reasoning_content": op.piece, "reasoning": op.piece}
    else:
        delta[server.reasoning] = op.piece


def _chunks(d: Draws, server: _Server, answers: list[list[_Op]]) -> list[list[dict[str, Any]]]:
    """Return the choices of each chunk, with some deltas merged."""
    left = [list(ops) for ops in answers]
    chunks: list[list[dict[str, Any]]] = []
    rank = len(_RANKS)  # of the latest piece in the latest delta
    while any(left):
        number = d.pick([n for n, ops in enumerate(left) if ops])
        op = left[number].pop(0)
        new = _RANKS[op.kind]
        same = bool(chunks) and chunks[-1][-1]["index"] == number
        if same and (new > rank or new == rank == 3) and d.flag(3):
            _add(server, chunks[-1][-1]["delta"], op)
        else:
            choice: dict[str, Any] = {"index": number, "delta": {}, "finish_reason": None}
            _add(server, choice["delta"], op)
            known = {part["index"] for part in chunks[-1]} if chunks else {number}
            if number not in known and d.flag(3):
                chunks[-1].append(choice)
            else:
                chunks.append([choice])
        rank = new
    return chunks


def make_chat_stream(d: Draws) -> Source:
    """Return a complete stream and its expected content."""
    server = _server(d)
    words = d.some(2, lambda: d.pick(("stop", "tool_calls", "length", "content_filter", None)), 1)
    answers = [_answer(d, server, cut_off=word == "length") for word in words]
    blocks = [_blocks(ops) for ops in answers]
    chunks = _chunks(d, server, answers)
    done = None in words or not d.flag(4)
    for number, word in enumerate(words):
        if word is None:
            continue
        if chunks and chunks[-1][-1]["index"] == number and d.flag():
            chunks[-1][-1]["finish_reason"] = word
        else:
            finish = {"index": number, "delta": {}, "finish_reason": word}
            at = d.pick((len(chunks), d.below(len(chunks) + 1)))
            if any(isinstance(block, ToolCall) and not block.arguments for block in blocks[number]):
                at = len(chunks)  # such a call after the finish may be half of one
            # Content after a finish revokes it until the next one.
            is_revoked = any(c["index"] == number for after in chunks[at:] for c in after)
            chunks.insert(at, [finish])
            if is_revoked:
                chunks.append([finish])
    role = {"role": "assistant", "content": d.pick((None, ""))}
    first = [{"index": n, "delta": role, "finish_reason": None} for n in range(len(words))]
    payloads: list[dict[str, Any]] = [{"choices": choices} for choices in [first, *chunks]]
    usage = _place_usage(d, payloads)
    frames = [_frame(d, server, payload) for payload in payloads]
    if done:
        end = server.newline * d.pick((2, 2, 0))
        frames.append(f"data: [DONE]{end}".encode())
    lenient = () if done else ("no_done",)
    if frames[-1].endswith(b"]"):
        lenient = ("unterminated",)
    messages = [
        Message(
            "chatcmpl-1",
            "gpt",
            parts,
            _reason(word, parts),
            word,
            usage=usage,
            extra={"created": 1},
        )
        for word, parts in zip(words, blocks, strict=True)
    ]
    return Source(frames, messages, usage, lenient + (("no_finish",) if None in words else ()))


def _place_usage(d: Draws, payloads: list[dict[str, Any]]) -> Usage:
    """Write token counts to some server's fields; return the counts."""
    place = d.pick(("none", "finish", "last", "each", "x_groq", "choice"))
    prompt, completion = 1 + d.below(50), 1 + d.below(50)
    counts: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion}
    cached = d.pick((None, d.below(prompt)))
    if cached is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": cached}
    match place:
        case "none":
            return Usage()
        case "last":
            payloads.append({"choices": [], "usage": counts})
        case "each":
            for number, payload in enumerate(payloads):
                payload["usage"] = {**counts, "completion_tokens": min(number, completion)}
            payloads[-1]["usage"] = counts
        case "x_groq":
            payloads[-1]["x_groq"] = {"usage": counts}
        case "choice":
            payloads[-1]["choices"][0]["usage"] = counts
        case _:
            payloads[-1]["usage"] = counts
    return Usage(prompt, completion, cached)


def _frame(d: Draws, server: _Server, payload: dict[str, Any]) -> bytes:
    whole = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt"}
    whole |= payload
    if server.extras:
        whole |= {"obfuscation": "x" * d.below(9), "citations": [], "error": None}
    text = json.dumps(whole, ensure_ascii=server.ascii)
    try:
        data = text.encode()
    except UnicodeEncodeError:  # half a character can only be written as an escape
        data = json.dumps(whole).encode()
    end = server.newline.encode()
    comment = b": keep-alive" + end * 2 if server.extras and d.flag(4) else b""
    return comment + b"data: " + data + end * 2


def agrees(source: Source, events: list[Event]) -> bool:
    """Return whether events accumulate to a stream's original messages."""
    return all(
        _without_minted(message, accumulate(events, choice=choice))
        == _without_minted(message, message)
        for choice, message in enumerate(source.messages)
    )


def _without_minted(expected: Message, message: Message) -> Message:
    """Return a message without possibly minted ids and without extras."""
    late = {call.id.removeprefix(_LATE) for call in expected.tool_calls if call.id[:1] == _LATE}
    blocks = tuple(
        structs.replace(block, id="")
        if isinstance(block, ToolCall)
        and (block.id[:1] in ("", _LATE) or block.id in late or anonymous(block.id))
        else block
        for block in message.blocks
    )
    return structs.replace(message, blocks=blocks, extra=None, stop_extra=None)
