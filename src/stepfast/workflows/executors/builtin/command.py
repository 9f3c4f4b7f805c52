"""`command.run`: a program, without a shell, within limits."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process, SubprocessStreamProtocol
from dataclasses import dataclass
from typing import Literal, TypedDict

from stepfast.kernel.errors import Invalid, StepTimeout
from stepfast.kernel.executor_errors import CommandFailed, NotAllowed
from stepfast.kernel.texts import shown
from stepfast.workflows.executors.allowed import Allowed
from stepfast.workflows.executors.builtin.bounds import bound_problems, refuse, timeout_problems, timeout_s
from stepfast.workflows.executors.builtin.memory import Limit, can_limit
from stepfast.workflows.limits import UNWINDING_S

MAX_OUTPUT_BYTES = 16 * 1024 * 1024
MIN_MEMORY_BYTES = 16 * 1024 * 1024
MAX_MEMORY_BYTES = 1 << 50
READ_BYTES = 65_536
TOLD_CHARACTERS = 2_000
# Shorter values stand in many words by chance.
SHORTEST_HIDDEN = 8


@dataclass(frozen=True)
class CommandConfig:
    """How long a program may take, how much it may write on each of its two outputs, and what memory it may have.

    `max_memory_bytes` is the address space of each of its processes, on Linux.
    """

    timeout: float | str = "60s"
    max_output_bytes: int = 1_000_000
    on_overflow: Literal["truncate", "fail"] = "truncate"
    max_memory_bytes: int | None = None


class CommandAnswer(TypedDict):
    """How a program ended, and what it wrote."""

    code: int
    stdout: str
    stderr: str
    truncated: bool


class CommandRun:
    """Run a program without a shell, and give its exit code and what it wrote."""

    name = "command.run"

    def __init__(self, allowed: Allowed) -> None:
        self._allowed = allowed

    async def execute(
        self,
        args: list[str],
        input: str | None = None,
        env: dict[str, str] | list[str] | None = None,
        cwd: str | None = None,
        check: bool = True,
        config: CommandConfig = CommandConfig(),  # noqa: B008 - it is frozen
    ) -> CommandAnswer:
        """Run `args`; `env` are the only variables it has: values by name, or names of the worker's own.

        With `check` an exit code other than 0 is a failure.
        """
        refuse(self.validate_config(config))
        program, variables, limit_s = self._program(args), self._variables(env), timeout_s(config.timeout)
        with Limit(config.max_memory_bytes) as limit:
            session = await _started([program, *args[1:]], variables, cwd, input is not None, config, limit)
            answer = await session.run(input, limit_s, args[0])
            complaint = limit.complaint()
        if complaint:
            raise CommandFailed(f"{shown(program)} could not be started: {complaint}.")
        if check and answer["code"] != 0:
            hidden = [] if isinstance(env, dict) else list(variables.values())
            raise CommandFailed(f"{shown(args[0])} ended with code {answer['code']}: {_told(answer, hidden)}")
        return answer

    def validate_config(self, config: CommandConfig) -> list[str]:
        """What no type can say of the limits."""
        size = bound_problems("max_output_bytes", config.max_output_bytes, 0, MAX_OUTPUT_BYTES)
        return [*timeout_problems(config.timeout), *size, *_memory_problems(config.max_memory_bytes)]

    def _program(self, args: list[str]) -> str:
        if not args or not args[0] or any("\0" in each for each in args):
            raise Invalid("args must be the name of a program and its arguments, each a text without NUL.")
        if not self._allowed.has_command(args[0]):
            raise NotAllowed(f"The program {shown(args[0])} is not allowed here: name it in STEPFAST_COMMANDS.")
        # By the worker's own path, whatever variables the program is given.
        found = shutil.which(args[0])
        if found is None:
            raise CommandFailed(f"There is no program {shown(args[0])} on this worker.")
        # From the worker's own folder: a step that chooses `cwd` must not choose the program by it.
        return os.path.abspath(found)

    def _variables(self, env: dict[str, str] | list[str] | None) -> dict[str, str]:
        for name in env or ():
            if not self._allowed.has_variable(name):
                raise NotAllowed(f"The variable {shown(name)} is not allowed here: name it in STEPFAST_COMMAND_ENV.")
        if isinstance(env, dict):
            return env
        return {name: os.environ[name] for name in env or () if name in os.environ}


async def _started(
    args: list[str], variables: dict[str, str], cwd: str | None, is_fed: bool, config: CommandConfig, limit: Limit
) -> _Session:
    """The program under way; called off meanwhile, it is ended as soon as it has begun."""
    loop = asyncio.get_running_loop()
    starting = loop.create_task(
        loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(limit=READ_BYTES, loop=loop),
            *limit.around(args, variables),
            stdin=PIPE if is_fed else DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            cwd=cwd,
            env=limit.variables(variables),
            pass_fds=limit.lines,
            # A group of its own, so that what it starts can be ended with it.
            start_new_session=True,
        )
    )
    try:
        return _Session(*await asyncio.shield(starting), config)
    except asyncio.CancelledError:
        await asyncio.wait({starting}, timeout=UNWINDING_S)
        if starting.done() and starting.exception() is None:
            await _Session(*starting.result(), config).end()
        raise
    except OSError as error:
        raise CommandFailed(f"{shown(args[0])} could not be started: {error}.") from error
    except ValueError as error:
        # Texts that the system cannot take: NUL in a variable or a folder, halves of characters.
        raise Invalid(f"{shown(args[0])} cannot be started so: {error}.") from error


def _memory_problems(most: int | None) -> list[str]:
    if most is None:
        return []
    if not can_limit():
        return ["max_memory_bytes: this system cannot limit it."]
    return bound_problems("max_memory_bytes", most, MIN_MEMORY_BYTES, MAX_MEMORY_BYTES)


class _Session:
    """A program under way: fed, read within bounds, and ended with all that it has started."""

    def __init__(
        self, transport: asyncio.SubprocessTransport, protocol: SubprocessStreamProtocol, config: CommandConfig
    ) -> None:
        self._transport = transport
        self._process = Process(transport, protocol, asyncio.get_running_loop())
        self._config = config
        self._truncated = False

    async def run(self, text: str | None, limit_s: float, program: str) -> CommandAnswer:
        finishing = asyncio.ensure_future(self._finish(text))
        try:
            await asyncio.wait({finishing}, timeout=limit_s)
            if not finishing.done():
                raise StepTimeout(f"{shown(program)} did not end within {limit_s:g} s and was killed.")
            answer = finishing.result()
        finally:
            if finishing.done():
                # What it has left behind would outlive every limit.
                self._kill()
            else:
                await self.end()
                finishing.cancel()
        if self._truncated and self._config.on_overflow == "fail":
            most = f"{self._config.max_output_bytes:,} bytes"
            raise Invalid(f"{shown(program)} wrote more than {most} and was killed. Allow more: max_output_bytes.")
        return answer

    async def end(self) -> None:
        """Kill the group, and read no more: a process that has left the group may hold the pipes open for ever."""
        self._kill()
        self._transport.close()
        leaving = asyncio.ensure_future(self._process.wait())
        await asyncio.wait({leaving}, timeout=UNWINDING_S)
        leaving.cancel()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def _finish(self, text: str | None) -> CommandAnswer:
        process = self._process
        out, err, _, code = await asyncio.gather(
            self._read(process.stdout), self._read(process.stderr), self._feed(text), process.wait()
        )
        return CommandAnswer(code=code, stdout=_text(out), stderr=_text(err), truncated=self._truncated)

    async def _feed(self, text: str | None) -> None:
        stdin = self._process.stdin
        if stdin is None or text is None:
            return
        # A program need not read all of it, or anything.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stdin.write(text.encode("utf-8", "surrogatepass"))
            await stdin.drain()
        stdin.close()

    async def _read(self, stream: asyncio.StreamReader | None) -> bytes:
        """All that is written, kept up to the bound; the rest is read too, or the program would stand still."""
        kept = bytearray()
        while stream is not None and (part := await stream.read(READ_BYTES)):
            room = self._config.max_output_bytes - len(kept)
            kept += part[:room] if room > 0 else b""
            if len(part) > room:
                self._overflow()
        return bytes(kept)

    def _overflow(self) -> None:
        self._truncated = True
        if self._config.on_overflow == "fail":
            self._kill()


def _text(written: bytes) -> str:
    return written.decode("utf-8", "replace")


def _told(answer: CommandAnswer, hidden: list[str]) -> str:
    """The end of what it wrote; the worker's own variables are not for those who read errors."""
    told = (answer["stderr"] or answer["stdout"]).strip()
    for value in hidden:
        told = told.replace(value, "***") if len(value) >= SHORTEST_HIDDEN else told
    return told[-TOLD_CHARACTERS:] or "it wrote nothing."
