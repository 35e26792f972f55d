"""The tasks that an agent is given, and the script by which its model answers."""

from __future__ import annotations

import json
import re
import struct
from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from zlib import compress, crc32

from clients.histories import History, history_of
from msgspec import structs

from streamnorm import Block, Reasoning, Text, ToolCall
from streamnorm.testing import FakeRequest

__all__ = [
    "READ_AND_VIEW",
    "READ_FILES",
    "READ_ON",
    "READ_TEN",
    "Asked",
    "Call",
    "Proof",
    "Task",
    "has_tools",
    "proof_of",
    "signed",
    "text_call",
]


class Proof(NamedTuple):
    """What the upstream's vendor proves with that it reasoned.

    Attributes:
        issuer: The vendor.
        signature: The signature.
        id: Id of the item that it is bound to; None if it is bound to none.
    """

    issuer: str
    signature: str
    id: str | None = None


def proof_of(dialect: str, turn: int) -> Proof | None:
    """Return the proof of one turn, from 1; None if the dialect has none."""
    match dialect:
        case "anthropic" | "bedrock_converse":
            return Proof("anthropic", b64encode(f"thinking of turn {turn}".encode()).decode())
        case "openai_responses":
            return Proof("openai", f"gAAAAABmockmockmock{turn}", f"rs_{turn:048x}")
        case "gemini":
            return Proof("google", b64encode(f"a thought of turn {turn}".encode()).decode())
        case _:
            return None


_PLACEHOLDERS = {
    # Written where a vendor demands a signature, and another one answered.
    "skip_thought_signature_validator",
    # A strict fake signs an answer for which the script has no signature: the rest of the calls
    # of an answer that broke off.
    b64encode(b"signature of a fake provider").decode(),
}


class Asked(NamedTuple):
    """What the scripted model knows when it answers.

    Attributes:
        dialect: Dialect of the upstream.
        tools: Kinds of the tools that the request declares, by name; see `History`.
        folder: The agent's working directory.
    """

    dialect: str
    tools: dict[str, str]
    folder: Path


def has_tools(request: FakeRequest) -> bool:
    """Return whether a request is a turn of a task, and not one for a title."""
    return not {"tools", "toolConfig"}.isdisjoint(request.body)


Call = Callable[[Asked, str, str], ToolCall]
"""Returns the call by which an agent's model reads a file, with an id and the file's name."""


class Task(NamedTuple):
    """A task: calls of tools, and the final answer.

    Attributes:
        prompt: What the user says.
        files: Files in the working directory, by name.
        final: The final answer.
        rounds: Return the calls of each turn before the final one, from what the model knows
            and the agent's way of reading a file.
        results: What the results must contain, in the order of the calls; a call behind them
            ends the task.
        follow_up: What the user says then, and the answer to that; None for nothing.
        problems: Returns what else is wrong, from the requests that reached the upstream and
            the folder of the run, with the agent's working directory and the log.
    """

    prompt: str
    files: dict[str, str | bytes]
    final: str
    rounds: Sequence[Callable[[Asked, Call], list[ToolCall]]]
    results: Sequence[str]
    follow_up: tuple[str, str] | None = None
    problems: Callable[[list[dict[str, Any]], Path], list[str]] = lambda requests, folder: []

    @property
    def answer(self) -> str:
        """The last answer of the agent."""
        return self.final if self.follow_up is None else self.follow_up[1]

    def turn(
        self,
        dialect: str,
        body: dict[str, Any],
        read: Call,
        folder: Path,
        *,
        has_ids: bool = True,
    ) -> list[Block]:
        """Return the answer to a request, by what is in it.

        Args:
            dialect: Dialect of the upstream.
            body: The body of the request.
            read: The agent's way of reading a file.
            folder: The agent's working directory.
            has_ids: As for `wrong`.
        """
        history = history_of(dialect, body)
        if not history.tools:
            return [Text("A title")]
        asked = Asked(dialect, history.tools, folder)
        if not has_ids:
            history = history.with_ids([call.id for call in self._calls(asked, read)])
        for number, calls_of in enumerate(self.rounds, 1):
            # An agent may have executed the first calls of an answer that then broke off.
            calls = [call for call in calls_of(asked, read) if call.id not in history.results]
            if calls:
                reasoning = signed(dialect, "Tools are needed.", number)
                return [*reasoning, Text("One moment."), *calls]
        final, number = self.final, len(self.rounds) + 1
        if self.follow_up is not None and self.follow_up[0] in json.dumps(body):
            final, number = self.follow_up[1], number + 1
        return [*signed(dialect, "All results are there.", number), Text(final)]

    def wrong(
        self,
        requests: list[FakeRequest],
        read: Call,
        folder: Path,
        *,
        reasons: bool = True,
        has_ids: bool = True,
        has_signatures: bool = True,
        has_reasoning_ids: bool = True,
    ) -> list[str]:
        """Return what is wrong with the requests of a task that was completed.

        Args:
            requests: The requests that reached the upstream.
            read: The agent's way of reading a file.
            folder: The folder of the run.
            reasons: Whether the model reasoned.
            has_ids: Whether calls must have the ids of the script, or else any of their own.
            has_signatures: Whether the agent sends signatures back.
            has_reasoning_ids: Whether it sends the ids back that they are bound to.
        """
        found: list[str] = []
        turns_of_task = (one for one in reversed(requests) if has_tools(one))
        last_turn = next(turns_of_task, requests[-1])
        dialect = str(last_turn.dialect)
        last = history_of(dialect, last_turn.body)
        asked = Asked(dialect, last.tools, folder / "work")
        calls = self._calls(asked, read)[: len(self.results)]
        ids = [call.id for call in calls]
        last = last.without_repeated_calls() if has_ids else last.with_ids(ids)
        found += _differing_results(last, ids, self.results)
        proofs: dict[str, str | None] = {}
        # Signatures are for the upstream that gave them.
        if has_signatures and dialect == requests[0].dialect:
            turns = self._signed_turns(asked, read, reasons=reasons)
            proofs = {
                one.signature: one.id for one in map(partial(proof_of, dialect), turns) if one
            }
        signatures = {one: id for one, id in last.signatures if one not in _PLACEHOLDERS}
        if not has_reasoning_ids:
            proofs = dict.fromkeys(proofs)
        if signatures != proofs:
            found.append(f"signatures {last.signatures}, expected {proofs}")
        return found + self.problems([request.body for request in requests], folder)

    def _signed_turns(self, asked: Asked, read: Call, *, reasons: bool) -> list[int]:
        """Return the turns before the last one whose proofs an agent is sent."""
        answered = 0
        turns: list[int] = []
        for number, calls_of in enumerate(self.rounds, 1):
            calls = calls_of(asked, read)
            answered += len(calls)
            if answered > len(self.results):
                return turns
            if any(call.signature for call in calls) or (reasons and asked.dialect != "gemini"):
                turns.append(number)
        if self.follow_up is not None and reasons and asked.dialect != "gemini":
            turns.append(len(self.rounds) + 1)
        return turns

    def _calls(self, asked: Asked, read: Call) -> list[ToolCall]:
        return [call for calls_of in self.rounds for call in calls_of(asked, read)]


def _differing_results(last: History, expected: list[str], contents: Sequence[str]) -> list[str]:
    if [*last.calls] != expected:
        return [f"calls {[*last.calls]}, expected {expected}"]
    if sorted(last.results) != sorted(expected):
        return [f"results of {sorted(last.results)}, expected {sorted(expected)}"]
    return [
        f"result of {id} lacks {content!r}"
        for id, content in zip(expected, contents, strict=True)
        if content not in last.results[id]
    ]


def signed(dialect: str, text: str, turn: int) -> list[Reasoning]:
    """Return the reasoning of a turn, signed if the dialect signs reasoning itself."""
    proof = proof_of(dialect, turn)
    if proof is None or dialect == "gemini":  # which signs the calls
        return [Reasoning((text,))]
    return [Reasoning((text,), proof.signature, proof.issuer, proof.id)]


def text_call(asked: Asked, id: str, tool: str, text: str) -> ToolCall:
    """Return a call of a tool with free text, as the upstream was given that tool.

    Args:
        asked: What the model knows.
        id: Id of the call.
        tool: Name of the tool, without its namespace.
        text: The text.
    """
    known = next(name for name in asked.tools if re.split(r"\.|__", name)[-1] == tool)
    if asked.tools[known] == "function":  # of one string
        return ToolCall(id, known, json.dumps({"input": text}, ensure_ascii=False))
    namespace, _, name = known.rpartition(".")
    return ToolCall(id, name, text, kind="custom", namespace=namespace or None)


def _read_both(asked: Asked, read: Call) -> list[ToolCall]:
    calls = [read(asked, f"call_Read{number}", name) for number, name in enumerate(_FILES, 1)]
    return _signed_calls(asked, calls, 1)


def _signed_calls(asked: Asked, calls: list[ToolCall], turn: int) -> list[ToolCall]:
    """Return the parallel calls of a turn as the vendor signs them: Google signs the first."""
    proof = proof_of(asked.dialect, turn)
    if proof is None or asked.dialect != "gemini":
        return calls
    first = structs.replace(calls[0], signature=proof.signature, issuer=proof.issuer)
    return [first, *calls[1:]]


_FILES: dict[str, str | bytes] = {
    "one.txt": "The first word is larch.\n",
    "two.txt": "The second word is fjäll ✓.\n",
}
_WORDS = ["The first word is larch.", "The second word is fjäll ✓."]

READ_FILES = Task(
    prompt="Read the files one.txt and two.txt in this directory, and say the words.",
    files=_FILES,
    final="FINAL ANSWER: the words are larch and fjäll ✓.",
    rounds=[_read_both],
    results=_WORDS,
)
"""Two files are read at once."""


def _png(width: int, height: int) -> bytes:
    """Return an image in one colour."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = (b"\0" + b"\x2e\x8b\x57" * width) * height
    parts = part(b"IHDR", header) + part(b"IDAT", compress(pixels)) + part(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def _view_and_read(asked: Asked, read: Call) -> list[ToolCall]:
    calls = [read(asked, "call_View", "tree.png"), read(asked, "call_Read3", "three.txt")]
    return _signed_calls(asked, calls, 2)


_TREE = _png(64, 48)


def _missing_image(requests: list[dict[str, Any]], folder: Path) -> list[str]:
    # An agent may write the pixels anew, and adds to what stands before them.
    kept = "iVBORw0KGgo" in json.dumps(requests[-1]) or "/9j/" in json.dumps(requests[-1])
    return [] if kept else ["the image is not in the last request"]


READ_AND_VIEW = Task(
    prompt="Read one.txt and two.txt here, then tree.png and three.txt, and say the words.",
    files={**_FILES, "tree.png": _TREE, "three.txt": "The third word is alder.\n"},
    final="FINAL ANSWER: the words are larch, fjäll ✓ and alder.",
    rounds=[_read_both, _view_and_read],
    results=[*_WORDS, "", "The third word is alder."],
    problems=_missing_image,
)
"""Two files are read at once, then an image and another file."""


def _read_third(asked: Asked, read: Call) -> list[ToolCall]:
    return _signed_calls(asked, [read(asked, "call_Read3", "three.txt")], 2)


READ_ON = READ_AND_VIEW._replace(
    prompt="Read one.txt and two.txt here, then three.txt, and say the words.",
    rounds=[_read_both, _read_third],
    results=[*_WORDS, "The third word is alder."],
    problems=READ_FILES.problems,
)
"""Two files are read at once, then another one."""


_TREES = ("alder", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "willow")


def _read_tree(number: int, asked: Asked, read: Call) -> list[ToolCall]:
    calls = [read(asked, f"call_Tree{number}", f"{number}.txt")]
    return _signed_calls(asked, calls, number)


READ_TEN = Task(
    prompt="Read the files 1.txt to 10.txt here, one after the other, and name the trees.",
    files={f"{number}.txt": f"This is {tree}.\n" for number, tree in enumerate(_TREES, 1)},
    final="FINAL ANSWER: ten trees.",
    rounds=[partial(_read_tree, number) for number, _ in enumerate(_TREES, 1)],
    results=[f"This is {tree}." for tree in _TREES],
)
"""Ten files are read, one in each turn."""
