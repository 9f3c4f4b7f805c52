"""The errors of executors: one that is not known, and those of the programs, addresses and modules that ours reach."""

from __future__ import annotations

from stepfast.kernel.errors import Invalid, InvalidDefinition, StepfastError


class NoExecutor(InvalidDefinition):
    """A step of a definition uses an executor that is not known where it is checked: one of its faults, not raised."""

    code = "E-STEP-004"


class CommandFailed(StepfastError):
    """A program that an executor ran could not be started, or did not end well."""

    code = "E-EXE-002"


class NotAllowed(Invalid):
    """A program, a variable, an address or a module that the settings do not let executors use."""

    code = "E-EXE-003"


class HttpFailed(StepfastError):
    """A server could not be reached, or could not answer now; it may later."""

    code = "E-EXE-004"

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class HttpRefused(HttpFailed, Invalid):
    """A server refuses a request, or answers what cannot be used; the same request would meet the same answer."""

    code = "E-EXE-005"
