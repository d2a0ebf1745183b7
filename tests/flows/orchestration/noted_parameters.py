"""The command as `flows.main` runs it, which notes how many bytes the parameters of each task are when pickled.

python noted_parameters.py FILE COMMAND ...     FILE: a JSON object a line: the task, its bytes, what it was given
"""

import json
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def noting(task: str, function: Callable[[Any], Any], file: Path) -> Callable[[Any], Any]:
    """A task's function that notes what it is given before it does anything."""

    def noted(work: Any) -> Any:
        data = pickle.dumps(work)
        same = pickle.loads(data)
        line = json.dumps({"task": task, "bytes": len(data), "given": type(same).__name__})
        with file.open("a") as sink:
            sink.write(f"{line}\n")
        return function(same)

    return noted


def main() -> None:
    """Run the command with tasks that work on what comes out of the pickle."""
    from flows.environment import prepare

    file, home = Path(sys.argv[1]), prepare(os.environ)
    from flows.command.cli import run_command_line
    from flows.orchestration.runs import tasks

    for name in ("build_range", "train_range", "publish_stage", "reuse_stage"):
        task = getattr(tasks, name)
        task.fn = noting(name, task.fn, file)
    sys.exit(run_command_line(sys.argv[2:], home))


if __name__ == "__main__":
    main()
