"""Google's Interactions API, which is only read: what is written is `generateContent`."""

from __future__ import annotations

from streamnorm.dialects.gemini.interactions.decode import Interactions
from streamnorm.dialects.gemini.interactions.wire import speaks

__all__ = ["Interactions", "speaks"]
