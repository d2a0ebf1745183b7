"""Connections: to public addresses alone, unless a host is named as one of our own.

A list of addresses, a publisher's catalogue or a redirect could make this machine ask what trusts it: a service on its
loopback, a router, the metadata of a cloud (169.254.169.254). Promises: a name is looked up once, and the connection
goes to an address that was looked at, so that a name which means another one the next moment gains nothing; every
spelling of an address (decimal, octal, IPv6 with an IPv4 address in it) is judged by what it means.

A proxy of the environment is used as it is. It looks up itself what it connects to: a host is judged before by what
its name means here, and where it means nothing here, the proxy decides.
"""

import socket
import ssl
import urllib.request
from collections.abc import Collection, Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any

import httpcore
import httpx

_NAT64 = IPv6Network("64:ff9b::/96")
_PORTS = {"http": 80, "https": 443}
_KEPT = 32  # connections that wait for another request

Address = IPv4Address | IPv6Address


class NotPublic(Exception):
    """A host is at an address that is not public. Its text says which."""


class Transport(httpx.BaseTransport):
    """Sends requests. Safe to use from many threads. Raises NotPublic and httpx's TransportErrors.

    private_hosts: those that may be asked wherever they are, as in `mirror.lan` or `10.0.0.7:8080`
    """

    def __init__(self, certificates: ssl.SSLContext, private_hosts: Collection[str] = ()) -> None:
        self._certificates = certificates
        self._guard = Guard(private_hosts)
        self._direct = _Direct(certificates, self._guard)
        self._proxied: dict[str, httpx.HTTPTransport] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, by the proxy that the environment names for it if there is one."""
        proxy = proxy_of(request.url.scheme, request.url.host)
        if proxy is None:
            return self._direct.handle_request(request)
        self._guard.look(request.url.host, request.url.port or _PORTS[request.url.scheme])
        transport = self._proxied.get(proxy)
        if transport is None:
            transport = self._proxied.setdefault(proxy, httpx.HTTPTransport(verify=self._certificates, proxy=proxy))
        return transport.handle_request(request)

    def close(self) -> None:
        """Close all connections."""
        for transport in (self._direct, *self._proxied.values()):
            transport.close()


class _Direct(httpx.HTTPTransport):
    """Connections of our own, each made by the guard."""

    def __init__(self, certificates: ssl.SSLContext, guard: "Guard") -> None:
        super().__init__(verify=certificates)
        self._pool = httpcore.ConnectionPool(
            ssl_context=certificates, max_connections=None, max_keepalive_connections=_KEPT, network_backend=guard
        )


class Guard(httpcore.NetworkBackend):
    """Connects to public addresses, and to those hosts that are named."""

    def __init__(self, private_hosts: Collection[str] = (), sockets: httpcore.NetworkBackend | None = None) -> None:
        self._named = frozenset(host.lower() for host in private_hosts)
        self._sockets = sockets or httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """A connection to the first address of a host that takes one. Raises NotPublic."""
        if self._is_named(host, port):
            return self._sockets.connect_tcp(host, port, timeout, local_address, socket_options)
        fault: Exception | None = None
        for address in self._public(host, port):
            try:
                return self._sockets.connect_tcp(str(address), port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                fault = error
        raise fault or httpcore.ConnectError(f"{host} has no address")

    def look(self, host: str, port: int) -> None:
        """Raise NotPublic where a host that somebody else connects to is at an address here that is not public."""
        try:
            if not self._is_named(host, port):
                self._public(host, port)
        except httpcore.ConnectError:
            return  # its name means nothing here

    def _is_named(self, host: str, port: int) -> bool:
        name = host.lower().rstrip(".")
        return name in self._named or f"{name}:{port}" in self._named

    def _public(self, host: str, port: int) -> list[Address]:
        """The public addresses of a host. Raises NotPublic where it has others alone."""
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            raise httpcore.ConnectError(str(error)) from error
        addresses = [ip_address(entry[4][0]) for entry in entries]
        public = [address for address in addresses if is_public(address)]
        if addresses and not public:
            also = "" if host == str(addresses[0]) else f" is {addresses[0]}, which"
            raise NotPublic(f"{host}{also} is no public address")
        return public


def is_public(address: Address) -> bool:
    """True if an address is of the public internet; one with an IPv4 address in it is judged by that.

    >>> [is_public(ip_address(text)) for text in ("93.184.216.34", "10.0.0.1", "::ffff:127.0.0.1", "2606:4700::1111")]
    [True, False, False, True]
    """
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address.is_site_local:
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def proxy_of(scheme: str, host: str) -> str | None:
    """The proxy that the environment names for a host (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY); None for none."""
    proxies = urllib.request.getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or urllib.request.proxy_bypass(host):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"
