"""Processes as one: how they leave each other."""

import threading

from torch._C._distributed_c10d import HashStore

from trainer.training.parallel import meet


def test_no_process_leaves_before_the_last_one_is_there() -> None:
    """Fails where one goes on while another is still at work, or where the last one waits for ever."""
    store, left = HashStore(), list[int]()

    def leave(rank: int) -> None:
        meet(store, 3)
        left.append(rank)

    early = [threading.Thread(target=leave, args=(rank,)) for rank in (0, 1)]
    for thread in early:
        thread.start()
    while store.add("here", 0) < 2:
        pass
    assert left == []
    leave(2)
    for thread in early:
        thread.join()
    assert sorted(left) == [0, 1, 2]
