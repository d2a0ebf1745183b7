"""`cloze shards`: each command reads its arguments and calls one module.

Each command imports what it needs when it runs.
"""

from dataclasses import asdict
from typing import Annotated

from cyclopts import App, Parameter

from flows.command.arguments import AsJson, Epoch, Position, Shown
from flows.command.terminal.output import print_json, say

shards_app = App(name="shards", help="Write the examples that a training reads.", default_parameter=Shown)


@shards_app.command
def materialise(
    artifact: Annotated[
        str, Parameter(help="A shards artifact (folder or short id), a release (STORE@NAME), or a store.")
    ],
    *,
    epoch: Annotated[Epoch, Parameter(help="The epoch, from 0.")],
    to: Annotated[str, Parameter(help="The folder to write; it must be empty or not exist.")],
    split: Annotated[str, Parameter(help="train or held-out.")] = "train",
    seed: Annotated[
        Position | None,
        Parameter(help="The seed of a training: rows are in the order in which it reads them, else in the shards'."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the examples of an epoch as Arrow files.

    Each example has its ids with the masks put in, the masked positions, and the targets.
    """
    from flows.command.materialise import write_epoch
    from flows.run.addresses import find_artifacts, pick_newest

    written = write_epoch(pick_newest(find_artifacts(artifact, "shards")), epoch, to, split, seed)
    if as_json:
        print_json(asdict(written))
    else:
        say(*written.lines())
