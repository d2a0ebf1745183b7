"""Places that hold files: a local folder or an object store.

`place.py` is the class that all stages use, `address.py` parses and writes a store's address, `object_store.py` calls
an object store and retries. `files.py` makes files and folders appear whole, and turns what a disk or a store refuses
into one paragraph with a remedy; its locks let processes of one machine take turns.
"""
