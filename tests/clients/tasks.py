"""The tasks that an agent is given, and the script by which its model answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from clients.histories import History, history_of
from msgspec import structs
from support.history_rules import broken_rules

from streamnorm import Block, Reasoning, Text, ToolCall

__all__ = ["READ_FILES", "SIGNATURE", "Task", "signed"]

SIGNATURE = {
    "anthropic": ("anthropic", "EqMBCkYIARgCKkBtb2Nr"),
    "openai_responses": ("openai", "gAAAAABmockmockmock"),
    "gemini": ("google", "CiQBcsjafE1vY2s="),
}
"""Issuer and signature of the scripted reasoning, by the upstream's dialect, if it has one."""

Call = Callable[[str, Path], ToolCall]
"""Returns the call by which an agent's model reads a file, by the id of the call."""


class Task(NamedTuple):
    """A task of two turns: calls of tools, and the final answer.

    Attributes:
        prompt: What the user says.
        files: Files in the working directory, by name.
        final: The final answer.
        calls: Returns the calls of the first turn, from the agent's way of reading a file, the
            working directory and the upstream's dialect.
        results: What the results must contain, in the order of the calls.
        problems: Returns what else is wrong in the requests or in the working directory.
    """

    prompt: str
    files: dict[str, str]
    final: str
    calls: Callable[[Call, Path, str], list[ToolCall]]
    results: Sequence[str]
    problems: Callable[[list[dict[str, Any]], Path], list[str]] = lambda requests, folder: []

    def turn(self, dialect: str, body: dict[str, Any], read: Call, folder: Path) -> list[Block]:
        """Return the answer to a request, by what is in it."""
        history = history_of(dialect, body)
        if not history.tools:
            return [Text("A title")]
        if history.results:
            return [*signed(dialect, "Both files are read."), Text(self.final)]
        calls = self.calls(read, folder, dialect)
        return [*signed(dialect, "Two files are to be read."), Text("I will read both."), *calls]

    def wrong(
        self, dialect: str, bodies: list[dict[str, Any]], read: Call, folder: Path
    ) -> list[str]:
        """Return what is wrong with the requests of a task that was completed."""
        found = [
            f"request {at}: {rule}"
            for at, body in enumerate(bodies)
            for rule in broken_rules(dialect, body)
        ]
        if not bodies:
            return ["no request"]
        last = history_of(dialect, bodies[-1])
        expected = [call.id for call in self.calls(read, folder, dialect)]
        found += _differing_results(last, expected, self.results)
        return found + self.problems(bodies, folder)


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


def signed(dialect: str, text: str) -> list[Block]:
    """Return a block of reasoning, signed if the dialect signs reasoning itself."""
    if dialect == "gemini":  # which signs the calls
        return [Reasoning((text,))]
    issuer, signature = SIGNATURE.get(dialect, (None, None))
    return [Reasoning((text,), signature=signature, issuer=issuer)]


_IDS = {
    "anthropic": "toolu_01Read{}",
    "openai_chat": "call_Read{}",
    "openai_responses": "call_Read{}",
    "gemini": "read-{}",
}


def _read_both(read: Call, folder: Path, dialect: str) -> list[ToolCall]:
    calls = [read(_IDS[dialect].format(n), folder / name) for n, name in enumerate(_FILES, 1)]
    if dialect == "gemini":  # only the first of parallel calls is signed
        issuer, signature = SIGNATURE[dialect]
        calls[0] = structs.replace(calls[0], signature=signature, issuer=issuer)
    return calls


_FILES = {"one.txt": "The first word is larch.\n", "two.txt": "The second word is fjäll ✓.\n"}

READ_FILES = Task(
    prompt="Read the files one.txt and two.txt in this directory, and say the words.",
    files=_FILES,
    final="FINAL ANSWER: the words are larch and fjäll ✓.",
    calls=_read_both,
    results=[text.rstrip("\n") for text in _FILES.values()],
)
"""Two files are read at once."""
