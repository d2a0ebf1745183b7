"""Compiled code: how a kernel is declared, where its machine code is kept, and what kernels share.

`compiling.py` is the one decorator, `dispatching.py` what a function becomes, with `sealed.py` for its files and
`calls.py` for what is compiled beforehand. `arrays.py` names the types of arrays. `packed.py` reads and writes eight
bytes at a time, `utf8.py` characters; `hashing.py` mixes bytes into 64 bits, `hash128.py` into 128 and
modulo 2^127 - 1.
"""
