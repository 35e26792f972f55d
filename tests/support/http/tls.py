"""Loopback servers with certificates of a test authority."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trustme

from support.http.raw_http import RawUpstream, raw_upstream

__all__ = ["Authority"]


class Authority:
    """A certificate authority that clients do not trust by default.

    Attributes:
        file: Its certificate, in PEM.
    """

    def __init__(self, directory: Path) -> None:
        self._authority = trustme.CA()
        directory.mkdir(parents=True, exist_ok=True)
        self.file = directory / "authority.pem"
        self._authority.cert_pem.write_to_path(str(self.file))

    @contextmanager
    def upstream(self, host: str = "127.0.0.1") -> Iterator[RawUpstream]:
        """Serve over TLS with a certificate for `host`."""
        with raw_upstream(context=self.server_context(host)) as upstream:
            yield upstream

    def server_context(self, host: str = "127.0.0.1") -> ssl.SSLContext:
        """Return a server's TLS context with a certificate for `host`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._authority.issue_cert(host).configure_cert(context)
        return context
