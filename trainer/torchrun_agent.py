"""torchrun's agent as a separate process, which starts the ranks of this machine and exits with its parent. No torch.

python -m trainer.torchrun_agent PARENT PROCESSES COMMAND JOB TORCHRUN_ARGUMENTS ...
"""

import importlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import FrameType

from corpora.store.processes import exit_now, exit_with_parent, install_handlers, list_children, send_signal
from trainer.launch import FIRST_TO_END, describe_exit

LEAVING_SECONDS = 5.0  # for ranks to end after the first one has


def run_agent(parent: int, processes: int, does: str, job: str, arguments: Sequence[str]) -> int:
    """Run torchrun's agent: start the processes on this machine, and stop all of them if one fails.

    A signal to stop is passed on to the processes, which then exit; a second signal stops all of them at once. torchrun
    runs on a separate thread, because on the main thread it would handle the signals and kill the processes shortly
    afterwards. A process that hangs is killed LEAVING_SECONDS after the first one has exited, whereas torchrun would
    wait for half a minute.

    Args:
        parent: Id of the parent process; this process exits when the parent does.
        processes: The number of processes on this machine.
        does: The command of the trainer.
        job: Path of the job's JSON file.
        arguments: The command-line arguments of torchrun.

    Returns:
        The exit code: 0, or 1 if a process failed.
    """
    exit_with_parent(parent)
    pass_signals_on()
    with ThreadPoolExecutor(1) as torchrun:
        ended = torchrun.submit(_run_ranks, does, job, arguments)
        kill_those_left(ended, processes)
        return ended.result()


def kill_those_left(ended: Future[int], processes: int) -> None:
    """Wait for torchrun, and kill processes that are still running LEAVING_SECONDS after the first one has exited.

    This applies only once all processes have started.

    Args:
        ended: The result of torchrun.
        processes: The number of processes on this machine.
    """
    met, alone_since = False, None
    while not wait([ended], timeout=0.5).done:
        ranks = list_children(os.getpid())
        met = met or len(ranks) == processes
        if not met or len(ranks) in (0, processes):
            alone_since = None
        elif alone_since is None:
            alone_since = time.monotonic()
        elif time.monotonic() - alone_since > LEAVING_SECONDS:
            for pid in ranks:
                send_signal(pid, signal.SIGKILL)


def pass_signals_on() -> None:
    """Install handlers that forward the first stop signal to the child processes.

    At a second signal, or if there are no child processes, this process exits.
    """
    passed_on: list[int] = []

    def tell(number: int, frame: FrameType | None) -> None:
        ranks = list_children(os.getpid())
        if passed_on or not ranks:
            os._exit(128 + number)  # ranks that are left go with this process
        passed_on.append(number)
        for pid in ranks:
            send_signal(pid, signal.SIGTERM)

    install_handlers(tell)


def _run_ranks(does: str, job: str, arguments: Sequence[str]) -> int:
    agent = importlib.import_module("torch.distributed.run")
    errors = importlib.import_module("torch.distributed.elastic.multiprocessing.errors")
    ranks = ["-m", "trainer", "--die-with", str(os.getpid()), does, job]
    try:
        agent.main([*arguments, *ranks])
    except errors.ChildFailedError as error:
        rank, failed = error.get_first_failure()
        print(f"{FIRST_TO_END}{rank} {describe_exit(failed.exitcode)}.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    exit_now(run_agent(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5:]))
