"""The calls of one candidate: which part belongs to which call, and which result answers it."""

from __future__ import annotations

from msgspec import Struct

from streamnorm._core.json import is_json
from streamnorm.dialects.gemini.tool_calls.partial_arguments import PartialArguments
from streamnorm.dialects.gemini.tool_calls.parts import CallPart, contradiction

__all__ = ["CandidateCalls", "OpenCall"]


class OpenCall(Struct):
    """An open call whose arguments come in fragments.

    Attributes:
        index: Index of its block.
        id: Id of the call; empty if it came without one.
        name: Name of the tool.
        arguments: The arguments so far.
    """

    index: int
    id: str
    name: str
    arguments: PartialArguments

    def is_continued_by(self, part: CallPart) -> bool:
        """Return whether a part is a fragment of this call and not the start of another.

        Raises:
            Fatal: The part names this call and contradicts it, or names no call that is open.
        """
        if not part.name and part.id in ("", self.id):
            is_same = True
        elif part.id:
            is_same = part.id == self.id
        else:  # a start without an id has no arguments yet
            is_same = part.name == self.name and (bool(self.id) or bool(part.entries))
        if is_same and part.name not in ("", self.name):
            raise contradiction("another name for the call of its id")
        if is_same and part.arguments is not None:
            if part.name and not part.id:
                return False
            raise contradiction("whole arguments for a call that came in fragments")
        if not is_same and not part.name:
            raise contradiction("the id of another call than the open one")
        return is_same


class CandidateCalls:
    """The calls of one candidate so far, and which of them have their result."""

    def __init__(self) -> None:
        self._by_id: dict[tuple[str, str], tuple[str, int]] = {}  # name and hash of the content
        self._cut: dict[str, None] = {}  # names of calls whose arguments never ended
        self._unfinished = 0
        self._unanswered: dict[str, str] = {}  # names of client tool calls by id
        self._running: list[str] = []  # ids of the provider's calls

    @property
    def awaits_client(self) -> bool:
        """Whether a client tool call has no result."""
        return bool(self._unanswered)

    @property
    def unfinished(self) -> int:
        """Number of client tool calls whose arguments are no whole JSON."""
        return self._unfinished

    def repeats(self, what: str, id: str, name: str, content: str) -> bool:
        """Return whether a call or result repeats that of its id; store it if it is new.

        Raises:
            Fatal: It is another than that of its id.
        """
        if not id:
            return False
        found, known = (name, hash(content)), self._by_id.get((what, id))
        if known is not None and known != found:
            raise contradiction(f"the id of another {what}")
        self._by_id[what, id] = found
        return known is not None

    def check_start(self, part: CallPart) -> None:
        """Check that the start of a call is no fragment of a call that was cut.

        Raises:
            Fatal: It may be one.
        """
        if part.entries and not part.id and part.name in self._cut:
            raise contradiction("arguments for a call that was cut")

    def start(self, id: str, name: str) -> None:
        """Store a client tool call."""
        self._unanswered[id] = name

    def start_server_call(self, id: str) -> None:
        """Store a call that the provider executes."""
        self._running.append(id)

    def complete(self, arguments: str) -> None:
        """Judge whole arguments: text that is no JSON is unfinished."""
        self._unfinished += bool(arguments) and not is_json(arguments)

    def cut(self, name: str) -> None:
        """Store that the arguments of a call never ended."""
        self._unfinished += 1
        self._cut[name] = None

    def answer(self, id: str, name: str) -> str:
        """Return the id of the client tool call that a result answers; its tool has run."""
        if not id:
            id = next((known for known, tool in self._unanswered.items() if tool == name), "")
        self._unanswered.pop(id, None)
        return id

    def answer_server_call(self, id: str) -> str:
        """Return the id of the provider's call that a result answers.

        Raises:
            Fatal: It has no id, and several calls have no result.
        """
        if not id and len(self._running) > 1:
            raise contradiction(f"a result without an id after {len(self._running)} calls")
        id = id or next(iter(self._running), "")
        if id in self._running:
            self._running.remove(id)
        return id
