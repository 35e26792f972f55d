"""What the answer to a translated request needs on its way back."""

from __future__ import annotations

from typing import Any, NamedTuple

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
    """What of the answer is written as the client knows it, and not as the provider sent it.

    Attributes:
        tools: The client's tools whose name or kind was changed, by the name that the
            provider was given.
        response: Fields of the response object, such as `id`, `store` and those that repeat
            the request, in place of the provider's; only dialects whose responses echo the
            request have such fields.
    """

    tools: dict[str, ToolName] = {}
    response: dict[str, Any] = {}
