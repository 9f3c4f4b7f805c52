"""Reviews at the door: listed, looked at, answered by whom the application knows or by whoever holds a token."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from stepfast.base import AppBase
from stepfast.control import asked, changed_or_raise
from stepfast.filters import figures_filter, page_size, review_filter, review_place
from stepfast.kernel.commands import Changed
from stepfast.kernel.durations import Duration, Instant, span_ms
from stepfast.kernel.errors import Invalid, NotFound, TokenWrong
from stepfast.kernel.events import EventType
from stepfast.kernel.judging import no_review, wrong_token
from stepfast.kernel.numbers import check_share, check_whole
from stepfast.kernel.review_views import EndlessReview, ReviewFigures, ReviewView, WholeReview
from stepfast.kernel.reviews import (
    Assign,
    Comment,
    Decide,
    IssueToken,
    Owner,
    ReviewCommand,
    ReviewId,
    TokenUse,
    Verdict,
    parse_review_id,
)
from stepfast.kernel.texts import MAX_NOTE, check_optional_text, check_text
from stepfast.log import Log
from stepfast.parts import Parts
from stepfast.shapes import misfit_of
from stepfast.tokens import Secret, new_token, shown_token
from stepfast.workflows.given import text_given

log = Log("reviews")

Views = list[ReviewView]
Endless = list[EndlessReview]

DAY_MS = 24 * 3_600_000
DEFAULT_TARGET = 0.9
MAX_TOKEN_MS = 10 * 366 * DAY_MS
NO_HASH = "unknown"
"""What stands for the hash of a token whose key is not known; no hash is spelled so."""


class Answer(NamedTuple):
    """What somebody answered; `value` is the correction, if it was one."""

    actor: str | None
    verdict: Verdict
    value: Any
    note: str | None
    at: Instant


class ReviewComment(NamedTuple):
    """What somebody said without answering."""

    actor: str | None
    text: str
    at: Instant


class TokenInfo(NamedTuple):
    """A token that was issued for a review: whose it is, how long it works, and when it did."""

    actor: str
    issued_at: Instant
    expires_at: Instant
    used_at: Instant | None


@dataclass(frozen=True, slots=True)
class Review(ReviewView):
    """A review whole: what is shown, the JSON Schema that corrections must fit, and what people have said so far."""

    shown: Any
    schema: Any
    answers: tuple[Answer, ...]
    comments: tuple[ReviewComment, ...]
    tokens: tuple[TokenInfo, ...]


class ReviewStats(NamedTuple):
    """What became of reviews, and whether people decide as quickly as they should."""

    opened: int
    decided: int
    expired: int
    withdrawn: int
    open: int
    escalated: int
    waited_p50_ms: int | None
    """How long those that people decided had waited; None: nobody has decided any."""
    waited_p95_ms: int | None
    in_time_share: float | None
    """Of those that have an end or are older than a day, the share that people decided within a day; None: of none."""
    target: float
    is_met: bool
    """Whether the share is what it should be; where there is nothing to judge, nothing is missed."""
    refusals: dict[str, int]
    """How often a token was refused, by the code of the error."""


def stats_of(figures: ReviewFigures, target: float) -> ReviewStats:
    """The figures, held against a target."""
    *counted, due, in_time, refusals = figures
    share = in_time / due if due else None
    return ReviewStats._make([*counted, share, target, share is None or share >= target, refusals])


class Reviews:
    """The reviews on an app's store. A tenant, where one is given, reaches its own reviews only."""

    def __init__(self, app: AppBase) -> None:
        self._app = app

    async def list(
        self,
        *,
        tenant: str | None = None,
        workflow: str | None = None,
        state: str | None = "open",
        role: str | None = None,
        assignee: str | None = None,
        run_id: str | None = None,
        opened_after: int | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Views:
        """A page of reviews, newest run first; the id of the last one is the cursor of the next page.

        Those that are open, unless `state` says otherwise; None: in every state.
        """
        where = review_filter(tenant, workflow, state, role, assignee, run_id, opened_after)
        return await self._parts.store.reviews(where._replace(before=review_place(cursor), limit=page_size(limit)))

    async def get(self, review_id: str, *, tenant: str | None = None) -> Review:
        """A review whole."""
        whole = await self._whole(parse_review_id(review_id), check_optional_text("tenant", tenant))
        view = whole.view
        texts = [whole.shown, *(said.value for said in whole.said)]
        shown, *values = await self._parts.values.resolve(view.tenant, view.run_id, texts)
        said = [(each, value) for each, value in zip(whole.said, values, strict=True)]
        facts: dict[str, Any] = {field.name: getattr(view, field.name) for field in fields(view)}
        return Review(
            **facts,
            shown=_decoded(shown),
            schema=_decoded(whole.schema),
            answers=tuple(
                Answer(each.actor, each.verdict, _decoded(value), each.note, each.at)
                for each, value in said
                if each.verdict is not None
            ),
            comments=tuple(
                ReviewComment(each.actor, each.note or "", each.at) for each in whole.said if each.verdict is None
            ),
            tokens=tuple(
                TokenInfo(token.actor, token.issued_at, token.expires_at, token.used_at) for token in whole.tokens
            ),
        )

    async def decide(
        self,
        review_id: str,
        verdict: str,
        value: Any = None,
        note: str | None = None,
        *,
        actor: str | None = None,
        role: str | None = None,
        to: str | None = None,
        to_role: str | None = None,
        digest: str | None = None,
        tenant: str | None = None,
        key: str | None = None,
        reason: str | None = None,
    ) -> Changed:
        """Answer a review as somebody whom the application knows: `actor`, and the role that this person has.

        A review with an assignee takes answers of that person only, one for a role those of its members. `value` goes
        with the verdict `correct`, `to` and `to_role` with `escalate`. With the `digest` of what the person has seen an
        answer to something else is refused.
        """
        where, whose = parse_review_id(review_id), check_optional_text("tenant", tenant)
        spoken = Spoken.checked(verdict, value, note, to, to_role)
        role, digest = check_optional_text("role", role), check_optional_text("digest", digest)
        whole = None if spoken.value is None else await self._whole(where, whose)
        command = await self._decide(where, spoken, whole)
        return await self._change(where, whose, replace(command, role=role, digest=digest), key, reason, actor)

    async def issue_token(
        self, review_id: str, *, actor: str, expires: Duration | None = None, tenant: str | None = None
    ) -> str:
        """A token by which one person, `actor`, can answer this review once; it is shown here and never again.

        It works for RESUME_TOKEN_TTL_HOURS, or as long as `expires` says, and no longer than the review is open.
        """
        where, whose = parse_review_id(review_id), check_optional_text("tenant", tenant)
        bearer = check_text("actor", actor)
        ttl_ms = self._app.token_ttl_ms if expires is None else _checked_ttl(expires)
        keys = self._app.token_keys.for_new()
        text, hash_ = new_token(where, keys[0])
        token = Secret(text)
        # It may be good though the store cannot say so, and a traceback with variables must not hold it.
        del text
        await self._change(where, whose, IssueToken(where.wait_id, hash_, bearer, ttl_ms), None, None, None)
        return token.revealed()

    async def resume(
        self,
        token: str | Secret,
        verdict: str,
        value: Any = None,
        note: str | None = None,
        *,
        actor: str | None = None,
        to: str | None = None,
        to_role: str | None = None,
        tenant: str | None = None,
        subject: str | None = None,
        key: str | None = None,
    ) -> Changed:
        """Answer a review by its token, which is all that is needed; what else is given must be what it is for.

        A token that is wrong, expired, used, or somebody else's changes nothing, and the attempt is in the history.
        """
        shown = shown_token(token)
        # A traceback with the variables of its frames must not hold it.
        del token
        spoken = Spoken.checked(verdict, value, note, to, to_role)
        actor, subject = check_optional_text("actor", actor), check_optional_text("subject", subject)
        whose = check_optional_text("tenant", tenant)
        keys = self._app.token_keys.for_old()
        if shown is None:
            raise await self._lost(whose, actor)
        where, use = shown.review_id, TokenUse(keys.hash_of(shown) or NO_HASH, subject, whose)
        whole = None if spoken.value is None else await self._parts.store.review(None, where)
        # Whoever shows no token that was issued must not fill the blob store.
        is_issued = whole is not None and use.hash in [token.hash for token in whole.tokens]
        command = await self._decide(where, spoken, whole if is_issued else None)
        try:
            return await self._change(where, None, replace(command, token=use), key, None, actor)
        except NotFound:
            raise await self._lost(whose, actor) from None

    async def delegate(
        self,
        review_id: str,
        to: str,
        *,
        actor: str,
        role: str | None = None,
        tenant: str | None = None,
        key: str | None = None,
        reason: str | None = None,
    ) -> Changed:
        """Whoever is asked has somebody else answer: `actor` is the assignee, or one of the role that is asked."""
        where, owner = parse_review_id(review_id), Owner(check_text("to", to))
        command = Assign(where.wait_id, owner, True, check_optional_text("role", role))
        whose = check_optional_text("tenant", tenant)
        return await self._change(where, whose, command, key, reason, check_text("actor", actor))

    async def reassign(
        self,
        review_id: str,
        assignee: str | None = None,
        role: str | None = None,
        *,
        actor: str | None = None,
        tenant: str | None = None,
        key: str | None = None,
        reason: str | None = None,
    ) -> Changed:
        """Ask another person or role, whoever was asked before."""
        owner = Owner(check_optional_text("assignee", assignee), check_optional_text("role", role))
        if owner == Owner():
            raise Invalid("Neither assignee nor role is given: say who is to answer.")
        where = parse_review_id(review_id)
        whose = check_optional_text("tenant", tenant)
        return await self._change(where, whose, Assign(where.wait_id, owner), key, reason, actor)

    async def comment(
        self, review_id: str, text: str, *, actor: str | None = None, tenant: str | None = None, key: str | None = None
    ) -> Changed:
        """Say something about a review without answering it."""
        where = parse_review_id(review_id)
        command = Comment(where.wait_id, check_text("The comment", text, MAX_NOTE))
        return await self._change(where, check_optional_text("tenant", tenant), command, key, None, actor)

    async def stats(
        self,
        *,
        tenant: str | None = None,
        workflow: str | None = None,
        role: str | None = None,
        after: int | None = None,
        before: int | None = None,
        target: float = DEFAULT_TARGET,
    ) -> ReviewStats:
        """Figures over the reviews that were opened between two moments, in milliseconds since 1970.

        `target` is the share of them that people should decide within 24 hours.
        """
        where = figures_filter(tenant, workflow, role, after, before)
        target = check_share("target", target)
        return stats_of(await self._parts.store.review_figures(where, DAY_MS), target)

    async def check(self, *, tenant: str | None = None) -> Endless:
        """Reviews that have not exactly one end in the history of their run; there are none unless something is wrong.

        An end is a verdict or an expiry; where the code no longer waits, that its call was called off, or the end of
        its generation.
        """
        store, whose = self._parts.store, check_optional_text("tenant", tenant)
        page = await store.endless_reviews(whose, None)
        found = [*page.found]
        while page.next is not None:
            page = await store.endless_reviews(whose, page.next)
            found += page.found
        return found

    @property
    def _parts(self) -> Parts:
        return self._app._open_parts()

    async def _whole(self, where: ReviewId, tenant: str | None) -> WholeReview:
        whole = await self._parts.store.review(tenant, where)
        if whole is None:
            raise no_review(where)
        return whole

    async def _decide(self, where: ReviewId, spoken: Spoken, whole: WholeReview | None) -> Decide:
        """The command that an answer is; a value is left out without the review, as the answer is refused then."""
        command = Decide(where.wait_id, spoken.verdict, None, spoken.note, to=spoken.to, misfit=spoken.misfit)
        if whole is None or spoken.value is None:
            return command
        misfit = await misfit_of(whole.schema, spoken.value)
        if misfit is not None:
            return replace(command, misfit=misfit)
        return replace(command, value=await self._parts.values.keep(whole.view.tenant, where.run_id, spoken.value))

    async def _change(
        self,
        where: ReviewId,
        tenant: str | None,
        command: ReviewCommand,
        key: str | None,
        reason: str | None,
        actor: str | None,
    ) -> Changed:
        request = asked(command, key, reason, actor).of(where.run_id, tenant)
        return changed_or_raise(await self._parts.change([request]))

    async def _lost(self, tenant: str | None, actor: str | None) -> TokenWrong:
        """Somebody showed what names no run: told beside all runs, for there is none to tell it of."""
        whose = tenant or self._app.tenant
        refusal = wrong_token()
        await self._parts.store.tell(whose, EventType.RESUME_SUBMITTED, actor, json.dumps({"outcome": refusal.code}))
        log.warning("token_refused", tenant=whose, code=refusal.code)
        return refusal


class Spoken(NamedTuple):
    """What somebody says to a review, as far as it can be checked without it; `value` is JSON."""

    verdict: str
    value: str | None
    note: str | None
    to: Owner
    misfit: str | None

    @classmethod
    def checked(cls, verdict: str, value: Any, note: str | None, to: str | None, to_role: str | None) -> Spoken:
        said = check_text("verdict", verdict)
        owner = Owner(check_optional_text("to", to), check_optional_text("to_role", to_role))
        text, misfit = None, None
        if said == Verdict.CORRECT:
            text = text_given(value, "The corrected value")
        elif value is not None:
            misfit = f"the verdict {said!r} takes none; only {Verdict.CORRECT.value!r} does."
        note = None if note is None else check_text("note", note, MAX_NOTE)
        return cls(str(said), text, note, owner, misfit)


def _checked_ttl(expires: Duration) -> int:
    return check_whole("expires, in milliseconds,", span_ms(expires, "expires"), 1, MAX_TOKEN_MS)


def _decoded(text: str | None) -> Any:
    return None if text is None else json.loads(text)
