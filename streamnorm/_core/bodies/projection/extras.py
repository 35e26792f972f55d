"""Fields of one dialect that have no place in another."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import Struct, structs

from streamnorm._core.losses import Losses

__all__ = ["project_extra"]

P = TypeVar("P", bound=Struct)


def project_extra(part: P, dialect: str, losses: Losses, where: str) -> P:
    """Return a part without the extra fields of other dialects; each is a loss of its name.

    Args:
        part: A request, or a part of one, with a field `extra`.
        dialect: The target.
        losses: Counts the fields; a null is none.
        where: Where the part stands.
    """
    extra: dict[str, dict[str, Any]] | None = getattr(part, "extra")  # noqa: B009 - of any struct
    if not extra or (len(extra) == 1 and dialect in extra):
        return part
    for other, fields in extra.items():
        if other != dialect:
            for name, value in fields.items():
                if value is not None:
                    losses.add(name, where, "dropped")
    return structs.replace(part, extra={dialect: extra[dialect]} if dialect in extra else None)
