"""How long a frame of the explorer is computed under Node: every loss, one anchor and its bound, 32 negatives.

python tests/benchmarks/explorer_frame.py
"""

from __future__ import annotations

import json
from importlib import resources

import gradlab
from gradlab.explorer.compiler import compile_script
from gradlab.explorer.scene import bounds, compile_scene, example_of_bounds, needs_batch
from tests.node import run_script

MEASURE = """
state.step = 0.01;
const points = firstPoints(32), times = {};
for (const name of Object.keys(LOSSES)) {
  const panel = { loss: name, numbers: LOSSES[name].values }, each = [];
  for (let i = 0; i < 300; i++) {
    points.negatives[i % 32] = turned(points.negatives[i % 32], [0, 1, 0], 0.01);
    const start = performance.now();
    evaluate(panel, points);
    each.push(performance.now() - start);
  }
  times[name] = each.slice(100).sort((a, b) => a - b);
}
console.log(JSON.stringify(Object.fromEntries(Object.entries(times).map(([name, all]) => [name, [all[100], all[180]]]))));
"""


def main() -> None:
    """Measure and print."""
    losses = []
    for name in gradlab.loss_names():
        loss = gradlab.get_loss(name)
        script = compile_scene(loss)
        batch = json.dumps(needs_batch(loss))
        losses.append(
            f"{name}: {{batch: {batch}, values: {json.dumps(script.numbers)}, scene: {script.text}}}"
        )
    sphere = (resources.files("gradlab.explorer") / "sphere.js").read_text(encoding="utf-8")
    text = f"const state = {{}}; const LOSSES = {{{', '.join(losses)}}}; const BOUNDS = {compile_script(bounds, None, example_of_bounds).text};"
    for name, (median, high) in json.loads(run_script(text + sphere + MEASURE)).items():
        print(f"{name}: median {median:.3f} ms, 90th percentile {high:.3f} ms")


if __name__ == "__main__":
    main()
