"""What the answer to a translated request needs on its way back."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

__all__ = ["Reply", "ToolName"]


class ToolName(NamedTuple):
    """A tool as the client named it.

    Attributes:
        name: Its name.
        namespace: Its namespace; None if it has none.
        is_custom: Whether it takes free text.
    """

    name: str
    namespace: str | None = None
    is_custom: bool = False


class Reply(Struct, frozen=True, omit_defaults=True):
    """How calls in the answer are given their original names and kinds.

    Attributes:
        tools: The client's tools whose name or kind was changed, by the name that the
            provider was given.
    """

    tools: dict[str, ToolName] = {}
