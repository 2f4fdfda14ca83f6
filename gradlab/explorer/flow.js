// The flow of one anchor: the rule of gradlab/flow/runge_kutta.py and flowing.py, on the sphere. FLOW holds its constants.
"use strict";
const minus = (a, b) => plus(a, scaled(b, -1));

// One step of the embedded Runge-Kutta pair of order 2(3); `field` gives the velocity at a point of the sphere.
const rungeKuttaStep = (field, point, first, size) => {
  const second = field(unit(plus(point, scaled(first, size / 2))));
  const third = field(unit(plus(point, scaled(second, (3 * size) / 4))));
  const shift = scaled(plus(plus(scaled(first, 2 / 9), scaled(second, 1 / 3)), scaled(third, 4 / 9)), size);
  const after = unit(plus(point, shift)), last = field(after);
  const error = plus(plus(scaled(first, -5 / 72), scaled(second, 1 / 12)), plus(scaled(third, 1 / 9), scaled(last, -1 / 8)));
  return { point: after, velocity: last, displacement: norm(shift), error: size * norm(error), change: norm(minus(last, first)) };
};

// The flow of an anchor, step by step, until `end` says how it ended.
class AnchorFlow {
  // `field(point)` is the velocity, `push(point)` the relative push; `gated` says whether a vanished push means that a gate has closed.
  constructor(field, push, anchor, gated) {
    Object.assign(this, { field, push, gated, point: anchor, velocity: field(anchor), window: anchor });
    Object.assign(this, { time: 0, count: 0, size: 0, fastest: 0, jumpAngle: FLOW.jump_angle, nearJump: 0, jumps: 0, next: 0, recorded: 0, end: "" });
    this.trail = [anchor];
    this.judge();
  }

  factor(allowed, error) { return error > 0 ? 0.9 * (allowed / error) ** (1 / 3) : FLOW.growth; }

  crossesJump(step) {
    const steep = step.change > FLOW.steep * this.fastest * step.displacement;
    return step.displacement <= this.jumpAngle && (steep || this.nearJump > 0);
  }

  refine() {
    const smallest = FLOW.smallest_jump_angle * FLOW.tolerance, refined = this.jumpAngle > smallest;
    this.jumpAngle = Math.max(this.jumpAngle / 4, smallest);
    return refined;
  }

  step() {
    if (this.end) return;
    const speed = norm(this.velocity);
    let size = Math.min(this.size || FLOW.tolerance / speed, FLOW.largest_angle / speed), step, allowed;
    for (;;) {
      step = rungeKuttaStep(this.field, this.point, this.velocity, size);
      allowed = Math.min(FLOW.tolerance, FLOW.relative_error * step.displacement);
      if (step.error <= allowed || this.crossesJump(step)) break;
      size *= Math.min(Math.max(this.factor(allowed, step.error), 0.1), 0.5);
    }
    const jump = step.error > allowed;
    this.size = jump ? this.jumpAngle / Math.max(norm(step.velocity), 1e-300) : size * Math.min(this.factor(allowed, step.error), FLOW.growth);
    this.nearJump = jump ? FLOW.near_jump : Math.max(this.nearJump - 1, 0);
    this.jumps = this.nearJump ? this.jumps + 1 : 0;
    Object.assign(this, { point: step.point, velocity: step.velocity });
    this.time += size;
    this.count += 1;
    this.trail.push(this.point);
    this.judge();
  }

  // How the flow ended, if it did, in the words of the library.
  judge() {
    const speed = norm(this.velocity);
    this.fastest = Math.max(this.fastest, speed);
    let end = "";
    if (speed <= FLOW.at_rest * this.fastest) end = "at rest";
    else if (this.jumps && this.jumps % FLOW.window === 0) {
      const stuck = norm(minus(this.point, this.window)) <= FLOW.stuck * this.jumpAngle;
      if (stuck && !this.refine()) end = "at rest";
      this.window = this.point;
    } else if (!this.jumps) this.window = this.point;
    if (!end && this.count === FLOW.steps) {
      const slow = speed * this.time * Math.LN2 <= FLOW.tolerance && speed <= FLOW.slow * this.fastest;
      end = slow && !this.jumps ? "at rest" : "still moving";
    }
    if (end || this.time >= this.next || this.count - this.recorded >= FLOW.sparsest) {
      const push = Math.abs(this.push(this.point)) || 0; // NaN: no negative acts
      if (this.gated && push <= FLOW.stopped && (speed <= FLOW.stopped * this.fastest || this.fastest === 0)) end = "stopped learning";
      this.next = this.time * Math.exp(1 / FLOW.density);
      this.recorded = this.count;
    }
    this.end = end;
  }
}
