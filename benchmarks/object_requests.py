"""The requests that a run sends to an object store: the first run, one with nothing new, one with a new file.

    python -m benchmarks.object_requests --megabytes 2

The store is a server of S3 in this process that counts what it is asked, by method; the runs are `cloze run` in
processes of their own, on the text of `sized_stores`. Figures do not depend on the machine.
"""

import argparse
import logging
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
from moto.server import ThreadedMotoServer

from benchmarks.sized_stores import RECIPE, write_texts

BUCKET = "cloze"
SECRETS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": "us-east-1"}


class CountingServer(ThreadedMotoServer):
    """A server that counts requests: by method, and "LIST" for listings."""

    def __init__(self) -> None:
        super().__init__(ip_address="127.0.0.1", port=0, verbose=False)
        self.asked = Counter[str]()
        self.start()
        server = self._server
        assert server is not None
        application: Callable[..., Iterable[bytes]] = server.app

        def counted(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
            listing = "list-type" in environ.get("QUERY_STRING", "")
            self.asked["LIST" if listing else environ["REQUEST_METHOD"]] += 1
            return application(environ, start)

        server.app = counted


def count_runs(megabytes: float) -> None:
    """Print the requests of three runs, and of each object that they wrote."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    os.environ.update({**SECRETS, "AWS_EC2_METADATA_DISABLED": "true"})
    server = CountingServer()
    host, port = server.get_host_and_port()
    options = f"endpoint_override={host}:{port}&scheme=http"
    files, bucket = pafs.FileSystem.from_uri(f"s3://{BUCKET}?{options}&allow_bucket_creation=true")
    files.create_dir(bucket)
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
            subprocess.run(
                [sys.executable, "-m", "flows.main", "run", str(recipe)],
                check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            asked = dict(server.asked)
            number = sum(info.is_file for info in files.get_file_info(pafs.FileSelector(bucket, recursive=True)))
            new, total = number - before, server.asked.total()
            print(f"{name:14} {total:6,} requests, {new:4,} new objects ({total / max(1, new):.1f} each): {asked}")
            before = number
    server.stop()


def main(arguments: Sequence[str] | None = None) -> None:
    """Count the requests of the runs of one text."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.object_requests")
    parser.add_argument("--megabytes", type=float, default=2.0, help="size of the text")
    count_runs(parser.parse_args(arguments).megabytes)


if __name__ == "__main__":
    main()
