"""`cloze shards`: each command reads its arguments and calls one module.

Each command imports what it needs when it runs.
"""

from typing import Annotated

from cyclopts import App, Parameter

from flows.command.terminal.output import say

shards_app = App(name="shards", help="Work with shards: write the examples of an epoch.")


@shards_app.command
def materialise(
    artifact: Annotated[
        str, Parameter(help="A shards artifact, a release (STORE@NAME), or a store: then its newest shards.")
    ],
    *,
    epoch: Annotated[int, Parameter(help="The epoch, from 0.")],
    to: Annotated[str, Parameter(help="The folder to write; it must be empty or not exist.")],
    split: Annotated[str, Parameter(help="train or held-out.")] = "train",
    seed: Annotated[
        int | None,
        Parameter(help="The seed of a training: rows are in the order in which it reads them, else in the shards'."),
    ] = None,
) -> int:
    """Write the examples of an epoch: ids with their masks put in, masked positions, targets, as Arrow files."""
    from flows.command.shards.materialise import write_epoch
    from flows.run.store_address import find_artifacts, newest

    say(*write_epoch(newest(find_artifacts(artifact, "shards")), epoch, to, split, seed))
    return 0
