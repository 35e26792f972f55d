"""Tables of what providers refuse in requests, rendered from the request rules."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import partial

from streamnorm.profiles import VENDOR
from streamnorm.profiles.rules import RequestRule, shipped_rules

DIALECTS = (
    *("anthropic", "openai_chat", "openai_responses"),
    *("gemini", "gemini_interactions", "bedrock_converse"),
)

# Second names of servers, which are shown where the first is not.
ALIASES = {"githubcopilot": "copilot", "llama.cpp": "llamacpp", "moonshot": "kimi", "zai": "glm"}

_PLACEHOLDER = re.compile(r"(?<!\{)\{(?:[a-z]+)\}")
_MARKUP = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "*": r"\*", "|": r"\|"}


def rule_rows(dialect: str) -> Iterator[list[str]]:
    """Yield a dialect's rules: the vendor's first, then those of each server."""
    rules = [rule for rule in shipped_rules() if rule.dialect == dialect]
    for rule in sorted(rules, key=lambda rule: VENDOR not in rule.servers):
        yield [
            f"{_text(rule.summary)}<br>`{rule.id}`",
            _holders(rule),
            _answer(rule),
            _text(", ".join(rule.evidence)),
        ]


def _holders(rule: RequestRule) -> str:
    """Return the servers, models and dates that a rule applies to."""
    named = {name for name in rule.servers if ALIASES.get(name) not in rule.servers}
    names = sorted(named, key=lambda name: (name != VENDOR, name))
    servers = ["every server" if name == "*" else _code(name, VENDOR) for name in names]
    holders = [", ".join(servers)]
    if rule.model_globs:
        holders.append(", ".join(f"`{glob}`" for glob in rule.model_globs))
    if rule.since:
        holders.append(f"since {rule.since}")
    if rule.until:
        holders.append(f"until {rule.until}")
    return "; ".join(holders)


def _code(name: str, plain: str) -> str:
    return name if name == plain else f"`{name}`"


def _answer(rule: RequestRule) -> str:
    """Return the provider's error text, with `…` for variable parts."""
    answer = _PLACEHOLDER.sub("…", rule.says).replace("{{", "{").replace("}}", "}")
    answer = " ".join(answer.split())  # a row of a table is one line
    status = "" if rule.status == 400 else f"{rule.status}: "
    return f"{status}{_text(answer)}" + ("" if rule.verbatim else " (our wording)")


def _text(text: str) -> str:
    """Return text with Markdown escaped outside code."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(
        piece.replace("|", r"\|") if piece.startswith("`") else _escaped(piece) for piece in pieces
    )


def _escaped(text: str) -> str:
    return "".join(_MARKUP.get(character, character) for character in text)


def count_rows() -> Iterator[list[str]]:
    """Yield the number of rules of each server, vendors first."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for rule in shipped_rules():
        for server in {ALIASES.get(name, name) for name in rule.servers}:
            found[server].append(rule.dialect)
    for server in sorted(found, key=lambda name: (name != VENDOR, name)):
        name = "every server" if server == "*" else _code(server, VENDOR)
        counts = [str(found[server].count(dialect) or "") for dialect in DIALECTS]
        yield [name, *counts]


_HEAD = ["what is demanded, and the rule", "of whom", "what the provider answers", "seen in"]

TABLES = {
    "rule_counts": (
        ["rules of", "Anthropic", "Chat", "Responses", "Gemini", "Interactions", "Converse"],
        count_rows,
    ),
    **{f"rules_{dialect}": (_HEAD, partial(rule_rows, dialect)) for dialect in DIALECTS},
}
"""The heads of the tables of rules, and the functions that return their rows."""
