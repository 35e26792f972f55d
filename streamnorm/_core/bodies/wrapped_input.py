"""The free text of a custom call, read from the JSON object in which a provider wraps it.

A dialect without custom tools is given a function with one string property, `input`.  The
arguments of its calls are then the *wrapped form*, `{"input": "…"}`, of which the text is
known before the object ends.
"""

from __future__ import annotations

from streamnorm._core.partial_json import PartialJSON

__all__ = ["INPUT", "WrappedInput"]

INPUT = "input"
"""The property that holds the text."""


class WrappedInput:
    """Read the text of one call from its arguments.

    The wrapped form is a JSON object whose member `input` is a string, among other members in
    any order.  Arguments of another form (plain text, another JSON value, an object without
    that member or with another value in it) are the text themselves, unchanged: a model that
    sends its patch as it is must not lose it.  Which of the two they are is known at the
    first character of the string, or where the arguments stop being the beginning of such an
    object; nothing is returned before.

    What follows the first character cannot make text of them any more: if the arguments then
    are no JSON, name `input` again, or end too early, the text is unfinished.

    Args:
        max_json_depth: Nesting of other members beyond which the arguments are no object.

    Attributes:
        is_plain: Whether the arguments are the text themselves.
        has_other_members: Whether the object has members whose value is not returned.
        problem: Why the text is not known to be whole; None if it is, or the call is open.
    """

    def __init__(self, *, max_json_depth: int) -> None:
        self.is_plain = False
        self.has_other_members = False
        self.problem: str | None = None
        self._parser = PartialJSON(max_depth=max_json_depth)
        self._parser.deltas()  # from here on it notes them
        self._is_object = False
        self._is_found = False  # whether text was returned, if only ""
        self._held: list[str] = []  # the arguments before that

    def feed(self, arguments: str) -> str:
        """Return the text that is known with the next piece of the arguments."""
        if self.is_plain:
            return arguments
        if not self._is_found:
            self._held.append(arguments)
        if self.problem is not None:
            return ""
        parser, text = self._parser, ""
        parser.feed(arguments)
        for delta in parser.deltas():
            if not delta.path:
                self._is_object = delta.value == {}
                if not self._is_object:
                    return self._read_as_plain()
            elif delta.path[0] != INPUT:
                self.has_other_members = True
            elif delta.appends:
                text += str(delta.value)
            elif self._is_found:
                self.problem = f"second member `{INPUT}`, expected one"
                return text
            elif isinstance(delta.value, str):
                self._is_found = True
                self._held.clear()
                text = delta.value
            else:
                return self._read_as_plain()
        if parser.error is not None:
            if not self._is_found:
                return self._read_as_plain()
            self.problem = str(parser.error)
        return text

    def close(self) -> str:
        """Return the rest of the text, now that the arguments have ended."""
        if self.is_plain or self.problem is not None:
            return ""
        parser = self._parser
        parser.close()
        if not parser.complete and (self._is_object or self._is_found):
            self.problem = str(parser.error)
            return self._take_held()
        if self._is_found or not (self.has_other_members or self._has_scalar):
            return ""  # an empty object, and no arguments at all, are no text
        return self._read_as_plain()

    @property
    def _has_scalar(self) -> bool:
        """Whether the arguments hold something, but no object."""
        return not self._is_object and any(map(str.strip, self._held))

    def _read_as_plain(self) -> str:
        self.is_plain = True
        return self._take_held()

    def _take_held(self) -> str:
        held = "".join(self._held)
        self._held.clear()
        return held
