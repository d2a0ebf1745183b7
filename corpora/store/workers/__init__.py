"""Worker processes: `pool.py` runs plain functions on them, `processes.py` reads what the system says about processes
and ends this one."""
