"""Address slots: clusters stand side by side, and none takes what the host routes already."""

import ipaddress
import itertools

import pytest
from devcluster.errors import ClusterError
from devcluster.settings import SLOTS, Ranges, free_ranges


def test_no_network_of_a_slot_touches_one_of_another() -> None:
    networks = [
        ipaddress.ip_network(text)
        for slot in SLOTS
        for text in (Ranges(slot).link, Ranges(slot).pods, Ranges(slot).services)
    ]

    assert not any(one.overlaps(other) for one, other in itertools.combinations(networks, 2))


def test_an_unused_host_gets_the_documented_addresses() -> None:
    ranges = free_ranges(["192.0.2.0/24"])

    assert (ranges.host, ranges.node) == ("10.99.0.1", "10.99.0.2")
    assert (ranges.pods, ranges.services) == ("10.244.0.0/16", "10.96.0.0/16")


@pytest.mark.parametrize("taken", ["10.244.7.0/24", "10.96.128.0/17", "10.99.0.0/30"])
def test_a_slot_whose_networks_the_host_routes_is_passed_over(taken: str) -> None:
    assert free_ranges([taken]).slot == 1


def test_a_host_that_routes_all_of_ten_is_refused_with_a_way_out() -> None:
    with pytest.raises(ClusterError, match="SPECFLEET_KUBECONFIG"):
        free_ranges(["10.0.0.0/8"])
