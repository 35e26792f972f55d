"""Load balancers in front of gateways, as processes."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
from asyncio.subprocess import create_subprocess_exec
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

__all__ = ["BALANCERS", "balancer", "find_balancer"]

# In both: one gateway after the other, no buffering of answers, and no time-out that is shorter
# than a stream may be silent.  A header says who answered.
_HAPROXY = """
defaults
    mode http
    timeout connect 2s
    timeout client 1h
    timeout server 1h
    retry-on conn-failure
    option redispatch 1

listen gateways
    bind 127.0.0.1:{port}
    balance roundrobin
    http-response set-header x-answered-by %s
{servers}
"""
_NGINX = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream gateways {{
{servers}
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://gateways;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_buffering off;
            proxy_connect_timeout 2s;
            proxy_read_timeout 1h;
            client_max_body_size 64m;
            add_header x-answered-by $upstream_addr;
        }}
    }}
}}
"""
BALANCERS = ("haproxy", "nginx")


def find_balancer(name: str) -> str:
    """Return a load balancer's command; skip the test if it is not installed."""
    # Debian has them where users other than root do not look.
    command = shutil.which(name, path=os.pathsep.join([os.environ["PATH"], "/usr/sbin"]))
    if command is None:
        pytest.skip(f"{name} is not installed")
    return command


@asynccontextmanager
async def balancer(command: str, urls: Sequence[str], folder: Path) -> AsyncIterator[str]:
    """Run a load balancer in front of servers; yield its URL.

    Args:
        command: One of `BALANCERS`, as `find_balancer` found it.
        urls: URLs of the servers.
        folder: Where to write its configuration.
    """
    name = Path(command).name
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    hosts = [urlsplit(url).netloc for url in urls]
    config = folder / f"{name}.conf"
    if name == "haproxy":
        servers = [f"    server {host} {host} check inter 200ms" for host in hosts]
        text = _HAPROXY.format(port=port, servers="\n".join(servers))
        arguments = ["-f", str(config)]
    else:
        servers = [f"        server {host};" for host in hosts]
        text = _NGINX.format(port=port, servers="\n".join(servers), folder=folder)
        arguments = ["-c", str(config), "-p", str(folder)]
    config.write_text(text)
    process = await create_subprocess_exec(command, *arguments, start_new_session=True)
    try:
        await _wait(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _wait(port: int) -> None:
    """Wait until a server accepts connections."""
    async with asyncio.timeout(30):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return
