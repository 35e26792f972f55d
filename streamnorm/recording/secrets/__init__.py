"""The secrets of an exchange: where they stand, what they look like, and how they are replaced.

`learning` knows those of one exchange, `credentials` where they stand in a request,
`forms` and `shapes` find them in bytes, `scrubbing` replaces them in a body that comes in
pieces.
"""

from streamnorm.recording.secrets.learning import Secrets
from streamnorm.recording.secrets.scrubbing import Scrubber

__all__ = ["Scrubber", "Secrets"]
