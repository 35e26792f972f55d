"""The tasks that an agent is given, and the script by which its model answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from clients.histories import History, history_of
from msgspec import structs
from support.history_rules import broken_rules

from streamnorm import Block, Reasoning, Text, ToolCall

__all__ = ["READ_FILES", "SIGNATURE", "Asked", "Call", "Task", "call_id", "signed"]

SIGNATURE = {
    "anthropic": ("anthropic", "EqMBCkYIARgCKkBtb2Nr"),
    "openai_responses": ("openai", "gAAAAABmockmockmock"),
    "gemini": ("google", "CiQBcsjafE1vY2s="),
}
"""Issuer and signature of the scripted reasoning, by the upstream's dialect, if it has one."""


class Asked(NamedTuple):
    """What the scripted model knows when it answers.

    Attributes:
        dialect: Dialect of the upstream.
        tools: Names of the tools that the request declares, as the upstream reads them.
        folder: The agent's working directory.
    """

    dialect: str
    tools: tuple[str, ...]
    folder: Path


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
        results: What the results must contain, in the order of the calls.
        problems: Returns what else is wrong, from the requests that reached the upstream and
            the folder of the run, with the agent's working directory and the log.
    """

    prompt: str
    files: dict[str, str]
    final: str
    rounds: Sequence[Callable[[Asked, Call], list[ToolCall]]]
    results: Sequence[str]
    problems: Callable[[list[dict[str, Any]], Path], list[str]] = lambda requests, folder: []

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
            history = history.with_ids(self._ids(asked, read))
        for calls_of in self.rounds:
            # An agent may have executed the first calls of an answer that then broke off.
            calls = [call for call in calls_of(asked, read) if call.id not in history.results]
            if calls:
                return [*signed(dialect, "Tools are needed."), Text("One moment."), *calls]
        return [*signed(dialect, "All results are there."), Text(self.final)]

    def wrong(
        self,
        dialect: str,
        bodies: list[dict[str, Any]],
        read: Call,
        folder: Path,
        *,
        has_ids: bool = True,
    ) -> list[str]:
        """Return what is wrong with the requests of a task that was completed.

        Args:
            dialect: Dialect of the upstream.
            bodies: The bodies of the requests.
            read: The agent's way of reading a file.
            folder: The agent's working directory.
            has_ids: Whether calls must have the ids of the script, or else any of their own.
        """
        found = [
            f"request {at}: {rule}"
            for at, body in enumerate(bodies, 1)
            for rule in broken_rules(dialect, body)
        ]
        last = history_of(dialect, bodies[-1])
        ids = self._ids(Asked(dialect, last.tools, folder / "work"), read)
        last = last.without_repeated_calls() if has_ids else last.with_ids(ids)
        found += _differing_results(last, ids, self.results)
        return found + self.problems(bodies, folder)

    def _ids(self, asked: Asked, read: Call) -> list[str]:
        return [call.id for calls_of in self.rounds for call in calls_of(asked, read)]


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


def call_id(dialect: str, name: str) -> str:
    """Return an id of the form that providers of a dialect give."""
    return {"anthropic": "toolu_01", "gemini": ""}.get(dialect, "call_") + name


def _read_both(asked: Asked, read: Call) -> list[ToolCall]:
    calls = [
        read(asked, call_id(asked.dialect, f"Read{number}"), name)
        for number, name in enumerate(_FILES, 1)
    ]
    if asked.dialect == "gemini":  # only the first of parallel calls is signed
        issuer, signature = SIGNATURE[asked.dialect]
        calls[0] = structs.replace(calls[0], signature=signature, issuer=issuer)
    return calls


_FILES = {"one.txt": "The first word is larch.\n", "two.txt": "The second word is fjäll ✓.\n"}

READ_FILES = Task(
    prompt="Read the files one.txt and two.txt in this directory, and say the words.",
    files=_FILES,
    final="FINAL ANSWER: the words are larch and fjäll ✓.",
    rounds=[_read_both],
    results=[text.rstrip("\n") for text in _FILES.values()],
)
"""Two files are read at once."""
