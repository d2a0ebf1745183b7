"""The requests that a run sends to an object store: the first run, one with nothing new, one with a new file.

    python -m benchmarks.object_requests --megabytes 1 10 60 --by-path

The store is a server of S3 in this process that counts what it is asked, by method; the runs are `cloze run` in
processes of their own, on the text of `whole_run`. Requests do not depend on the machine, but for those of the run's
heartbeat, one in ten seconds, and for which worker reads what another one has read.
"""

import argparse
import logging
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pyarrow.fs as pafs
from moto.server import ThreadedMotoServer

from benchmarks.whole_run import RECIPE, write_texts

BUCKET = "cloze"
SECRETS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": "us-east-1"}


class CountingServer(ThreadedMotoServer):
    """A server that counts requests: by method, and "LIST" for listings; and by method and kind of object."""

    def __init__(self) -> None:
        super().__init__(ip_address="127.0.0.1", port=0, verbose=False)
        self.asked = Counter[str]()
        self.by_path = Counter[str]()
        self.start()
        server = self._server
        assert server is not None
        application: Callable[..., Iterable[bytes]] = server.app

        def counted(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
            query = parse_qs(environ.get("QUERY_STRING", ""))
            method = "LIST" if "list-type" in query else environ["REQUEST_METHOD"]
            self.asked[method] += 1
            self.by_path[f"{method} {kind_of(query.get('prefix', [environ['PATH_INFO']])[0])}"] += 1
            return application(environ, start)

        server.app = counted


def kind_of(path: str) -> str:
    """Return what an object is, without what tells it from others of its kind.

    >>> kind_of("/cloze/store/documents/texts/0123456789abcdef01234567/parts/00001.json")
    'documents record'
    """
    pieces = path.removeprefix(f"/{BUCKET}").strip("/").split("/")[1:]
    if pieces[:1] == ["runs"]:
        return "/".join(["runs", *pieces[2:]])
    name = "record" if pieces[-2:-1] == ["parts"] else re.sub(r".*[0-9]\.", "", pieces[-1]) if pieces[3:] else "folder"
    return " ".join([*pieces[:1], name])


def number_of_objects(files: pafs.FileSystem, bucket: str) -> int:
    """Return how many objects a bucket has."""
    return sum(info.is_file for info in files.get_file_info(pafs.FileSelector(bucket, recursive=True)))


def count_runs(megabytes: float, by_path: bool = False) -> None:
    """Print the requests of three runs, and for each object that they wrote; with nothing new, for each that is there.

    by_path: print those of each kind of object as well
    """
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    os.environ.update({**SECRETS, "AWS_EC2_METADATA_DISABLED": "true"})
    server = CountingServer()
    host, port = server.get_host_and_port()
    options = f"endpoint_override={host}:{port}&scheme=http"
    files, bucket = pafs.FileSystem.from_uri(f"s3://{BUCKET}?{options}&allow_bucket_creation=true")
    files.create_dir(bucket)
    files.delete_dir_contents(bucket)  # the servers of a process share what they hold
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        recipe = folder / "texts.toml"
        recipe.write_text(RECIPE.replace('store = "store"', f'store = "s3://{BUCKET}/store?{options}"'), "utf-8")
        write_texts(folder / "texts", megabytes)
        last = sorted((folder / "texts").iterdir())[-1]
        last.rename(folder / "later")
        before = 0
        for name in ("the first run", "nothing new", "a new file"):
            if name == "a new file":
                (folder / "later").rename(last)
            server.asked.clear()
            server.by_path.clear()
            subprocess.run(
                [sys.executable, "-m", "flows.main", "run", str(recipe)],
                check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            asked = dict(server.asked)
            number = number_of_objects(files, bucket)
            new, total = number - before, server.asked.total()
            each = total / (before if name == "nothing new" else new)
            print(f"{name:14} {total:6,} requests, {new:4,} new of {number:4,} objects ({each:.1f} each): {asked}")
            if by_path:
                print("".join(f"    {count:6,} {what}\n" for what, count in sorted(server.by_path.items())))
            before = number
    server.stop()


def main(arguments: Sequence[str] | None = None) -> None:
    """Count the requests of the runs of one text."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.object_requests")
    parser.add_argument("--megabytes", type=float, nargs="+", default=[2.0], help="sizes of the text")
    parser.add_argument("--by-path", action="store_true", help="by kind of object as well")
    given = parser.parse_args(arguments)
    for megabytes in given.megabytes:
        print(f"{megabytes:g} MB")
        count_runs(megabytes, given.by_path)


if __name__ == "__main__":
    main()
