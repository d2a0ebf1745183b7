"""Artifacts: what one is, how it is built part by part, and how every byte that is read from it is checked.

    1. A `Stage` (`stage.py`) says what is asked for: settings, parents and the parts it is cut into.
    2. Each missing part is built by a plain function; `part_writer.py` writes its tables as Arrow files.
    3. A `PartRecord` (`manifest.py`) names the files of a finished part, with a digest for every column.
    4. A `Manifest` is written last and names all part records: then the artifact exists.
    5. `tables.py` reads the columns and rows that are asked for, and checks their digests before decoding.

`ledger.py` proves that nothing was lost, `settings.py` says which settings determine bytes, `randomness.py` addresses
every random choice, `damage.py` names a file that is not what was written, `file_check.py` checks whole files,
`checked_folder.py` folders that say what they hold, as models do, `current_record.py` is what a worker reports about
itself, and `merging.py` plans the merging of many parts.

    digests/   content, and where the columns of an Arrow file lie
    places/    a local folder or an object store; files that appear whole; locks

`worker_pool.py` is the pool of worker processes (`processes.py`), `leases.py` says who works with a store now, and who
reads an artifact.
"""
