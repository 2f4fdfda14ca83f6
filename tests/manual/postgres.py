"""A sweep on a PostgreSQL server: two workers, one killed in the middle of a run and replaced.

    python tests/manual/postgres.py

Needs a server's programs (Debian: apt-get install postgresql) and pip install 'psycopg[binary]'. A
server of its own is started in a temporary folder, on a free port of this machine, and stopped at
the end. The results are compared with those of the same sweep, undisturbed, in a file.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.senteval_folder import make_senteval  # noqa: E402
from tests.tiny_models import make_bert, make_sentences  # noqa: E402

STEPS, RUNS = 60, 4
SWEEP = f"""
seeds = [1, 2]
name = "temperatures"
[base]
model = "model"
train_file = "sentences.txt"
eval_data = "senteval"
max_steps = {STEPS}
batch_size = 16
learning_rate = 1e-3
save_every = 10
precision = "float32"
[grid]
loss_settings.temperature = [0.05, 0.1]
"""


def binary(name: str) -> str:
    """A program of PostgreSQL, which Debian keeps out of the path."""
    places = [*sorted(Path("/usr/lib/postgresql").glob("*/bin")), *Path("/usr/lib").glob("pgsql*")]
    path = os.pathsep.join([*map(str, reversed(places)), os.environ["PATH"]])
    program = shutil.which(name, path=path)
    if program is None:
        sys.exit(f"there is no {name}; install PostgreSQL")
    return program


@contextlib.contextmanager
def server(folder: Path) -> Iterator[str]:
    """The address of the database `sweeps` of a new server."""
    data = folder / "server"
    data.mkdir()
    # PostgreSQL does not run as root.
    user = "postgres" if os.getuid() == 0 else getpass.getuser()
    if os.getuid() == 0:
        folder.chmod(0o755)
        shutil.chown(data, user)
    prefix = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    prefix = prefix if os.getuid() == 0 else []
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    (data / "password").write_text("of-the-test")
    os.chmod(data / "password", 0o644)
    initdb = [binary("initdb"), "-D", data / "data", "-U", "sweeper", "-A", "scram-sha-256"]
    subprocess.run(
        [*prefix, *initdb, f"--pwfile={data / 'password'}"], check=True, stdout=subprocess.DEVNULL
    )
    options = ["-D", data / "data", "-p", port, "-k", data, "-c", "listen_addresses=127.0.0.1"]
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen([*prefix, binary("postgres"), *options], stderr=log, stdout=log)
    address = {"PGPASSWORD": "of-the-test", "PGHOST": "127.0.0.1", "PGPORT": port}
    environment = {**os.environ, **address, "PGUSER": "sweeper"}
    try:
        for _ in range(100):
            if not subprocess.run(
                [binary("pg_isready"), "-q"], env=environment, check=False
            ).returncode:
                break
            time.sleep(0.1)
        subprocess.run([binary("createdb"), "sweeps"], env=environment, check=True)
        print(subprocess.check_output([binary("postgres"), "--version"], text=True).strip())
        yield f"postgresql+psycopg://sweeper:of-the-test@127.0.0.1:{port}/sweeps"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def worker(folder: Path, log: str, *options: str) -> subprocess.Popen[bytes]:
    """A process of ``gradlab sweep``, as somebody starts it on a machine of theirs."""
    code = "from gradlab.cli import main; main()"
    with (folder / log).open("w") as output:
        return subprocess.Popen(
            [sys.executable, "-c", code, "sweep", "temperatures.toml", *options],
            cwd=folder, stdout=output, stderr=output,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1",
                 "HF_HUB_OFFLINE": "1", "GRADLAB_CACHE_DIR": str(folder / "cache")},
        )  # fmt: skip


def steps_of(run: Path) -> int:
    """The last step that is recorded; 0 before the first."""
    with contextlib.suppress(OSError):
        lines = (run / "metrics.csv").read_text().splitlines()[1:]
        return max((int(line.partition(",")[0]) for line in lines if ",train," in line), default=0)
    return 0


def weights(folder: Path) -> dict[str, bytes]:
    """The trained encoder of each run, by the run's name."""
    files = (folder / "runs").glob("*/encoder/model.safetensors")
    return {file.parts[-3]: file.read_bytes() for file in files}


def main() -> int:
    """Run the sweep disturbed and undisturbed; 1 if anything differs."""
    with tempfile.TemporaryDirectory(prefix="gradlab-postgres-") as place:
        folder = Path(place)
        make_bert(folder / "model")
        make_senteval(folder / "senteval")
        (folder / "sentences.txt").write_text("\n".join(make_sentences(400)))
        (folder / "temperatures.toml").write_text(SWEEP)
        assert worker(folder, "alone.log", "--output", "alone").wait(900) == 0, (
            folder / "alone.log"
        ).read_text()
        with server(folder) as storage:
            shared = ["--output", "shared", "--storage", storage, "--heartbeat", "2"]
            workers = [worker(folder, f"{i}.log", *shared) for i in range(2)]
            # The first worker dies in the middle of a run, after a checkpoint, without a word.
            while not any(10 < steps_of(run) < STEPS for run in (folder / "shared/runs").glob("*")):
                time.sleep(0.02)
            workers[0].kill()
            began = {run.name: steps_of(run) for run in (folder / "shared/runs").glob("*")}
            print("killed a worker; steps of the runs by then:", sorted(began.values()))
            workers[0].wait()
            workers.append(worker(folder, "2.log", *shared))
            codes = [process.wait(900) for process in workers[1:]]
            print("exit codes of the others:", codes)
            status = worker(folder, "status.log", *shared, "--status").wait(300)
        for log in ("1.log", "2.log"):
            words = re.findall(r"^(?:Finished|Waiting|.*[Cc]ontinu|Resum).*$",
                               (folder / log).read_text(), re.MULTILINE)  # fmt: skip
            print(f"{log}:", *words, sep="\n  ")
        print((folder / "status.log").read_text().strip())
        alone, together = weights(folder / "alone"), weights(folder / "shared")
        print(f"{len(together)} encoders, equal to those of the undisturbed sweep, bit by bit:",
              alone == together)  # fmt: skip
        return int(alone != together or len(alone) != RUNS or codes != [0, 0] or status != 0)


if __name__ == "__main__":
    raise SystemExit(main())
