"""Images for the tests, made of this machine's own Debian packages: no registry, no mirror.

python image.py DAEMON_URL writes `agentgym-test/python` and, without Python, `agentgym-test/shell`.
"""

import io
import os
import re
import stat
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

SHELL = ("base-files", "base-passwd", "bash", "coreutils", "dash", "findutils", "grep", "sed", "tar", "gzip", "util-linux")
MORE = ("python3-minimal", "libpython3-stdlib", "procps", "login", "git", "mawk", "diffutils")
MORE += ("libstdc++6",)  # what wheels lean on
LEFT_OUT = re.compile(r"/usr/share/(doc|man|info|locale|lintian|bug|i18n|perl)/|/usr/lib/.*/(gconv|perl)/")


def closure(names: tuple[str, ...]) -> list[str]:
    """Return installed packages and all that they need."""
    listing = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${Package}\t${Depends},${Pre-Depends}\t${Provides}\n"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    needs: dict[str, list[str]] = {}
    provided: dict[str, str] = {}
    for line in listing.splitlines():
        package, depends, provides = line.split("\t")
        needs[package] = [re.split(r"[ :(]", wanted.strip())[0] for wanted in re.split(r"[,|]", depends) if wanted.strip()]
        for name in provides.split(","):
            provided[re.split(r"[ :(]", name.strip())[0]] = package
    absent = [name for name in names if name not in needs]
    if absent:
        raise SystemExit(f"the tests' images are made of this machine's own packages: apt-get install {' '.join(absent)}")
    found: list[str] = []
    left = list(names)
    while left:
        name = left.pop()
        name = name if name in needs else provided.get(name, "")
        if name and name not in found:
            found.append(name)
            left += needs[name]
    return sorted(found)


def files(packages: list[str]) -> set[str]:
    """Return the paths of packages, with links among their folders resolved (`/bin` is one)."""
    listed = subprocess.run(["dpkg-query", "--listfiles", *packages], capture_output=True, text=True, check=True).stdout
    found: set[str] = set()
    for line in listed.splitlines():
        path = Path(line)
        if line.startswith("/") and line != "/." and path.parent != path and os.path.lexists(path):
            found.add(str(path.parent.resolve() / path.name))
    included = {path for path in found if not LEFT_OUT.search(path + "/")}
    for path in [Path(path) for path in included if path.endswith(".py")]:  # compiled when it was installed
        included |= {str(compiled) for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc")}
    return included


def pack(target: Any, packages: list[str]) -> None:
    """Write a root file system of packages as a tar archive."""
    paths = files(packages) | {
        str(Path("/") / name) for name in ("bin", "sbin", "lib", "lib64") if Path("/", name).is_symlink()
    }
    paths |= {str(parent) for path in paths for parent in Path(path).parents if str(parent) != "/"}
    paths |= {path for path in ("/etc/ld.so.cache", "/etc/alternatives/awk", "/usr/bin/awk") if os.path.lexists(path)}
    with tarfile.open(fileobj=target, mode="w") as archive:
        for path in sorted(paths):
            kind = os.lstat(path).st_mode
            if stat.S_ISREG(kind) or stat.S_ISDIR(kind) or stat.S_ISLNK(kind):
                archive.add(path, arcname=path[1:], recursive=False)
        for name in ("passwd", "group"):
            body = Path(f"/usr/share/base-passwd/{name}.master").read_bytes()
            entry = tarfile.TarInfo(f"etc/{name}")
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))
        for name, mode in (("tmp", 0o1777), ("proc", 0o755), ("sys", 0o755), ("dev", 0o755), ("root", 0o700)):
            if f"/{name}" in paths:
                continue
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            archive.addfile(entry)


def main(url: str) -> None:
    """Make the images, unless the daemon has them."""
    import docker
    import docker.errors

    client = docker.DockerClient(base_url=url, timeout=300)
    for name, packages in (("python", SHELL + MORE), ("shell", SHELL)):
        try:
            client.images.get(f"agentgym-test/{name}")
        except docker.errors.ImageNotFound:
            with tempfile.NamedTemporaryFile(suffix=".tar") as file:
                pack(file, closure(packages))
                file.flush()
                size = Path(file.name).stat().st_size >> 20
                client.api.import_image_from_file(file.name, repository=f"agentgym-test/{name}", tag="latest")
            print(f"agentgym-test/{name}: {size} MB of {len(closure(packages))} packages", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
