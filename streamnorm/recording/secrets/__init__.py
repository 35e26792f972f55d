"""Redaction: the secrets of an exchange are found and replaced by "x".

`redaction` collects the secrets of one exchange and replaces them, also in a body that arrives
in chunks.  `credentials` finds them in headers, URLs and JSON, `patterns` finds keys and tokens of
known shapes, and known values in any form.
"""

from streamnorm.recording.secrets.redaction import Secrets

__all__ = ["Secrets"]
