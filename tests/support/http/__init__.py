"""HTTP clients and servers for tests, with and without sockets."""
