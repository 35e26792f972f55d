"""Names of models, and the globs that profiles and rules name them by."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate

from streamnorm._core.errors import ProfileError

__all__ = ["model_pattern", "names_model"]

# A client names the model; no name is longer.
_MAX_MODEL_CHARS = 256


def names_model(pattern: re.Pattern[str] | None, model: str) -> bool:
    """Return whether a pattern of models names a model; None names all."""
    return pattern is None or pattern.match(model[:_MAX_MODEL_CHARS].lower()) is not None


def model_pattern(globs: tuple[str, ...], where: str) -> re.Pattern[str] | None:
    """Return the pattern of globs; None if there are none.

    A glob matches the whole name, or what follows a `/` or a `.`; those with a `!` before them
    exclude what they match.

    Args:
        globs: The globs.
        where: Where they stand, for errors.

    Raises:
        ProfileError: There are exclusions alone.
    """
    if not globs:
        return None
    wanted = [glob for glob in globs if not glob.startswith("!")]
    if not wanted:
        raise ProfileError(f"{where}.model: nothing but exclusions, expected a name")
    excluded = [glob[1:] for glob in globs if glob.startswith("!")]
    # Gateways put vendors before names: `openai/gpt-5`, `us.anthropic.claude-opus-4-5`.
    start = r"(?:.*[/.])?"
    refusal = f"(?!{start}(?:{_any_of(excluded)}))" if excluded else ""
    return re.compile(f"{refusal}{start}(?:{_any_of(wanted)})")


def _any_of(globs: Iterable[str]) -> str:
    return "|".join(translate(glob.lower()) for glob in globs)
