"""When a failed attempt is tried again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepfast.kernel.durations import span_ms
from stepfast.kernel.errors import Invalid
from stepfast.kernel.retry import Retry

POLICIES = st.builds(
    Retry,
    attempts=st.integers(1, 100),
    base=st.integers(0, 10_000),
    factor=st.floats(1, 1e6),
    cap=st.integers(0, 100_000),
    jitter=st.floats(0, 1),
)


@given(policy=POLICIES, attempt=st.integers(1, 10**9), seed=st.text())
def test_the_pause_is_finite_and_capped_for_any_attempt(policy, attempt, seed):
    pause = policy.delay_ms(attempt, seed)
    assert 0 <= pause <= span_ms(policy.cap) * (1 + policy.jitter)


@given(policy=POLICIES, attempt=st.integers(1, 50), seed=st.text())
def test_the_pause_is_never_shorter_than_the_plain_backoff(policy, attempt, seed):
    plain = min(span_ms(policy.base) * policy.factor ** (attempt - 1), span_ms(policy.cap))
    assert policy.delay_ms(attempt, seed) >= int(plain)


@given(policy=POLICIES, attempt=st.integers(1, 50), seed=st.text())
def test_the_pause_is_the_same_on_every_replay(policy, attempt, seed):
    assert policy.delay_ms(attempt, seed) == policy.delay_ms(attempt, seed)


@given(policy=POLICIES)
def test_the_last_attempt_is_the_last(policy):
    assert not policy.allows(policy.attempts, ValueError())
    assert policy.attempts == 1 or policy.allows(policy.attempts - 1, ValueError())


def test_an_error_that_must_not_be_retried_is_not():
    policy = Retry(never=(ValueError,))
    assert not policy.allows(1, UnicodeError())
    assert policy.allows(1, KeyError())


def test_only_the_named_errors_are_retried():
    policy = Retry(on=(ConnectionError,))
    assert policy.allows(1, ConnectionResetError())
    assert not policy.allows(1, ValueError())


LEAVES = st.sampled_from([ConnectionError, ConnectionResetError, TimeoutError, ValueError, KeyboardInterrupt])
GROUPS = st.recursive(
    LEAVES.map(lambda leaf: leaf()),
    lambda errors: st.lists(errors, min_size=1, max_size=4).map(lambda inner: BaseExceptionGroup("several", inner)),
    max_leaves=8,
)


def leaves_of(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in error.exceptions for leaf in leaves_of(inner)]


@given(error=GROUPS, on=st.sets(LEAVES), never=st.sets(LEAVES))
def test_a_group_is_retried_when_each_error_in_it_alone_would_be(error, on, never):
    policy = Retry(on=tuple(on), never=tuple(never))
    assert policy.allows(1, error) == all(policy.allows(1, leaf) for leaf in leaves_of(error))


@given(error=GROUPS, never=st.sets(LEAVES))
def test_a_group_whose_class_is_named_is_retried_whatever_is_in_it_but_what_never_is(error, never):
    policy = Retry(on=(BaseExceptionGroup,), never=tuple(never))
    inner = leaves_of(error) if isinstance(error, BaseExceptionGroup) else []
    assert policy.allows(1, error) == (bool(inner) and not any(isinstance(leaf, tuple(never)) for leaf in inner))


@given(error=GROUPS)
def test_a_group_that_is_never_retried_is_not_however_deep_it_stands(error):
    policy = Retry(on=(BaseException,), never=(BaseExceptionGroup,))
    assert policy.allows(1, error) == (not isinstance(error, BaseExceptionGroup))


class Secretive(ExceptionGroup):
    @property
    def exceptions(self):
        raise RuntimeError("none of your business")


def test_a_group_that_hides_its_errors_is_judged_by_them_all_the_same():
    policy = Retry(on=(ConnectionError,))
    assert policy.allows(1, Secretive("several", [ConnectionError()]))
    assert not policy.allows(1, Secretive("several", [ValueError()]))


def test_a_group_of_any_depth_is_judged():
    error: Exception = ValueError()
    for _ in range(5_000):
        error = ExceptionGroup("one more", [error])
    assert not Retry(on=(ConnectionError,)).allows(1, error)


@pytest.mark.parametrize(
    "options",
    [
        {"attempts": 0},
        {"attempts": 10**9},
        {"factor": 0.5},
        {"factor": float("nan")},
        {"jitter": 2},
        {"base": "-1s"},
        {"cap": "x"},
    ],
)
def test_a_policy_that_cannot_work_is_refused_by_name(options):
    with pytest.raises(Invalid, match=f"Retry.{next(iter(options))}"):
        Retry(**options)
