"""Task files of collections as the commands write them."""

import datetime

from bench.system.ports import free_ports
from dpmpc.app.cli.main import main

HOUR = datetime.timedelta(hours=1)
LEAST = 200
NUMBERS = "".join(f"[columns.{name}]\nlower = 0.0\nupper = 10.0\n" for name in ("a", "b", "y"))


def write_task_file(root, *options, servers=3, bounds=NUMBERS, insisted=("--even-if-hopeless",)):
    """Run `dpmpc identity` and `dpmpc collection` for task.json, however small the batch; return how that ended."""
    root.mkdir(exist_ok=True)
    ports = free_ports(3 * servers)
    (root / "bounds.toml").write_text(bounds)
    places = []
    for server in range(servers):
        folder = root / f"server-{server}"
        folder.mkdir(mode=0o700)
        assert main(["identity", str(folder / "identity"), "--server", str(server), "--days", "2"]) == 0
        certificate = folder / "identity" / "party.crt"
        assert main(["identity", str(folder / "seals"), "--seal", "trial"]) == 0
        web, peers, release = (f"127.0.0.1:{port}" for port in ports[server::servers])
        places += ["--server", f"https://{web}", peers, release, str(certificate)]
        places += ["--seal", str(folder / "seals" / "trial.pub")]
    now = datetime.datetime.now(datetime.UTC)
    times = {"opens": now - HOUR, "closes": now + HOUR, "expires": now + 2 * HOUR}
    argv = ["collection", str(root / "task.json"), "--name", "trial", "--bounds", str(root / "bounds.toml"), *places]
    for name, value in times.items():
        argv += [f"--{name}", value.isoformat()]
    argv += ["--minimum-batch", str(LEAST), "--largest-batch", "5000", "--epsilon", "1", "--delta", "1e-6"]
    return main([*argv, *insisted, *options])
