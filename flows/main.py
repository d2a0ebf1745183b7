"""The entry of the command `cloze`: prepares the process before anything heavy is imported.

What the user can fix ends as one paragraph and exit code 2, a failed run with exit code 1, a signal as
`flows.signals` says.
"""

import locale
import os
import signal
import sys
from importlib.util import find_spec
from io import TextIOWrapper
from typing import TextIO

from corpora.errors import InputError
from corpora.lean_process import raise_gc_threshold
from flows.environment import prepare_environment
from flows.process_exit import exit_process
from flows.signals import answer_signals, stop, wait_if_stopping


def main() -> None:
    """Run the `cloze` command with the arguments of this process, and exit with its code. Does not return.

    The code is 0 for success, 1 for a failed run, 2 for an error that the user can fix (its message is printed), and
    128 plus the signal's number if a signal stopped the process.
    """
    restart_in_utf8_mode()
    answer_signals()
    raise_gc_threshold()
    replace_unprintable(sys.stdout)
    try:
        code = _run()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # what is left would meet a closed pipe when nobody can answer any more
    except BrokenPipeError:
        stop(signal.SIGPIPE)
    finally:
        wait_if_stopping()
    exit_process(code)


def restart_in_utf8_mode() -> None:
    """Restart the program in Python's UTF-8 mode if the file system encoding is not UTF-8, for example with `LC_ALL=C`.

    File names are then decoded to the same text on every machine. Output keeps the encoding of the locale. Does not
    return if the program is restarted.
    """
    if sys.getfilesystemencoding() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":
        os.environ["PYTHONUTF8"] = "1"
        os.environ.setdefault("PYTHONIOENCODING", f"{locale.getencoding()}:replace")
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    os.environ.pop("PYTHONIOENCODING", None)  # the processes that this one starts answer it in UTF-8


def replace_unprintable(stream: TextIO) -> None:
    """Make a stream print a question mark for each character that it cannot encode, instead of raising an error."""
    if isinstance(stream, TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
        stream.reconfigure(errors="replace")


def _run() -> int:
    try:
        home = prepare_environment(os.environ)
        if find_spec("cyclopts") is None:  # a machine with only what the trainer needs
            from flows.command.train import run_train_command

            return run_train_command(sys.argv[1:])
        from flows.command.cli import run_command_line

        return run_command_line(sys.argv[1:], home)
    except InputError as error:
        from flows.recipes.privacy import to_printable  # a message may hold a file's name

        print("cloze:", "\n".join(map(to_printable, str(error).split("\n"))), file=sys.stderr)
        return 2


if __name__ == "__main__":
    main()
