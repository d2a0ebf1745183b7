"""A training's processes: starting them, listening to them, and ending them with their parent. No torch.

    launch.py ─► agent.py (where there are several) ─► ranks

`commands.py` makes the commands that start them, on how many machines, and reads what they print, `copies.py` copies
shards from an object store, `stopping.py` stops them from another thread.
"""
