"""References within a schema."""

from __future__ import annotations

from typing import Any

from streamnorm._core.errors import EncodeError

__all__ = ["References"]


class References:
    """The references of one schema, all of which lead to a part of it.

    Args:
        schema: The schema.
        path: The tool that it belongs to, for errors.

    Raises:
        EncodeError: The library that reads them is missing.
    """

    def __init__(self, schema: dict[str, Any], path: str) -> None:
        try:
            from referencing import Registry
            from referencing.jsonschema import DRAFT202012
        except ImportError as exc:
            raise EncodeError(
                "a $ref to be inlined without referencing, expected the extra streamnorm[schemas]",
                path=path,
            ) from exc
        self._path = path
        resource = DRAFT202012.create_resource(schema)
        self._registry = Registry[Any]().with_resource("", resource)
        self._is_crawled = False

    def resolved(self, reference: object, resolver: Any) -> tuple[Any, Any]:
        """Return the schema that a reference leads to, and the resolver of its references.

        Args:
            reference: The value of `$ref`.
            resolver: Resolver of the schema with the reference; None for the root's.

        Raises:
            EncodeError: It leads nowhere.
        """
        from referencing.exceptions import Unresolvable

        try:
            if not isinstance(reference, str):
                raise TypeError
            if not (reference == "#" or reference.startswith("#/") or self._is_crawled):
                self._registry, self._is_crawled = self._registry.crawl(), True
            found = (resolver or self._registry.resolver()).lookup(reference)
        # The library takes for granted that `$id` is text, and the like.
        except (Unresolvable, AttributeError, LookupError, TypeError, ValueError) as exc:
            raise EncodeError(
                "a $ref that leads nowhere, expected one within the schema", path=self._path
            ) from exc
        return found.contents, found.resolver
