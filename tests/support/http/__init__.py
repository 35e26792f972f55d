"""Clients and servers of HTTP, on sockets and without."""
