"""Raw inputs from the servers that publish them: the wanted files are resolved once, and downloaded whole or not at
all.

    fetch = {...} ─► resolved: a date or month, files with their digests ─► raw files, verified
      fetch_table    publishers                                              download, fetch

- `fetch_table.py` is the `fetch` table of a `[[source]]`, and one file as it is wanted: where it is, what it is called
  here, and the digests it must have;
- `publishers.py` asks publishers once for what they publish about their files, and gives the result as JSON for the
  lock next to the recipe;
- `http_client.py` speaks HTTP: one back-off for each host, redirects, refusals;
- `download.py` downloads one file, and continues an unfinished download;
- `fetch.py` downloads many files at once, with few connections to each host.

A file that is under its own name is whole. Its bytes are those of one version on the server, as far as the server
tells versions apart, and those that its publisher's digest promises if there is one (of several the strongest);
otherwise there is an error that says what is wrong.
"""
