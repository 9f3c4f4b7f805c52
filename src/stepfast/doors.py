"""The doors of an app, each made when it is first used: most processes go through few of them, and import no more."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from stepfast.base import AppBase

if TYPE_CHECKING:
    from stepfast.annotations import Annotations
    from stepfast.assets import Assets
    from stepfast.audit import Audit
    from stepfast.callbacks import Callbacks
    from stepfast.exceptions import Exceptions
    from stepfast.letters import DeadLetters
    from stepfast.library import Workflows
    from stepfast.outbox import Sinks
    from stepfast.queues import Queues
    from stepfast.retention import Retention
    from stepfast.reviews import Reviews
    from stepfast.transformations import Transformations


class Doors(AppBase):
    """What an app offers beside starting and finding runs."""

    @cached_property
    def annotations(self) -> Annotations:
        """Facts that were noted on runs and steps."""
        from stepfast.annotations import Annotations

        return Annotations(self)

    @cached_property
    def assets(self) -> Assets:
        """What steps read and write, and where it came from."""
        from stepfast.assets import Assets

        return Assets(self)

    @cached_property
    def audit(self) -> Audit:
        """The trail of all runs: sealing it, and proving it."""
        from stepfast.audit import Audit

        return Audit(self)

    @cached_property
    def callbacks(self) -> Callbacks:
        """Word from outside about work that goes on there."""
        from stepfast.callbacks import Callbacks

        return Callbacks(self)

    @cached_property
    def dead_letters(self) -> DeadLetters:
        """Runs out of attempts that no other run awaits."""
        from stepfast.letters import DeadLetters

        return DeadLetters(self)

    @cached_property
    def exceptions(self) -> Exceptions:
        """What a person should look at."""
        from stepfast.exceptions import Exceptions

        return Exceptions(self)

    @cached_property
    def queues(self) -> Queues:
        """How many runs stand in which line."""
        from stepfast.queues import Queues

        return Queues(self)

    @cached_property
    def retention(self) -> Retention:
        """How long runs are kept."""
        from stepfast.retention import Retention

        return Retention(self)

    @cached_property
    def reviews(self) -> Reviews:
        """What people are asked, and what they answer."""
        from stepfast.reviews import Reviews

        return Reviews(self)

    @cached_property
    def sinks(self) -> Sinks:
        """Where events go."""
        from stepfast.outbox import Sinks

        return Sinks(self)

    @cached_property
    def transformations(self) -> Transformations:
        """Assets that were made of assets."""
        from stepfast.transformations import Transformations

        return Transformations(self)

    @cached_property
    def workflows(self) -> Workflows:
        """What is registered."""
        from stepfast.library import Workflows

        return Workflows(self)
