"""Redaction: the secrets of an exchange are found and replaced by "x".

`redaction` collects the secrets of one exchange from where `credentials` (headers and JSON),
`authorization` (Basic and other schemes), `urls` and `bodies` (forms and other formats of a
request's body) find them.  `forms` finds known values in
bytes, `patterns` finds typical keys and tokens, `scrubbing` replaces both in a body that
arrives in chunks.
"""

from streamnorm.recording.secrets.redaction import Scrubber, Secrets

__all__ = ["Scrubber", "Secrets"]
