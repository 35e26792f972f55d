"""Client connections after an upgrade to WebSocket."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from streamnorm.cli.server import Connection


class WebSocketConnection(WebSocketsSansIOProtocol):
    """A WebSocket that the application, not the server, closes at shutdown.

    Args:
        connection: The connection as that of HTTP requests, which it was before.
        settings: Arguments of uvicorn's protocol.
    """

    def __init__(self, connection: Connection, **settings: Any) -> None:
        super().__init__(**settings)
        self._connection = connection
        connection.upgrade()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove this connection from the server's open connections."""
        super().connection_lost(exc)
        self._connection.leave()

    def shutdown(self) -> None:
        """Leave closing to the application, so that answers can end.

        uvicorn would close the connection with code 1012, in the middle of an answer.
        """
        if self.close_sent or not self.handshake_complete:
            super().shutdown()
