"""Validation of a tool call's arguments against the schema of the tool."""

from __future__ import annotations

from importlib import import_module
from itertools import islice
from typing import Any

_MAX_ERRORS = 100


class ArgumentsChecker:
    """Validate arguments with jsonschema (extra `schemas`).

    References within the schema are resolved; nothing is fetched.  A malicious schema can make
    validation take forever, for example with a regular expression: use only schemas of authors
    whose code you would run.

    Args:
        schema: JSON Schema of the arguments.

    Raises:
        ImportError: jsonschema is missing.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        try:
            jsonschema: Any = import_module("jsonschema")
            referencing: Any = import_module("referencing")
        except ImportError as exc:
            raise ImportError(
                "no jsonschema, expected the extra `schemas`: pip install '.[schemas]' in a clone"
            ) from exc
        self._schema = schema
        self._jsonschema = jsonschema
        # Without a registry jsonschema fetches the URLs in a schema.
        self._registry = referencing.Registry()
        self._validator: Any = None

    def problem(self, arguments: dict[str, object]) -> str | None:
        """Return the path and text of the most relevant problem; None if there is none.

        Raises:
            Exception: The schema is invalid; jsonschema raises exceptions of several types.
        """
        if self._validator is None:
            default = self._jsonschema.Draft202012Validator
            kind = self._jsonschema.validators.validator_for(self._schema, default=default)
            self._validator = kind(self._schema, registry=self._registry)
        errors = self._validator.iter_errors(arguments)
        error = self._jsonschema.exceptions.best_match(islice(errors, _MAX_ERRORS))
        return None if error is None else f"{error.json_path}: {error.message}"
