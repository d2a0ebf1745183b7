"""What the commands print to."""

import signal

from rich.console import Console

from flows.stopping import stop


class StandardOutput(Console):
    """Standard output. Where nobody reads it any more, the command is stopped, and its work not waited for."""

    def on_broken_pipe(self) -> None:
        """Stop."""
        stop(signal.SIGPIPE)


console = StandardOutput(soft_wrap=True, highlight=False)
