"""The bytes of raw files, unpacked as they are read: nothing is written to disk, nothing is read whole.

faults.py         what is raised for bytes that are damaged, and what the libraries raise
packed_stream.py  one stream of gzip, bzip2 or xz, decompressed piece by piece
objects.py        raw files in an object store, as paths that are read by ranges
zip_members.py    members of a zip, as paths that are opened like files
text_encodings.py the encodings of texts, by how their bytes look
recoded.py        lines in other encodings, converted to UTF-8 as they are read
endings.py        the endings of packed files
raw_files.py      a file of your own, unpacked by its ending; its lines and its characters
unchanged.py      inputs that must not change while they are read
archives.py       tar, gzip and xz, one inside the other to any depth
bz2_streams.py    dumps in pieces: bzip2 streams one after another, zstd or plain
warc_members.py   crawl archives: gzip members one after another, zstd or plain
"""
