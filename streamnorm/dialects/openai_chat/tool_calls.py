"""Tool calls in Chat Completions deltas: which call a delta belongs to, and what of it
is news.

Servers leave out the index, send 0 for all, count from 1, let it drift, repeat id and
name or send the id late.  A call is found by its id, then by its index, then by being
the latest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from streamnorm._core.events import JSONDelta, StreamError
from streamnorm._core.failures import Fatal
from streamnorm._core.json import clean
from streamnorm.dialects.openai_chat.arguments import ENDS, Arguments

__all__ = ["Call", "Calls"]


_NOT_STARTED = JSONDelta(-1, "")
_LAST = ENDS | {"l"}  # what complete arguments, or a `null`, may end with


class Call:
    """One tool call of a choice.

    Attributes:
        id: The provider's id; None until it is known.
        name: The tool's name as far as it is known.
        kind: What the arguments are.
        arguments: Their text so far.
        index: Number of its block; -1 while its start is held.
        delta: A delta of its block, once that has started.
        is_plain: Whether its arguments can be appended to as they are (see `settle`).
        placeholder: Whether all its arguments are a `{}` that has not gone out.
        followed: Whether another block has begun since.
        stopped: Whether its block has stopped.
        carry: High surrogate that the last fragment ended in.
        signature: What must come back with it, if it came before its start is out.
        issuer: Who can verify the signature.
    """

    __slots__ = (
        "arguments",
        "carry",
        "delta",
        "followed",
        "id",
        "index",
        "is_plain",
        "issuer",
        "kind",
        "name",
        "placeholder",
        "signature",
        "stopped",
    )

    def __init__(self, id: str | None, name: str) -> None:
        self.id = id
        self.name = name
        self.kind: Literal["function", "custom"] = "function"
        self.arguments = Arguments()
        self.index = -1
        self.delta = _NOT_STARTED
        self.is_plain = False
        self.placeholder = False
        self.followed = False
        self.stopped = False
        self.carry = ""
        self.signature: str | None = None
        self.issuer: str | None = None

    @property
    def ripe(self) -> bool:
        """Whether it has something to let out."""
        return bool(self.arguments.size) or self.signature is not None

    def complete(self) -> bool:
        """Tell whether no more arguments can follow."""
        return self.kind == "function" and self.arguments.complete()

    def whole(self) -> bool:
        """Tell whether the arguments can be executed, now that nothing follows."""
        return not self.arguments.size or self.complete() or self.arguments.text() == "{}"

    def settle(self) -> None:
        """Find out whether nothing about the arguments is left to find out."""
        held = self.stopped or self.placeholder or self.carry or self.index < 0
        self.is_plain = self.kind == "function" and not held and self.arguments.size > 0

    def stop(self) -> None:
        """Take no more arguments."""
        self.stopped, self.is_plain = True, False

    def take(self, text: str, note: Callable[[str, str], None], *, cumulative: bool) -> str:
        """Add a fragment, and return what of it is news.

        A lone `{}` goes out with what follows, or with `rest`: it may be a placeholder
        for the object that comes behind it.

        Args:
            text: The fragment.
            note: Counts what was forgiven.
            cumulative: Whether each fragment repeats all before it.

        Raises:
            Fatal: Nothing may follow what there is.
        """
        arguments = self.arguments
        if self.kind == "custom":
            arguments.append(text)
            return text
        if arguments.size:
            if cumulative and text.startswith(arguments.text()):
                note("cumulative_arguments", "tool call")
                text = text[arguments.size :]
                if not text:
                    return ""
            if self._repeats(text):
                note("resent_arguments", "tool call")
                return ""
            if self.placeholder:
                return self._behind_placeholder(text, note)
        arguments.append(text)
        if text == "{}" and arguments.size == 2:
            self.placeholder = True
            return ""
        return text

    def append_plain(self, text: str) -> bool:
        """Append a fragment that only extends the arguments.

        False leaves them unchanged: it may repeat, restart or complete them, and needs `take`.
        """
        arguments = self.arguments
        if not self.is_plain or len(text) == arguments.size:
            return False
        if not text:
            return True
        first = text[0]
        if (first == "{" or first.isspace()) and arguments.closes_object():
            return False
        # Once a later block has begun, complete arguments stop the call.
        if self.followed and text[-1] in _LAST and arguments.may_end_with(text):
            return False
        arguments.append(text)
        return True

    def rest(self) -> str:
        """Return what was held, now that nothing follows."""
        rest = ("{}" if self.placeholder else "") + clean(self.carry)
        self.placeholder, self.carry = False, ""
        return rest

    def _repeats(self, text: str) -> bool:
        arguments = self.arguments
        if len(text) == arguments.size > 2 and text == arguments.text() and arguments.complete():
            return True
        if self.stopped:
            if text.isspace():
                return True
            raise Fatal(StreamError("malformed", "arguments of a tool call that has stopped"))
        if text.lstrip().startswith("{") and arguments.closes_object() and arguments.complete():
            raise Fatal(StreamError("malformed", "a second object as arguments of one tool call"))
        return False

    def _behind_placeholder(self, text: str, note: Callable[[str, str], None]) -> str:
        if not text.lstrip().startswith("{"):
            self.placeholder = False
            self.arguments.append(text)
            return "{}" + text
        note("placeholder_arguments", "tool call")
        self.arguments = Arguments()
        self.arguments.append(text)
        self.placeholder = text == "{}"
        return "" if self.placeholder else text


class Calls:
    """The tool calls of one choice.

    Attributes:
        all: The calls, in order of appearance.
        by_index: Those that have an index on the wire.
        last: The call that the latest delta belonged to.
    """

    def __init__(self) -> None:
        self.all: list[Call] = []
        self._by_id: dict[str, Call] = {}
        self.by_index: dict[int, Call] = {}
        self.last: Call | None = None

    def find(self, index: int | None, id: str | None, name: str, fragment: str) -> Call:
        """Return the call that a delta belongs to, a new one if it begins one."""
        if index is not None and index < 0:  # GLM-4.5 and Bedrock gateways send -1
            index = None
        call = self._known(index, id, name, fragment)
        if call is None:
            call = self._new(index, id, name)
        elif name and call.index < 0 and name != call.name:
            if not call.name:
                call.name = name
            elif not call.arguments.size:  # a name in pieces ends where arguments begin
                call.name += name
        self.last = call
        return call

    def by_id(self, id: object) -> Call | None:
        """Return the call with an id."""
        return self._by_id.get(id) if isinstance(id, str) else None

    def _known(self, index: int | None, id: str | None, name: str, fragment: str) -> Call | None:
        if id is not None:
            return self._by_id.get(id) or self._late_id(index, id, name)
        if index is not None:
            call = self.by_index.get(index)
            if call is None:  # an index that drifts, or a start without id
                return None if name else self.last
            return None if call.id is None and _begins_another(call, name, fragment) else call
        call = self.last
        return None if call is None or _begins_another(call, name, fragment) else call

    def _late_id(self, index: int | None, id: str, name: str) -> Call | None:
        call = self.by_index.get(index) if index is not None else None
        if call is None or call.id is not None or (name and call.name and name != call.name):
            return None
        call.id = id  # though once its start is out, its block keeps the minted one
        self._by_id[id] = call
        return call

    def _new(self, index: int | None, id: str | None, name: str) -> Call:
        call = Call(id, name)
        self.all.append(call)
        if id is not None:
            self._by_id[id] = call
        if index is not None:
            self.by_index[index] = call
        return call


def _begins_another(call: Call, name: str, fragment: str) -> bool:
    """Tell whether a named delta without id cannot be more of `call`."""
    if not (name and call.name and call.arguments.size):
        return False
    if name != call.name:
        return True
    return bool(fragment) and call.complete() and fragment != call.arguments.text()
