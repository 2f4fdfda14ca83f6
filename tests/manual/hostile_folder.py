"""A folder of hostile files through every command that reads files: lines, codes, no traceback.

    python tests/manual/hostile_folder.py [FOLDER] [--only inspect]

Makes the files (training files, embeddings, models, runs, sweeps, evaluation data, code), and gives
each to the commands that read its kind. A command passes if it ends in time with 0, or with 2 and
one line on standard error; nothing that a file names may be run, and nothing be left half-written.
Prints a Markdown table; exit status 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pickle
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.fuzzing import DEEP, damaged_files
from tests.tiny_models import make_bert, make_sentences

SECONDS = 60
TRACE = "code-was-run"


class Trap:
    """An object whose unpickling leaves a trace."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, str]]:
        return open, (TRACE, "w")


def training_files(folder: Path) -> None:
    """Texts and tables that are none, or too much."""
    lines = "\n".join(make_sentences(40)) + "\n"
    pairs = "anchor,positive\n" + "".join(f"{line},{line} again\n" for line in lines.splitlines())
    contents: dict[str, bytes | str] = {
        "empty.txt": "", "spaces.txt": " \n \n", "one.txt": "a single line\n",
        "zeros.txt": bytes(5000), "random.txt": np.random.default_rng(0).bytes(5000),
        "long-line.txt": "word " * 400_000, "nul.csv": pairs.replace("again", "ag\0ain"),
        "utf-16.csv": pairs.encode("utf-16-le"), "ragged.csv": pairs + "a,b,c,d\n",
        "no-header.csv": pairs.split("\n", 1)[1], "one-quote.csv": pairs.replace("again", '"', 1),
        "many-columns.csv": ",".join(map(str, range(20_000))) + "\n" + "x," * 19_999 + "x\n",
        "same-names.csv": pairs.replace("anchor,positive", "anchor,anchor"),
        "formulas.csv": "anchor,positive\n" + "=cmd|' /C calc'!A0,@SUM(1)\n" * 9,
        "nan.csv": "anchor,positive\n" + "nan,None\n" * 20,
        "deep.jsonl": DEEP, "deep.json": DEEP, "scalar.json": "3", "null.jsonl": "null\n" * 9,
        "mixed.jsonl": '{"anchor": "a", "positive": 3}\n{"anchor": ["x"], "positive": {}}\n',
        "huge-number.jsonl": '{"anchor": "a", "positive": "b", "label": 1e999}\n' * 9,
        "lone-surrogate.jsonl": '{"anchor": "\\ud800", "positive": "b"}\n' * 9,
        "no.parquet": "PAR1 nothing PAR1", "no.arrow": "ARROW1\0\0", "no.csv.gz": b"\x1f\x8b\x08\0",
    }  # fmt: skip
    for name, content in contents.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    for name, content in damaged_files(pairs.encode(), count=8, seed=1):
        (folder / f"damaged {name}.csv").write_bytes(content)
    (folder / "folder.csv").mkdir()
    (folder / "loop.txt").symlink_to("loop.txt")
    (folder / "nowhere.txt").symlink_to("does-not-exist.txt")
    os.mkfifo(folder / "pipe.txt")
    (folder / "saved").mkdir()
    (folder / "saved" / "state.json").write_text('{"_data_files": [{"filename": "../../x"}]}')
    (folder / "saved" / "dataset_info.json").write_text(DEEP)


def embedding_files(folder: Path) -> None:
    """Arrays that are none, of no size, or that would run code when they are unpickled."""
    rows = np.random.default_rng(0).standard_normal((40, 8)).astype("float32")
    np.save(folder / "objects.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    np.savez(folder / "objects.npz", anchors=np.array([Trap()], dtype=object), positives=rows)
    np.savez(folder / "nan.npz", anchors=rows, positives=rows * np.nan)
    np.savez(folder / "sizes.npz", anchors=rows, positives=rows[:7])
    np.savez(folder / "text.npz", anchors=np.array(["a", "b"]), positives=np.array(["a", "b"]))
    np.savez(folder / "nothing.npz")
    np.save(folder / "flat.npy", rows.ravel())
    np.save(folder / "no-rows.npy", rows[:0])
    np.save(folder / "zeros.npy", rows * 0)
    np.save(folder / "rows.npy", rows)
    content = (folder / "rows.npy").read_bytes()
    shape = b"(40, 8), "
    (folder / "claims.npy").write_bytes(content.replace(shape, b"(10**9,8)"))
    (folder / "large.npy").write_bytes(content.replace(b"(40, 8), }", b"(99999999, 8), }"))
    (folder / "pickle.npy").write_bytes(pickle.dumps(Trap()))
    for name, damaged in damaged_files(content, count=6, seed=2):
        (folder / f"damaged {name}.npy").write_bytes(damaged)


def models(folder: Path) -> None:
    """Copies of a tiny BERT, each with one fault."""
    whole = make_bert(folder / "whole")
    weights = next(whole.glob("*.safetensors")).name

    def copy(name: str) -> Path:
        return Path(shutil.copytree(whole, folder / name))

    for name in ("config.json", "tokenizer.json", weights):
        (copy(f"cut {name}") / name).write_bytes((whole / name).read_bytes()[:100])
        (copy(f"deep {name}") / name).write_text(DEEP)
        (copy(f"without {name}") / name).unlink()
    config = json.loads((whole / "config.json").read_text())
    remote = {"auto_map": {"AutoModel": "evil.Model", "AutoConfig": "evil.Config"}}
    for name, change in {
        "remote code": remote | {"model_type": "evil"}, "no type": {"model_type": None},
        "huge": {"hidden_size": 10**9}, "heads": {"num_attention_heads": 7},
    }.items():  # fmt: skip
        (copy(name) / "config.json").write_text(json.dumps(config | change))
    shutil.copy(folder.parent / "evil.py", folder / "remote code")
    pickled = copy("pickled")
    (pickled / weights).unlink()
    torch.save({"weight": Trap()}, pickled / "pytorch_model.bin")
    modules = [{"idx": 0, "name": "0", "path": "", "type": "evil.Module"}]
    for name, content in {"modules": modules, "modules text": "text", "modules null": None}.items():
        (copy(name) / "modules.json").write_text(json.dumps(content))
    (folder / "a file").write_text("no folder")
    (folder / "empty").mkdir()


def runs(folder: Path) -> None:
    """Runs whose files are damaged, or name code and other places."""
    metrics = "step,group,name,value\n" + "".join(
        f"{step},train,batch_loss,{3 - step / 100}\n" for step in range(0, 100, 10)
    )
    config = {"loss": "evil.py:loss", "model": "bert", "train_file": "../x", "output": "/"}
    manifest = {"kind": "watched run", "config": config, "status": "finished", "results": {}}
    contents: dict[str, tuple[str, str]] = {
        "names code": (json.dumps(manifest), metrics),
        "trained": (json.dumps(manifest | {"kind": "", "status": "interrupted"}), metrics),
        "deep": (DEEP, metrics), "a list": ("[1, 2]", metrics), "empty": ("", ""),
        "numbers": (json.dumps(manifest), metrics + "x,train,batch_loss,y\n"),
        "infinite": (json.dumps(manifest), metrics + "1e999,train,batch_loss,nan\n"),
        "columns": (json.dumps(manifest), "a,b\n1,2\n"),
        "wrong types": (json.dumps({name: 3 for name in manifest}), metrics),
        "markup": (json.dumps(manifest | {"status": "<script>alert(1)</script>"}), metrics),
    }  # fmt: skip
    for name, (manifest_text, metrics_text) in contents.items():
        (folder / name).mkdir()
        (folder / name / "manifest.json").write_text(manifest_text)
        (folder / name / "metrics.csv").write_text(metrics_text)
    for name, state in {"pickled": pickle.dumps(Trap()), "cut": b"PK\x03\x04"}.items():
        run = Path(shutil.copytree(folder / "trained", folder / f"checkpoint {name}"))
        (run / "checkpoint").mkdir()
        (run / "checkpoint" / "state.pt").write_bytes(state)


def sweeps(folder: Path) -> None:
    """Specifications of sweeps, and the folders that they would go on in."""
    specification = '[settings]\nmodel = "bert"\ntrain_file = "x.txt"\n[grid]\nloss = ["infonce"]\n'
    contents = {
        "empty.toml": "", "no.toml": "= = =", "deep.toml": "a = " + "[" * 5000 + "]" * 5000,
        "plain.toml": specification, "types.toml": "[grid]\nloss = 3\n[settings]\nseeds = 'x'\n",
        "many.toml": specification + f"seed = {list(range(3000))}\nbatch_size = [2, 3, 4, 5]\n",
        "unknown.toml": specification + "[elsewhere]\nx = 1\n",
    }  # fmt: skip
    for name, content in contents.items():
        (folder / name).write_text(content)


def tasks(folder: Path) -> None:
    """Evaluation data with broken lines, and a folder of retrieval without its parts."""
    (folder / "empty").mkdir()
    beir = folder / "beir"
    (beir / "qrels").mkdir(parents=True)
    (beir / "corpus.jsonl").write_text('{"_id": "1", "text": 3}\nnot json\n')
    (beir / "queries.jsonl").write_text(DEEP)
    (beir / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\t2\tx\n")
    sts = folder / "sts" / "STS" / "STSBenchmark"
    sts.mkdir(parents=True)
    (sts / "sts-test.csv").write_text("a\tb\n" + "main\tx\ty\t1\tnan\tone\ttwo\n" * 5)


def code(folder: Path) -> None:
    """Code that the user names: it runs, and what it raises is one line."""
    contents = {
        "syntax.py": "def loss(:\n", "raises.py": "raise RuntimeError('no')\n",
        "exits.py": "import sys\nsys.exit(5)\n", "nothing.py": "", "wrong.py": "loss = 3\n",
        "binary.py": "\0\1\2",
        "returns.py": "def loss(anchors, positives):\n    return 'text'\n",
        "argument.py": "def loss():\n    return 0\n",
        "nan.py": "def loss(anchors, positives):\n    return (anchors * float('nan')).sum()\n",
    }  # fmt: skip
    for name, content in contents.items():
        (folder / name).write_text(content)


KINDS = {
    "training": training_files, "embeddings": embedding_files, "models": models, "runs": runs,
    "sweeps": sweeps, "tasks": tasks, "code": code,
}  # fmt: skip
# For each kind of file, the commands that read it.
COMMANDS = {
    "training": (
        "train --model {model} --train-file {file} --output out --batch-size 4 --max-length 16",
        "inspect --model {model} --train-file {file} --output out",
        "mine --model {model} --train-file {file} --output out.csv",
        "flow --loss infonce --model {model} --train-file {file} --label-column topic --output out",
    ),
    "embeddings": (
        "inspect --embeddings {file} --output out",
        "flow --loss infonce --embeddings {file} --output out",
        "decompose infonce --embeddings {file} --output out",
    ),
    "models": (
        "train --model {file} --train-file {texts} --output out --batch-size 4 --max-length 16",
        "inspect --model {file} --train-file {texts} --output out",
        "mine --model {file} --train-file {pairs} --output out.csv",
        "doctor {file}",
        "evaluate --model {file} --eval-data {tasks} --tasks sts",
        "flow --loss infonce --model {file} --train-file {texts} --output out",
    ),
    "runs": (
        "report {file}", "report {file} --json", "report {file} --output out.md",
        "train --resume --output {file}", "train --config {file}/manifest.json",
    ),
    "sweeps": ("sweep {file} --output out --estimate", "sweep {file} --output out --status"),
    "tasks": ("evaluate --model {model} --eval-data {file} --tasks all",),
    "code": (
        "simulate --loss {file}:loss --output out", "decompose {file}:loss --output out",
        "simulate --loss infonce --loss-file {file} --output out", "audit {file}:loss",
        "doctor {file}:loss",
    ),
}  # fmt: skip


def call(arguments: list[str], folder: Path) -> tuple[int | str, str]:
    """Run a command in a child process; return its exit code and its standard error."""
    error = folder / "error.log"
    child = os.fork()
    if child == 0:
        for path, descriptor in ((os.devnull, 0), (folder / "output.log", 1), (error, 2)):
            flags = os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            os.dup2(os.open(path, flags), descriptor)
        os.chdir(folder)
        sys.argv, code = ["gradlab", *arguments], 99
        try:
            from gradlab.cli import main

            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), error.read_text(errors="replace")
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "no end", error.read_text(errors="replace")


def attempts(folder: Path, only: str) -> Iterator[tuple[str, Path, str, list[str]]]:
    """Every kind, file and command."""
    names = {
        "model": folder / "models" / "whole", "texts": folder / "texts.txt",
        "pairs": folder / "pairs.csv", "tasks": folder / "tasks" / "sts",
    }  # fmt: skip
    for kind, templates in COMMANDS.items():
        for path in sorted((folder / kind).iterdir()):
            for template in templates:
                if only in template.split()[0]:
                    words = [word.format(file=path, **names) for word in template.split(" ")]
                    yield kind, path, template, words


def make(folder: Path) -> None:
    """Write the folder."""
    (folder / "evil.py").write_text(
        f"open({TRACE!r}, 'w').close()\ndef loss(a, p):\n    return 0\n"
    )
    lines = make_sentences(40)
    (folder / "texts.txt").write_text("\n".join(lines) + "\n")
    (folder / "pairs.csv").write_text(
        "anchor,positive\n" + "".join(f"{line},{line} again\n" for line in lines)
    )
    for kind, write in KINDS.items():
        (folder / kind).mkdir()
        write(folder / kind)


def main() -> int:
    """Run all; print the table and what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", nargs="?", type=Path, help="where to make the files")
    parser.add_argument("--only", default="", help="only this command")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["GRADLAB_CACHE_DIR"] = str(folder / "cache")
    torch.set_num_threads(1)
    make(folder)
    # Loaded once, so that a child process starts with them.
    for module in ("sentence_transformers", "datasets", "sklearn", "pandas", "matplotlib.pyplot"):
        importlib.import_module(module)
    for name in {template.split()[0] for templates in COMMANDS.values() for template in templates}:
        importlib.import_module(f"gradlab.cli.{name}")
    call(["doctor", str(folder / "models" / "whole")], folder)
    wrong, place = [], folder / "place"
    print("| kind | file | command | code | standard error |\n|---|---|---|--:|---|")
    for kind, path, template, words in attempts(folder, options.only):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        shutil.copy(folder / "evil.py", place)
        status, error = call(words, place)
        lines = [line for line in error.splitlines() if line.startswith("Error: ")]
        failure = ""
        if status not in (0, 1, 2):
            failure = "ends with neither 0, 1 nor 2"
        elif "Traceback" in error:
            failure = "traceback"
        elif status == 2 and len(lines) != 1:
            failure = "no line"
        elif (place / TRACE).exists():
            failure = "ran what the file names"
        elif left := [p.name for p in place.rglob(".*") if p.is_file() and p.name != ".lock"]:
            failure = f"left {left[0]}"
        message = (lines or error.splitlines()[-1:] or [""])[0].removeprefix("Error: ")
        message = message.replace(str(folder), "…").replace("|", "\\|")
        command = template.split(" --output")[0].replace("{file}", "FILE")
        print(f"| {kind} | {path.name} | {command} | {status} | {message[:160]} |", flush=True)
        if failure:
            wrong.append(f"{failure}: gradlab {' '.join(words)}\n{error[-1500:]}")
    print(f"\n{len(wrong)} wrong")
    for text in wrong:
        print(text)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
