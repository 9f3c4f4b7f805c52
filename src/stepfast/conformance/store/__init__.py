"""What the engine relies on in a store, one module for each theme."""

from __future__ import annotations

from stepfast.conformance.store.annotations import AnnotationsSuite
from stepfast.conformance.store.assets import StoreAssetsSuite
from stepfast.conformance.store.beginning import BeginningSuite
from stepfast.conformance.store.blobs import StoreBlobsSuite
from stepfast.conformance.store.borne import BorneSuite
from stepfast.conformance.store.children import ChildrenSuite
from stepfast.conformance.store.claiming import ClaimingSuite
from stepfast.conformance.store.claiming_one import ClaimingOneSuite
from stepfast.conformance.store.commands import CommandsSuite
from stepfast.conformance.store.continuing import ContinuingSuite
from stepfast.conformance.store.definitions import DefinitionsSuite
from stepfast.conformance.store.delivering import DeliveringSuite
from stepfast.conformance.store.ending import EndingSuite
from stepfast.conformance.store.exceptions import ExceptionsSuite
from stepfast.conformance.store.lacking_code import LackingCodeSuite
from stepfast.conformance.store.letters import LettersSuite
from stepfast.conformance.store.lineage import LineageSuite
from stepfast.conformance.store.lives import LivesSuite
from stepfast.conformance.store.outside import OutsideSuite
from stepfast.conformance.store.parking import ParkingSuite
from stepfast.conformance.store.pausing import PausingSuite
from stepfast.conformance.store.queues import QueuesSuite
from stepfast.conformance.store.reading import ReadingSuite
from stepfast.conformance.store.reopening import ReopeningSuite
from stepfast.conformance.store.retention import RetentionSuite
from stepfast.conformance.store.reviews import ReviewsSuite
from stepfast.conformance.store.rewriting import RewritingSuite
from stepfast.conformance.store.saving import SavingSuite
from stepfast.conformance.store.sending_again import SendingAgainSuite
from stepfast.conformance.store.sharing import SharingSuite
from stepfast.conformance.store.sinks import SinksSuite
from stepfast.conformance.store.starting import StartingSuite
from stepfast.conformance.store.suspects import SuspectsSuite
from stepfast.conformance.store.trail import TrailSuite
from stepfast.conformance.store.turns import TurnsSuite
from stepfast.conformance.store.unjoined import UnjoinedSuite
from stepfast.conformance.store.upkeep import UpkeepSuite
from stepfast.conformance.store.workers import WorkersSuite


class StoreConformance(
    StartingSuite,
    ClaimingSuite,
    ClaimingOneSuite,
    BeginningSuite,
    SavingSuite,
    SendingAgainSuite,
    ParkingSuite,
    LackingCodeSuite,
    ChildrenSuite,
    DeliveringSuite,
    EndingSuite,
    PausingSuite,
    CommandsSuite,
    ReopeningSuite,
    RewritingSuite,
    ContinuingSuite,
    LettersSuite,
    ExceptionsSuite,
    BorneSuite,
    ReviewsSuite,
    ReadingSuite,
    LivesSuite,
    AnnotationsSuite,
    QueuesSuite,
    WorkersSuite,
    TurnsSuite,
    UpkeepSuite,
    SuspectsSuite,
    UnjoinedSuite,
    OutsideSuite,
    SharingSuite,
    StoreBlobsSuite,
    StoreAssetsSuite,
    LineageSuite,
    DefinitionsSuite,
    TrailSuite,
    SinksSuite,
    RetentionSuite,
):
    """Subclass it with a fixture `make_store`: what you give to `Stepfast`, on a database that is empty in each test.

    It takes the suite's clock and makes a store; within one test it may be called again, for another store on the same
    database. A store that does not go by the clock that it is given overrides `set_clock`; one whose rows can be looked
    at may show them by `rows`, and is then held to changing none of them where nothing is to change.
    """
