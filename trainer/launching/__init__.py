"""A training's processes: started, listened to, and ended with the one that started them. No torch.

    launch.py ─► agent.py (where there are several) ─► ranks

`commands.py` says how they are started, `nodes.py` on how many machines, `copies.py` brings shards of an object store
near, `output.py` is what they say, `stopping.py` a stop from another thread, `ending.py` how each of them ends.
"""
