"""The codes of what is found wrong with a trail: published, so none is ever another's."""

from __future__ import annotations

from stepfast.kernel.auditing import CODES, AuditFinding, Fault

PUBLISHED = {
    "E-AUD-001": "changed",
    "E-AUD-002": "removed",
    "E-AUD-003": "inserted",
    "E-AUD-004": "seal_removed",
    "E-AUD-005": "seal_changed",
    "E-AUD-006": "seal_unsigned",
    "E-AUD-007": "seal_unknown_key",
    "E-AUD-008": "copy_missing",
    "E-AUD-009": "copy_differs",
    "E-AUD-010": "pruned_unproven",
    "E-AUD-011": "pruned_partly",
}


def test_the_codes_are_those_that_were_published():
    assert {code: fault.value for fault, code in CODES.items()} == PUBLISHED


def test_everything_that_can_be_wrong_has_a_code():
    assert [fault for fault in Fault if not AuditFinding(fault, None, None, "").code] == []
