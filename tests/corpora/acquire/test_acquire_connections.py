"""Connections go only to public addresses and to named hosts, however an address is written and resolved."""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

import acquire_fixtures
import httpcore
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_server import Answer, Site

from corpora.acquire.connections import Guard, NotPublic, is_public
from corpora.acquire.wanted import AcquireSettings
from corpora.errors import InputError

pytestmark = pytest.mark.server
SECRET = "hunter2"

new_hosts, server = acquire_fixtures.new_hosts, acquire_fixtures.server


class Recorder(httpcore.NetworkBackend):
    """Sockets that connect to nothing and say where to."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def connect_tcp(self, host: str, port: int, *more: Any, **options: Any) -> httpcore.NetworkStream:
        self.asked.append(host)
        return httpcore.NetworkStream()


def answering(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Names mean these addresses, one answer after another; the last for ever. Returns the names that were asked."""
    left, asked = list(answers), list[str]()

    def getaddrinfo(host: str, port: int, *more: Any, **options: Any) -> list[Any]:
        asked.append(host)
        found = left.pop(0) if len(left) > 1 else left[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (text, port)) for text in found]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return asked


PRIVATE = (
    "127.0.0.1 127.8.9.1 0.0.0.0 0.1.2.3 10.0.0.1 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 198.18.0.1 "
    "224.0.0.1 240.0.0.1 255.255.255.255 :: ::1 fe80::1 fe80::1%eth0 fc00::1 fd00:ec2::254 fec0::1 ff02::1 "
    "::ffff:10.0.0.1 "
    "::ffff:127.0.0.1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::1 2002:7f00:1:: 2002:a9fe:a9fe:: 2001:db8::1 "
    "::127.0.0.1"
)


def test_what_is_public() -> None:
    assert [text for text in PRIVATE.split() if is_public(ip_address(text))] == []
    public = "93.184.216.34 8.8.8.8 2606:4700::1111 ::ffff:8.8.8.8 64:ff9b::808:808 2002:808:808::1"
    assert [text for text in public.split() if not is_public(ip_address(text))] == []


@given(st.ip_addresses(v=4).map(IPv4Address))
def test_an_address_within_an_address_is_judged_as_itself(address: IPv4Address) -> None:
    """Fails where a way to write an IPv4 address as an IPv6 one passes what the IPv4 address does not."""
    number = int(address)
    forms = (0xFFFF << 32 | number, 0x2002 << 112 | number << 80, 0x64FF9B << 96 | number)
    assert {is_public(IPv6Address(form)) for form in forms} == {is_public(address)}


@pytest.mark.parametrize(
    "host",
    "127.0.0.1 127.1 2130706433 0x7f000001 0177.0.0.1 localhost LOCALHOST [::1] [::ffff:127.0.0.1] 0.0.0.0 [::] "
    "169.254.169.254 10.1.2.3 [fd00::1] [fe80::1]".split(),
)
def test_no_spelling_of_a_private_address_is_asked(host: str, server: Site) -> None:
    """Fails where one is connected to, or the remedy is not named."""
    port = server.server_address[1]
    with pytest.raises(InputError, match=r"no public address.*fetch\.private_hosts = |Invalid IPv4"):
        server.new_hosts(private_hosts=()).document(f"http://{host}:{port}/a")
    assert server.asked == []


def test_a_redirect_leads_to_no_private_address(server: Site) -> None:
    """Fails where only the first address of a request is looked at."""
    port = server.server_address[1]
    inside = server.serve("/inside", Answer(body=b"secret")).replace("127.0.0.1", "localhost")
    away = server.serve("/away", Answer(status=302, headers={"Location": inside}))
    hosts = server.new_hosts(private_hosts=(f"127.0.0.1:{port}",))
    with pytest.raises(InputError, match=r"localhost is (127\.0\.0\.1|::1), which is no public address"):
        hosts.document(away)
    assert [asked.path for asked in server.asked] == ["/away"]
    assert server.new_hosts(private_hosts=("127.0.0.1", "LocalHost")).document(away) == b"secret"


@pytest.mark.parametrize("scheme", ["file", "gopher", "https"])
def test_a_redirect_to_no_server_or_with_a_password_is_refused(scheme: str, server: Site) -> None:
    """Fails where a redirect is followed into the disk, or the secret of its address is shown."""
    target = f"{scheme}://me:{SECRET}@example.org/etc/passwd"
    url = server.serve("/away", Answer(status=302, headers={"Location": target}))
    with pytest.raises(InputError, match=r"the server points to .*\*\*\*@example\.org") as refused:
        server.new_hosts().document(url)
    assert SECRET not in str(refused.value)


def test_a_name_is_looked_up_once_and_that_address_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where a name that means a private address at the second look is connected to by its name."""
    asked = answering(monkeypatch, ["93.184.216.34"], ["127.0.0.1"])
    sockets = Recorder()
    guard = Guard(sockets=sockets)
    guard.connect_tcp("rebinding.example", 80)
    assert (sockets.asked, asked) == (["93.184.216.34"], ["rebinding.example"])
    with pytest.raises(NotPublic, match=r"rebinding\.example is 127\.0\.0\.1, which is no public address"):
        guard.connect_tcp("rebinding.example", 80)
    assert sockets.asked == ["93.184.216.34"]


def test_of_several_addresses_only_public_ones_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, ["10.0.0.1", "93.184.216.34", "127.0.0.1"])
    sockets = Recorder()
    Guard(sockets=sockets).connect_tcp("mixed.example", 80)
    assert sockets.asked == ["93.184.216.34"]


def test_a_proxy_is_asked_for_what_is_public_or_unknown_here(server: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where the environment's proxy is not used, or is asked for a private address."""
    for name in ("NO_PROXY", "no_proxy", "http_proxy", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", server.base)
    server.serve("http://no-such-host.invalid/a", Answer(body=b"by the proxy"))
    hosts = server.new_hosts(private_hosts=())
    assert hosts.document("http://no-such-host.invalid/a") == b"by the proxy"
    with pytest.raises(InputError, match="no public address"):
        hosts.document("http://169.254.169.254/latest/meta-data")
    assert [asked.path for asked in server.asked] == ["http://no-such-host.invalid/a"]


@pytest.mark.parametrize(
    "table",
    [
        {"catalogue": "urls", "urls": (f"https://me:{SECRET}@example.org/a",)},
        {"catalogue": "urls", "list": f"https://me:{SECRET}@example.org/list"},
        {"catalogue": "wet", "crawl": "CC-MAIN-2026-40", "mirror": f"https://me:{SECRET}@example.org"},
    ],
)
def test_a_password_in_an_address_is_refused_and_not_shown(table: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="password") as refused:
        AcquireSettings(**table)
    assert SECRET not in str(refused.value)
