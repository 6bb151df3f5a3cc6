"""Ports that are handed out are free, in a row, and not those of outgoing connections."""

import socket

from bench.system import ports
from bench.system.ports import END, HOST, LOWEST, free_ports
from support.rejections import rejects


def test_ports_are_in_a_row_and_never_the_same_twice():
    found = [free_ports(3) for _ in range(5)]
    assert all(three == list(range(three[0], three[0] + 3)) for three in found)
    everything = [port for three in found for port in three]
    assert len(set(everything)) == 15
    assert LOWEST <= min(everything) <= max(everything) < END


def test_a_port_on_which_somebody_listens_is_passed_over():
    taken = free_ports(1)[0] + 2
    with socket.create_server((HOST, taken)):
        assert taken not in free_ports(4)


def test_after_the_last_port_comes_the_first(monkeypatch):
    free_ports(1)
    monkeypatch.setattr(ports._Place, "port", END - 1)
    found = free_ports(2)
    assert LOWEST <= found[0] < END - 2


def test_where_none_is_free_the_number_is_named(monkeypatch):
    monkeypatch.setattr(ports, "_are_free", lambda ports: False)
    with rejects("count"):
        free_ports(1000)
    with rejects("count", expected="1 to 22000 ports"):
        free_ports(0)
