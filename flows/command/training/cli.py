"""`cloze train`: it reads its arguments and calls one module.

It imports what it needs when it runs.
"""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from flows.command.arguments import Position, Processes
from flows.command.terminal.output import say

training_app = App(name="training")


@training_app.command
def train(
    job: Annotated[Path, Parameter(help="A job's file: job.json of the `work` folder of a model that a run began.")],
    *,
    store: Annotated[str | None, Parameter(help="The store with the shards, if not where the job says.")] = None,
    work: Annotated[
        str | None, Parameter(help="The folder for checkpoints and the model, if not where the job says.")
    ] = None,
    start: Annotated[
        str | None, Parameter(help="The folder of the model to begin with, if not where the job says.")
    ] = None,
    teacher: Annotated[
        str | None, Parameter(help="The folder of the model to learn from, if not where the job says.")
    ] = None,
    nodes: Annotated[Processes, Parameter(help="Number of machines that train together; each runs this command.")] = 1,
    node_rank: Annotated[Position, Parameter(help="The number of this machine, from 0.")] = 0,
    rendezvous: Annotated[str, Parameter(help="HOST:PORT of the first machine, where the others meet it.")] = "",
) -> None:
    """Train a model from a job file, without a run around it.

    Run the same command again to resume it.
    """
    from flows.command.training.train import train_file
    from trainer.launch import Nodes

    machines = Nodes(count=nodes, rank=node_rank, rendezvous=rendezvous)
    places = {"store": store, "work": work, "start": start, "teacher": teacher}
    train_file(job, places, machines, say)
