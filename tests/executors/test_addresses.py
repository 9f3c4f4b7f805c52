"""Which addresses `http.call` may call."""

from __future__ import annotations

import pytest

from stepfast.workflows.executors.allowed import Allowed
from stepfast.workflows.executors.builtin.addresses import may_be_called

PRIVATE = [
    "127.0.0.1",
    "127.8.9.10",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1",
    "fe80::1%lo",
    "fc00::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "2002:7f00:1::",
    "64:ff9b::7f00:1",
    "64:ff9b:1::808:808",
    "2001:0:7f00:1::",
]
PUBLIC = ["8.8.8.8", "93.184.215.14", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_for_everybody_is_not_called(address):
    assert not may_be_called(address, Allowed())


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_may_be_called(address):
    assert may_be_called(address, Allowed())


@pytest.mark.parametrize("address", PRIVATE)
def test_an_operator_may_allow_all(address):
    assert may_be_called(address, Allowed(networks=("*",)))


@pytest.mark.parametrize(
    ("address", "expected"),
    [("10.1.2.3", True), ("::ffff:10.1.2.3", True), ("10.2.0.1", False), ("::1", True), ("::2", False)],
)
def test_an_operator_may_allow_networks_and_single_addresses(address, expected):
    assert may_be_called(address, Allowed(networks=("10.1.0.0/16", "::1"))) is expected
