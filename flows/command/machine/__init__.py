"""The machine: `doctor.py` says what it has and lacks (`cluster_findings.py` of a cluster), `prepare.py` does what the
first run would wait for. `compile_kernels.py` compiles the calls of `kernel_calls.txt`, which `kernel_calls.py` writes.
"""
