"""What one party spent on several runs."""

import msgspec

from dpmpc.parties.network.meter import PhaseCost, RunStatistics, together
from dpmpc.parties.network.sockets import ByteCount, Traffic


def statistics(rss, kernel=True):
    count = ByteCount(3, 4)
    return RunStatistics(
        server=1,
        setup_s=0.5,
        setup_bytes_sent=10,
        phases={"read": PhaseCost(1.0, 0.5, 7)},
        total_s=2.0,
        cpu_s=1.5,
        bytes_sent=100,
        bytes_received=200,
        payload_sent=50,
        payload_received=60,
        peers={2: Traffic(count, count, count if kernel else None)},
        tcp_info=count if kernel else None,
        peak_rss_mb=rss,
    )


def test_runs_add_up_and_memory_does_not():
    second = msgspec.structs.replace(statistics(30.0), phases={"open": PhaseCost(2.0, 1.0, 1)}, peers={})
    found = together([statistics(20.0), second, statistics(10.0)])
    assert found.phases == {"read": PhaseCost(2.0, 1.0, 14), "open": PhaseCost(2.0, 1.0, 1)}
    assert (found.server, found.total_s, found.bytes_sent, found.payload_received) == (1, 6.0, 300, 180)
    assert found.peers == {2: Traffic(ByteCount(6, 8), ByteCount(6, 8), ByteCount(6, 8))}
    assert found.tcp_info == ByteCount(9, 12)
    assert found.peak_rss_mb == 30.0


def test_what_the_kernel_did_not_count_is_not_added():
    found = together([statistics(1.0), statistics(1.0, kernel=False)])
    assert found.tcp_info is None
    assert found.peers[2].kernel is None
    assert found.peers[2].socket == ByteCount(6, 8)
