"""Raw inputs from the servers that publish them: what is wanted, resolved once, downloaded whole or not at all.

    fetch = {...} ─► resolved: a date or month, files with their digests ─► raw files, verified
      wanted         resolved, catalogues                                    download, fetch

- `wanted.py` is the `fetch` table of a `[[source]]`;
- `catalogues.py` asks publishers for what they publish about their files and reads it, and `resolved.py` has that done
  once and gives the result as JSON for the lock next to the recipe;
- `remote.py` is one file as it is wanted: where it is, what it is called here, and the digests it must have;
- `hosts.py` speaks HTTP: one back-off for each host, redirects, refusals;
- `download.py` brings one file, resuming where it is; `part.py` is the unfinished file on the disk;
- `fetch.py` brings many at once, by few connections to each host.

A file that is under its own name is whole. Its bytes are those of one version on the server, as far as the server
tells versions apart, and those that its publisher's digest promises where there is one (of several the strongest);
otherwise there is an error that says what is wrong.
"""
