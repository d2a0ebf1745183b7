"""The command in one process that stays: it answers command lines one after the other, each as a started one would.

    with resident(home) as command:
        done = command("run", "recipe.toml")      its exit code and all that it printed

A started command takes seconds to import what it needs, and the trainer that it starts takes more. `here`: what
`python -m trainer` is started for is done in this process as well, from the same job file and arguments.
"""

import io
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from launched import environment

from corpora.errors import InputError
from flows.environment import prepare_environment
from flows.signals import answer_signals

HERE = "--here"


class Done(NamedTuple):
    """A command's result."""

    code: int
    printed: str


Command = Callable[..., Done]


@contextmanager
def resident(home: Path, here: bool = False, more: Mapping[str, str] | None = None) -> Iterator[Command]:
    """A process that runs commands in this home, for the time of the block. more: of its environment"""
    with subprocess.Popen(
        [sys.executable, __file__, *([HERE] if here else [])],
        cwd=home,
        env={**environment(home), **(more or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        questions, answers = process.stdin, process.stdout
        assert questions is not None and answers is not None

        def command(*arguments: str) -> Done:
            print(json.dumps(arguments), file=questions, flush=True)
            line = answers.readline()
            assert line, f"the process ended at {' '.join(arguments)}: its traceback is on standard error"
            return Done(*json.loads(line))

        yield command
        questions.close()


def answer(arguments: Sequence[str], home: Path) -> Done:
    """Run one command in this process."""
    from flows.command.cli import run_command_line

    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        try:
            code = run_command_line([*arguments], home)
        except InputError as error:
            print(f"cloze: {error}")
            code = 2
        except Exception:  # as Python ends a started command
            traceback.print_exc()
            code = 1
    return Done(code, printed.getvalue())


def stay_here() -> None:
    """From now on no process is started for the trainer."""
    import flows.run.answers_build
    import trainer.__main__
    import trainer.launch
    import trainer.tasks.build
    from flows.command import trainer_process as models
    from trainer.launch import iter_events

    def trained(arguments: Sequence[str]) -> tuple[int, io.BytesIO]:
        printed = io.StringIO()
        with redirect_stdout(printed), redirect_stderr(printed):
            code = trainer.__main__.main([*arguments])
        return code, io.BytesIO(printed.getvalue().encode())

    def run(
        path: Path, log: Path, job: Any, on_event: Callable[[Any], None], *_: Any, does: Sequence[str] = ("train",)
    ) -> int:
        code, lines = trained([does[0], str(path), *does[1:]])
        for event in iter_events(lines, io.BytesIO()):
            on_event(event)
        if code:
            raise InputError(lines.getvalue().decode())
        return code

    @contextmanager
    def process(arguments: Sequence[str], training: Any = None) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
        code, lines = trained(arguments)
        if code:
            raise InputError(lines.getvalue().decode())
        yield lines, io.BytesIO()

    for module in (trainer.launch, trainer.tasks.build, flows.run.answers_build):
        module.run_trainer = run
    models.open_trainer = process


def main() -> None:
    """Answer every line of the input, which is the arguments of a command as a JSON list."""
    answers = sys.stdout
    home = prepare_environment(os.environ)
    answer_signals()
    if HERE in sys.argv:
        stay_here()
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), home)), file=answers, flush=True)


if __name__ == "__main__":
    main()
