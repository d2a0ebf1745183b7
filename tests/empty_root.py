"""The steps of a container image's file, run one after another in an empty root, where there is no container runtime.

What the base image would bring is read-only in it: this machine's `/usr`, and this Python at `/usr/local`, where the
official images have it. All else is what the steps make. Each step has its own mounts, processes and network: nothing
of it is left when it ends, and only pip reaches a network, and what this machine's settings of pip name.
"""

import ast
import json
import os
import pwd
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from string import Template

HOST = "/mnt/host"  # in the root: folders of this machine that settings of pip name
STEP = r"""
bind() { mkdir -p "$ROOT$2"; mount --bind "$1" "$ROOT$2"; mount -o remount,bind,ro "$ROOT$2"; }
mount --bind "$ROOT" "$ROOT"
bind /usr /usr
bind "$BASE" /usr/local
for folder in $FOLDERS; do bind "$folder" "/mnt/host$folder"; done
mount --rbind /dev "$ROOT/dev"
mount -t proc proc "$ROOT/proc"
[ "$NETWORK" = host ] || ip link set lo up
exec chroot --userspec="$IMAGE_USER" "$ROOT" /usr/bin/env -i "$@"
"""
FILES = {  # of the base image
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/ld.so.conf": "/usr/local/lib\n",
    "etc/hosts": "127.0.0.1 localhost\n",
}
SETTINGS = ("etc/login.defs", "etc/resolv.conf", "etc/nsswitch.conf")  # as this machine has them


def is_permitted() -> bool:
    """Return True if this process may make an empty root with mounts and a network of its own."""
    if os.geteuid() or not all(map(shutil.which, ("unshare", "chroot", "ip", "useradd"))):
        return False
    command = ["unshare", "--mount", "--pid", "--fork", "--net", "sh", "-c", "mount --bind / / && ip link set lo up"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


class EmptyRoot:
    """A root in a folder, as far as the steps that were run have filled it."""

    def __init__(self, root: Path) -> None:
        self.root, self.user, self.folder = root, "0:0", "/"
        self.variables = {"PATH": "/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin"}
        self.entry_point: list[str] = []
        for name in ("usr", "dev", "proc", "etc", "root", "tmp", "opt", "home", "var"):
            (root / name).mkdir(parents=True)
        for name in ("bin", "sbin", "lib", "lib64"):
            (root / name).symlink_to(f"usr/{name}")
        (root / "tmp").chmod(0o1777)
        for name, text in FILES.items():
            (root / name).write_text(text)
        for name in SETTINGS:
            if (Path("/") / name).exists():
                shutil.copy(Path("/") / name, root / name)
        self.run(["ldconfig"])

    def perform(self, instruction: str, rest: str, context: Path) -> None:
        """Do an instruction of an image's file. context: the folder that it copies from"""
        if instruction == "RUN":
            self.run(["sh", "-ec", rest], network="pip install" in rest)
        elif instruction == "COPY":
            *patterns, target = rest.split()
            place = self.root / target.strip("/")
            place.mkdir(parents=True, exist_ok=True)
            for path in (path for pattern in patterns for path in sorted(context.glob(pattern))):
                shutil.copy(path, place)
        elif instruction in ("ARG", "ENV"):
            pairs = (word.split("=", 1) for word in shlex.split(Template(rest).safe_substitute(self.variables)))
            self.variables |= dict(pairs)
        elif instruction == "USER":
            self.user = rest
        elif instruction == "WORKDIR":
            self.folder = rest
        elif instruction == "ENTRYPOINT":
            self.entry_point = json.loads(rest)
        else:
            assert instruction == "FROM" and rest.startswith("python:"), f"{instruction} is not performed here"

    def run(self, command: list[str], network: bool = False) -> str:
        """Run a command as the user and in the folder of the steps until now; returns what it printed."""
        settings, folders = settings_of_pip() if network else ({}, set())
        variables = {"HOME": self._home(), **self.variables, **settings}
        host = {
            "ROOT": str(self.root),
            "BASE": sys.base_prefix,
            "FOLDERS": " ".join(sorted(folders)),
            "NETWORK": "host" if network else "none",
            "IMAGE_USER": self.user,
            "PATH": os.environ["PATH"],
        }
        apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *([] if network else ["--net"])]
        inside = [f"--chdir={self.folder}", *(f"{name}={value}" for name, value in variables.items()), *command]
        done = subprocess.run(
            [*apart, "sh", "-ec", STEP, "sh", *inside], env=host, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout + done.stderr

    def files(self, folder: str) -> list[str]:
        """Return the files below a folder of the root, by their paths."""
        return sorted(str(path.relative_to(self.root)) for path in (self.root / folder).rglob("*") if path.is_file())

    def _home(self) -> str:
        users = (line.split(":") for line in (self.root / "etc/passwd").read_text().splitlines())
        return {user[0]: user[5] for user in users}.get(self.user, "/root")


def settings_of_pip() -> tuple[dict[str, str], set[str]]:
    """Return this environment's settings of pip as variables, and the folders of this machine that they name.

    Their paths are those in a root that has these folders below HOST.
    """
    command = [sys.executable, "-m", "pip", "config", "list"]
    users = {**os.environ, "HOME": pwd.getpwuid(os.getuid()).pw_dir}  # tests have another home
    lines = subprocess.run(command, env=users, capture_output=True, text=True, check=True).stdout.splitlines()
    settings = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    folders = set()
    for name, value in (line.split("=", 1) for line in lines):  # those of the environment come first
        words = ast.literal_eval(value).split()
        for number, word in enumerate(words):
            path = word.removeprefix("file://")
            if path.startswith("/") and Path(path).exists():
                folders.add(f"/{Path(path).parts[1]}")
                words[number] = word.replace(path, HOST + path)
        settings.setdefault(f"PIP_{name.rpartition('.')[2].upper().replace('-', '_')}", " ".join(words))
    return settings, folders
