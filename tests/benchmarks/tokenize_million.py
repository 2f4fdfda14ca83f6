"""Time and memory of tokenising a large file into the cache, from nothing.

    python tests/benchmarks/tokenize_million.py --model MODEL --train-file wiki1m.txt.xz \\
        --threads 2 --memory-gb 2

The process limits its threads, and its address space (``--memory-gb`` above that of its imports).
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--train-file", type=Path, required=True)
    parser.add_argument("--max-length", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory-gb", type=float, default=2)
    arguments = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(arguments.threads)  # of the tokenizers library
    with tempfile.TemporaryDirectory() as cache:
        os.environ["GRADLAB_CACHE_DIR"] = cache
        from transformers import AutoTokenizer

        from gradlab.data import TrainingFile
        from gradlab.data.tokens import tokenize

        tokenizer = AutoTokenizer.from_pretrained(arguments.model)
        limit = int(arguments.memory_gb * 2**30)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        began, cpu = time.perf_counter(), time.process_time()
        (tokens,) = tokenize(
            TrainingFile.open(arguments.train_file), tokenizer, arguments.max_length
        )
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        size = sum(file.stat().st_size for file in Path(cache).rglob("*") if file.is_file())
        print(
            f"{len(tokens):,} sentences, {len(tokens.ids):,} tokens in {seconds:.0f} s "
            f"({cpu:.0f} s of CPU time)"
        )
        print(
            f"largest resident memory {peak:.2f} GB, cache {size / 2**20:.0f} MB; "
            f"load {os.getloadavg()[0]:.1f}"
        )
        began = time.perf_counter()
        tokenize(TrainingFile.open(arguments.train_file), tokenizer, arguments.max_length)
        print(f"from the cache: {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
