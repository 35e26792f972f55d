"""Items of compacted conversations: sealed, forged and foreign."""

from __future__ import annotations

from typing import Any

from streamnorm.state.compaction import Sealer

__all__ = ["FORGED", "KEY", "TRIGGER", "sealed"]

KEY = b"a-key-of-32-bytes-or-more-for-tests"
TRIGGER = {"type": "compaction_trigger"}


def sealed(text: str, key: bytes = KEY) -> dict[str, Any]:
    """Return the compaction item with a sealed summary."""
    return {"type": "compaction", "id": "cmp_1", "encrypted_content": Sealer([key]).seal(text)}


_GENUINE: str = sealed("It snows.")["encrypted_content"]
_HEAD, _TAG, _PAYLOAD = _GENUINE.rsplit(".", 2)
FORGED = {
    "of the vendor": "gAAAAABpM0Yj-aGVsbG8=",
    "plain text": "It snows.",
    "empty": "",
    "prefix alone": "sn1.compaction.",
    "tag of another kind": "sn1.reasoning.x.y.z",
    "cut": _GENUINE[:-1],
    "without its text": f"{_HEAD}.{_TAG}.",
    "without its tag": f"{_HEAD}..{_PAYLOAD}",
    "another text": f"{_HEAD}.{_TAG}.{'A' * len(_PAYLOAD)}",
    "padded": f"{_GENUINE}=",
    "another key": sealed("It snows.", b"another key")["encrypted_content"],
    "no ASCII": f"{_GENUINE}é",
}
"""Contents of items that were not sealed with `KEY`."""
