"""The entry of the command `cloze`: sets the ground before anything heavy is imported.

What the user can mend ends as one paragraph and exit code 2; a failed run as exit code 1.
"""

import os
import sys

from corpora.errors import InputError
from flows.environment import prepare
from flows.leaving import leave


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        home = prepare(os.environ)
        from flows.command.cli import run_command_line

        code = run_command_line(sys.argv[1:], home)
    except InputError as error:
        print(f"cloze: {error}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("cloze: interrupted; finished parts are kept, the same command goes on from there.", file=sys.stderr)
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reader of our output left: nothing to tell it
        code = 141
    leave(code)


if __name__ == "__main__":
    main()
