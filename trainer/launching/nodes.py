"""The machines of one training: given by hand, the same command on each, with the number of the machine. No torch.

    cloze train JOB --nodes 2 --node-rank 0 --rendezvous first-host:29500
    cloze train JOB --nodes 2 --node-rank 1 --rendezvous first-host:29500

Every machine has the same number of processes and reads the job's `work` folder at the same path, because each process
writes its share of a checkpoint there. The first one reports progress. Where one of them ends, all do; the same
commands again continue from the newest checkpoint.
"""

import re
from dataclasses import dataclass

from corpora.errors import InputError

MOST_NODES = 4096
_ADDRESS = re.compile(r"([^\s:/]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The machines of a training.

    count:      of machines
    rank:       the number of this one, from 0
    rendezvous: HOST:PORT of the first one, at which they find each other; empty for a training of one machine
    """

    count: int = 1
    rank: int = 0
    rendezvous: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST_NODES:
            raise InputError(f"--nodes {self.count} is not a number of machines: give one from 1 to {MOST_NODES}.")
        if not 0 <= self.rank < self.count:
            raise InputError(
                f"--node-rank {self.rank} is not the number of one of {self.count} machines: the first is 0, the last "
                f"{self.count - 1}."
            )
        if self.count > 1 and not _ADDRESS.fullmatch(self.rendezvous):
            raise InputError(
                f"--rendezvous {self.rendezvous!r} is not an address: give HOST:PORT of the first of the {self.count} "
                "machines, with a port that is free there, and give the same on all of them."
            )

    @property
    def suffix(self) -> str:
        """The suffix of the files that each machine but the first has of its own in the work folder.

        >>> Nodes().suffix, Nodes(count=2, rank=1, rendezvous="first:29500").suffix
        ('', '-node-1')
        """
        return f"-node-{self.rank}" if self.rank else ""

    def arguments(self, processes: int) -> list[str]:
        """Those of torchrun.

        >>> Nodes(count=2, rank=1, rendezvous="first:29500").arguments(8)[:5]
        ['--nproc-per-node', '8', '--nnodes', '2', '--node-rank']
        """
        if self.count == 1:
            return ["--standalone", "--nproc-per-node", str(processes)]
        host, _, port = self.rendezvous.rpartition(":")
        each = ["--nproc-per-node", str(processes), "--nnodes", str(self.count), "--node-rank", str(self.rank)]
        return [*each, "--master-addr", host.strip("[]"), "--master-port", port]

    def to_text(self) -> str:
        """Return the machines as one word, for a command line."""
        return f"{self.count},{self.rank},{self.rendezvous}"

    @staticmethod
    def of(text: str) -> "Nodes":
        """Parse what `to_text` wrote.

        >>> Nodes.of(Nodes(count=2, rank=1, rendezvous="first:29500").to_text())
        Nodes(count=2, rank=1, rendezvous='first:29500')
        """
        count, rank, rendezvous = text.split(",", 2)
        return Nodes(count=int(count), rank=int(rank), rendezvous=rendezvous)


ALONE = Nodes()
