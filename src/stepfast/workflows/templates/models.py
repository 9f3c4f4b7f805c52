"""The language as models: every key of a template, what it may hold, and what it means."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from stepfast.kernel.retry import MAX_ATTEMPTS, MAX_FACTOR
from stepfast.workflows.plans.plan import JoinRule
from stepfast.workflows.templates.forms import (
    INPUT_NAME,
    Condition,
    ExecutorName,
    InputName,
    Items,
    JoinForm,
    Key,
    Limit,
    MediaKind,
    MediaType,
    Name,
    OneOrMany,
    Shorthand,
    Span,
    SpanOrExpression,
    StepId,
    Target,
    read_kind,
    short_for,
)

LANGUAGE = 1
MAX_ROUNDS = 1_000_000
MAX_AT_ONCE = 100_000
MAX_PRIORITY = 1_000
MAX_VERSION = 2**31 - 1
TEXT: dict[str, Any] = {"type": "string"}
COMMENT = "x-"
"""Keys that begin so are for whoever reads the file."""

OnFailureForm = Literal["fail", "continue", "skip_dependents", "compensate"]
VerdictForm = Literal["continue", "reject", "correct", "retry", "escalate"]
ReasonForm = Literal["review_required", "low_confidence", "policy_conflict"]


class Part(BaseModel):
    """A map of the language: it has these keys, and others only as comments."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"patternProperties": {"^x-": {}}})

    @model_validator(mode="before")
    @classmethod
    def _without_comments(cls, data: Any, info: ValidationInfo) -> Any:
        if not isinstance(data, dict):
            return data
        if isinstance(info.context, dict):
            # Which model a map was held against, for whoever explains what is wrong with it.
            info.context[id(data)] = cls
        return {name: value for name, value in data.items() if not name.startswith(COMMENT)}

    @classmethod
    def keys(cls) -> list[str]:
        """The keys as people write them."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @classmethod
    def needed(cls) -> list[str]:
        """Those that must be there."""
        return [field.alias or name for name, field in cls.model_fields.items() if field.is_required()]


def _retry_form(value: Any) -> Any:
    if value is False:
        return {"attempts": 1}
    return {"attempts": value} if isinstance(value, int) and not isinstance(value, bool) else value


class RetryForm(Part):
    """When a failed attempt is tried again; what is left out comes from the defaults."""

    attempts: int | None = Field(None, ge=1, le=MAX_ATTEMPTS, description="How often at most, the first included.")
    base: Span | None = Field(None, description="The pause after the first attempt.")
    factor: float | None = Field(None, ge=1, le=MAX_FACTOR, description="By how much each pause is longer.")
    cap: Span | None = Field(None, description="The longest pause.")
    jitter: float | None = Field(None, ge=0, le=1, description="Up to this share is added to each pause.")
    on: list[Name] | None = Field(
        None, description="The errors that are tried again: `transient`, `timeout`, names of types, or codes."
    )
    never: list[Name] | None = Field(None, description="Those of them that are not.")


Retrying = Annotated[
    RetryForm, BeforeValidator(_retry_form), Shorthand({"anyOf": [{"type": "integer", "minimum": 1}, {"const": False}]})
]


class Defaults(Part):
    """What holds for every step that does not say otherwise."""

    retry: Retrying | None = Field(None, description="When failed attempts are tried again.")
    retry_by: dict[str, Retrying] = Field(
        default_factory=dict,
        description='The same by executor: `"ai.*": {...}`; of several patterns the most specific wins.',
    )
    config_by: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Config by executor, merged field by field under the config of each step."
    )
    timeout: Limit | None = Field(None, description="How long an attempt of an executor may take.")
    total_timeout: Limit | None = Field(None, description="How long all its attempts together may take.")
    on_failure: OnFailureForm = Field("fail", description="What the failure of a step means for the run.")


class Input(Part):
    """What a run is given from outside."""

    kind: Literal["payload", "asset", "collection", "query", "event"] = Field(
        "payload",
        description="`payload`: a value; `asset`: one asset; `collection` and `query`: several, found when the run "
        "starts; `event`: the event that started it.",
    )
    json_schema: Any = Field(None, alias="schema", description="The JSON Schema of a payload or of an event's data.")
    default: Any = Field(None, description="What it is when nothing is given; without one it must be given.")
    type: str | None = Field(None, description="The media type of an asset, or the type of an event.")
    of: Name | None = Field(None, description="The name of the collection.")
    origin: Literal["assets"] | None = Field(None, alias="from", description="What a query looks through.")
    where: Condition | None = Field(None, description="Which of them a query takes: an expression over `item`.")
    description: str = Field("", description="What it is for.")

    @field_validator("type")
    @classmethod
    def _as_compared(cls, value: str | None, info: ValidationInfo) -> str | None:
        is_wanted = value is not None and info.data.get("kind") in ("asset", "collection", "query")
        return read_kind(str(value)) if is_wanted else value


class Using(Part):
    """Another executor, beside the step's own: to undo it, or to check it."""

    use: ExecutorName = Field(description="The executor.")
    arguments: Any = Field(default_factory=dict, alias="with", description="What it is called with.")
    config: dict[str, Any] = Field(default_factory=dict, description="Its config.")


class Asking(Part):
    """Whom to ask, and until when."""

    role: str | None = Field(None, description="Who may answer: anybody of this role.")
    assignee: str | None = Field(None, description="Who may answer: this person.")
    verdicts: list[VerdictForm] | None = Field(None, min_length=1, description="The answers that are allowed.")
    expires: Limit | None = Field(None, description="How long people have.")
    on_expiry: Literal["fail", "escalate", "continue", "reject", "retry"] | None = Field(
        None, description="What happens when nobody answers in time; `fail` by default."
    )
    escalate_to: str | None = Field(None, description="Who is asked then.")
    escalate_role: str | None = Field(None, description="Which role is asked then; the same one by default.")
    quorum: int | None = Field(None, ge=1, le=1_000, description="How many must say yes.")
    quorum_reject: int | None = Field(None, ge=1, le=1_000, description="How many must say no.")


class PolicyForm(Asking):
    """A check of steps by an executor that answers `{ok: true}` or `{ok: false, reason: ...}`.

    Any other answer, and an error, is no yes. Whom to ask, and until when, goes with `conflict: review`.
    """

    id: StepId = Field(description="Its name.")
    check: ExecutorName = Field(description="The executor that decides.")
    before: Literal["read", "write"] | None = Field(
        None,
        description="What steps do not do before it lets them: with `read`, `assets` are what they are about to read; "
        "with `write`, `writes` are what they are about to write. Without it, it looks at what they gave, `output`.",
    )
    arguments: Any = Field(
        None,
        alias="with",
        description="What it is called with. The default is `{output: ${ output }}`, and nothing with `before`: an "
        "executor with a parameter `assets` or `writes` is given these.",
    )
    config: dict[str, Any] = Field(default_factory=dict, description="Its config.")
    on: list[StepId] | None = Field(
        None, min_length=1, description="The steps that it guards; with `before` all that read or write, by default."
    )
    when: Condition | None = Field(None, description="When it is asked; always, without one.")
    timeout: Limit | None = Field(None, description="How long an attempt of the check may take.")
    conflict: Literal["review", "fail"] = Field(
        "fail", description="What happens when it does not say yes: a person decides, or the step fails."
    )

    @property
    def given(self) -> Any:
        """What it is called with, said or not."""
        if self.arguments is not None:
            return self.arguments
        return {"output": "${ output }"} if self.before is None else {}


class ReviewForm(Asking):
    """A question to a person; the step gives what was shown, or what the person made of it."""

    title: str = Field(min_length=1, description="The question.")
    show: Any = Field(None, description="What the person looks at.")
    json_schema: dict[str, Any] | None = Field(
        None, alias="schema", description="The JSON Schema that a correction must fit."
    )


class GateForm(Asking):
    """A review before or after a step."""

    when: Condition | None = Field(None, description="When people are asked; always, without one.")
    reason: ReasonForm = Field("review_required", description="Why, for the exception queue.")
    title: str | None = Field(None, min_length=1, description="The question.")


class Gates(Part):
    """The reviews around a step."""

    before: GateForm | None = Field(None, description="Before the step begins.")
    after: GateForm | None = Field(None, description="When its output is there, as `output`.")


class ReceiveForm(Part):
    """A wait for a signal; the step gives its value."""

    signal: str = Field(min_length=1, description="Its name.")
    timeout: SpanOrExpression | None = Field(None, description="How long at most; then the step fails.")
    json_schema: dict[str, Any] | None = Field(None, alias="schema", description="The JSON Schema of its value.")


class EmitForm(Part):
    """An event of the workflow's own."""

    type: Name = Field(description="Its type.")
    data: Any = Field(None, description="What it carries.")


class FailForm(Part):
    """A failure, with words of the author's."""

    message: str = Field(min_length=1, description="What is wrong.")


class RunForm(Part):
    """Another workflow, as a child run; the step gives its result."""

    workflow: Name = Field(description="Its name.")
    version: int | None = Field(None, ge=1, le=MAX_VERSION, description="Its version; the newest without one.")
    arguments: Any = Field(default_factory=dict, alias="with", description="Its inputs.")


class WhileForm(Part):
    """The step again, as long as a condition holds."""

    when: Condition = Field(description="The condition; `output` is that of the round before, null at first.")
    max: int = Field(1_000, ge=1, le=MAX_ROUNDS, description="How many rounds at most; then the step fails.")


class CaseForm(Part):
    """One way of a switch."""

    when: Condition | None = Field(None, description="When it is taken; the last may be without one.")
    do: list[StepForm] = Field(min_length=1, description="What is done then, one after the other.")


class CatchForm(Part):
    """What is done instead of a step that failed; `error` is its error."""

    errors: list[Name] = Field(
        default_factory=list, description="Names of error types, or codes; without them all errors."
    )
    do: list[StepForm] = Field(min_length=1, description="The steps; the last one's output is the step's.")


class ReadForm(Part):
    """An asset that a step reads: looked up when the step is done, and known to it as one of `assets`."""

    asset: str = Field(min_length=1, description="Its id, `id@version` or uri.")
    type: MediaKind | None = Field(None, description="The media type that it must be of, or a kind such as `image/*`.")


class WriteForm(Part):
    """An asset that a step writes when it has ended well; where the id is taken, it gets another."""

    asset: str = Field(min_length=1, description="Its id.")
    type: MediaType | None = Field(None, description="Its media type; without it text/plain or application/json.")
    content: Any = Field(None, description="What is written: the output of the step, without it.")
    metadata: dict[str, Any] | None = Field(None, description="What is said of it.")
    tags: list[str] = Field(default_factory=list, description="Its tags.")


def _several(value: Any) -> Any:
    return [value] if isinstance(value, dict) else value


Reads = Annotated[list[ReadForm], BeforeValidator(_several), OneOrMany()]
Writes = Annotated[list[WriteForm], BeforeValidator(_several), OneOrMany()]
VERBS = ("use", "call", "run", "do", "parallel", "switch", "review", "receive", "sleep", "emit", "set", "fail")

WITH_VERBS: dict[str, tuple[str, ...]] = {
    "with": ("use", "call", "run"),
    "config": ("use",),
    "retry": ("use", "call"),
    "queue": ("use", "call"),
    "priority": ("use", "call"),
}
"""Keys that mean something only beside these verbs."""

WITH_EACH = ("as", "key", "at_once")
"""Keys that mean something only beside `each`."""


class StepForm(Part):
    """A step: an id, one verb, and what holds for it."""

    model_config = ConfigDict(
        json_schema_extra={
            "patternProperties": {"^x-": {}},
            "oneOf": [{"required": [verb]} for verb in VERBS],
            "dependentSchemas": {
                **{key: {"anyOf": [{"required": [verb]} for verb in verbs]} for key, verbs in WITH_VERBS.items()},
                **{key: {"required": ["each"]} for key in WITH_EACH},
            },
        }
    )

    id: StepId = Field(description="Its name, the only one of it in the template.")
    use: ExecutorName | None = Field(None, description="Call an executor.")
    call: Target | None = Field(None, description="Call a function, as `module:function`.")
    run: Annotated[RunForm, *short_for("workflow", (str,), TEXT)] | None = Field(
        None, description="Run another workflow as a child."
    )
    do: list[StepForm] | None = Field(None, min_length=1, description="Steps of its own, one after the other.")
    parallel: list[StepForm] | None = Field(None, min_length=1, description="Steps side by side, joined by `join`.")
    switch: list[CaseForm] | None = Field(None, min_length=1, description="The first case whose condition holds.")
    review: Annotated[ReviewForm, *short_for("title", (str,), TEXT)] | None = Field(None, description="Ask a person.")
    receive: Annotated[ReceiveForm, *short_for("signal", (str,), TEXT)] | None = Field(
        None, description="Wait for a signal."
    )
    sleep: SpanOrExpression | None = Field(None, description="Wait for a span of time.")
    emit: Annotated[EmitForm, *short_for("type", (str,), TEXT)] | None = Field(
        None, description="Write an event of the workflow's own."
    )
    set: Any = Field(None, description="Compute a value.")
    fail: Annotated[FailForm, *short_for("message", (str,), TEXT)] | None = Field(
        None, description="Fail, in the author's words."
    )
    needs: list[StepId] = Field(default_factory=list, description="Steps that must have ended well, or been skipped.")
    when: Condition | None = Field(None, description="When it is done; otherwise it is skipped.")
    require: Condition | None = Field(None, description="What must hold; otherwise it is blocked until a person acts.")
    arguments: Any = Field(default_factory=dict, alias="with", description="What it is called with.")
    config: dict[str, Any] = Field(default_factory=dict, description="The executor's config, the same in every run.")
    each: Items | None = Field(None, description="One step for every item of a list.")
    item_name: StepId = Field("item", alias="as", description="What expressions call the item.")
    key: Key | None = Field(None, description="What tells items apart; with it, another order re-runs nothing.")
    at_once: int | None = Field(None, ge=1, le=MAX_AT_ONCE, description="How many items are under way together.")
    join: JoinForm = Field(JoinRule(), description="How many items or branches must come to a good end.")
    on_extra: Literal["cancel", "ignore"] = Field(
        "cancel", description="What becomes of the others when the join is met."
    )
    loop: WhileForm | None = Field(None, alias="while", description="The step again, as long as a condition holds.")
    retry: Retrying | None = Field(None, description="When failed attempts are tried again.")
    timeout: Limit | None = Field(None, description="How long an attempt may take; beside other verbs, the step.")
    total_timeout: Limit | None = Field(None, description="How long all attempts together may take.")
    queue: Name | None = Field(None, description="The queue of workers that do it.")
    priority: int = Field(
        0, ge=-MAX_PRIORITY, le=MAX_PRIORITY, description="Its priority in that queue; higher goes first."
    )
    gate: Gates | None = Field(None, description="Reviews before and after it.")
    undo: Using | None = Field(None, description="How it is undone; `output` is what it gave.")
    catch: list[CatchForm] = Field(default_factory=list, description="What is done when it fails.")
    on_failure: OnFailureForm | None = Field(None, description="What its failure means for the run.")
    reads: Reads = Field(default_factory=list, description="The assets that it reads.")
    writes: Writes = Field(default_factory=list, description="The assets that it writes.")
    mock: Any = Field(None, description="What it gives in a dry run.")
    description: str = Field("", description="What it is for.")
    metadata: dict[str, Any] = Field(default_factory=dict, description="What others should know of it.")


class TemplateForm(Part):
    """A workflow as data."""

    model_config = ConfigDict(title="Stepfast workflow")

    stepfast: Literal[1] = Field(description="The version of the language.")
    workflow: Name = Field(description="The name of the workflow.")
    version: int = Field(1, ge=1, le=MAX_VERSION, description="Its version; other content needs another one.")
    name: str = Field("", description="What people call it.")
    description: str = Field("", description="What it is for.")
    metadata: dict[str, Any] = Field(default_factory=dict, description="What others should know of it.")
    inputs: dict[InputName, Input] = Field(
        default_factory=dict,
        description="What a run is given, by name.",
        json_schema_extra={"propertyNames": dict(INPUT_NAME)},
    )
    policies: list[PolicyForm] = Field(default_factory=list, description="Checks of what steps read, give and write.")
    defaults: Defaults = Field(
        default_factory=lambda: Defaults.model_validate({}), description="What holds for every step."
    )
    at_once: int | None = Field(None, ge=1, le=MAX_AT_ONCE, description="How many steps are under way together.")
    steps: list[StepForm] = Field(
        min_length=1, description="The steps; each begins when every step it names has ended well."
    )
    output: Any = Field(None, description="What a run gives; without it what the last steps gave.")
