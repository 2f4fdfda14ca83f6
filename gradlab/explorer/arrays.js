// Arrays for the compiled losses: the operations that gradlab/explorer/tracing.py records, in float64.
// An array is {shape, data}; a plain number serves as an array without axes. Truth values are 0 and 1.
"use strict";
const $ = (() => {
  const make = (shape, data) => ({ shape, data });
  const length = (shape) => { let size = 1; for (let i = 0; i < shape.length; i++) size *= shape[i]; return size; };
  const same = (one, other) => {
    if (one.length !== other.length) return false;
    for (let i = 0; i < one.length; i++) if (one[i] !== other[i]) return false;
    return true;
  };
  const isNumber = (x) => typeof x === "number" || typeof x === "boolean";
  const shapeOf = (x) => (isNumber(x) ? [] : x.shape);
  const dataOf = (x) => (isNumber(x) ? Float64Array.of(+x) : x.data);
  const filled = (shape, value) => make(shape, new Float64Array(length(shape)).fill(value));
  const axisOf = (axis, rank) => (axis < 0 ? axis + rank : axis);
  const strides = (shape) => {
    const steps = new Array(shape.length);
    for (let axis = shape.length - 1, step = 1; axis >= 0; axis--) { steps[axis] = step; step *= shape[axis]; }
    return steps;
  };

  const common = (...shapes) => {
    const rank = Math.max(...shapes.map((shape) => shape.length));
    const out = new Array(rank).fill(1);
    for (const shape of shapes) {
      shape.forEach((size, index) => {
        const axis = index + rank - shape.length;
        if (size === 1) return;
        if (out[axis] !== 1 && out[axis] !== size) throw new Error(`shapes do not fit: ${shapes.map((s) => `(${s})`)}`);
        out[axis] = size;
      });
    }
    return out;
  };
  // Where each entry of `shape` comes from in an array of shape `from`.
  const sources = (from, shape) => {
    const steps = strides(from), offset = shape.length - from.length;
    let index = new Int32Array(1);
    shape.forEach((size, axis) => {
      const own = axis - offset;
      const step = own >= 0 && from[own] !== 1 ? steps[own] : 0;
      const next = new Int32Array(index.length * size);
      for (let i = 0, at = 0; i < index.length; i++) for (let j = 0; j < size; j++) next[at++] = index[i] + j * step;
      index = next;
    });
    return index;
  };
  const picked = (data, index) => {
    const out = new Float64Array(index.length);
    for (let i = 0; i < out.length; i++) out[i] = data[index[i]];
    return out;
  };
  const spread = (x, shape) => {
    const size = length(shape);
    if (isNumber(x)) return new Float64Array(size).fill(+x);
    if (x.data.length === size) return x.data; // the axes that it lacks have length 1
    if (x.data.length === 1) return new Float64Array(size).fill(x.data[0]);
    return picked(x.data, sources(x.shape, shape));
  };

  const unary = (f) => (x) => {
    if (isNumber(x)) return f(+x);
    const { data } = x, out = new Float64Array(data.length);
    for (let i = 0; i < out.length; i++) out[i] = f(data[i]);
    return make(x.shape, out);
  };
  // Most of a scene are small arrays: one of both whole, the other whole, a number, a row or a column.
  const binary = (f) => (a, b) => {
    if (isNumber(a) && isNumber(b)) return f(+a, +b);
    const shape = isNumber(a) ? b.shape : isNumber(b) || same(a.shape, b.shape) ? a.shape : common(a.shape, b.shape);
    const size = length(shape), last = shape.length ? shape[shape.length - 1] : 1, out = new Float64Array(size);
    const first = dataOf(a), second = dataOf(b), lone = (x, data) => (isNumber(x) || data.length === 1) && size !== 1;
    const isColumn = (x, data) => data.length * last === size && x.shape[x.shape.length - 1] === 1;
    if (first.length === size && second.length === size) for (let i = 0; i < size; i++) out[i] = f(first[i], second[i]);
    else if (lone(b, second) && first.length === size) { const y = second[0]; for (let i = 0; i < size; i++) out[i] = f(first[i], y); }
    else if (lone(a, first) && second.length === size) { const x = first[0]; for (let i = 0; i < size; i++) out[i] = f(x, second[i]); }
    else if (first.length === size && isColumn(b, second)) for (let i = 0, r = 0; i < size; r++) for (let c = 0; c < last; c++, i++) out[i] = f(first[i], second[r]);
    else if (second.length === size && isColumn(a, first)) for (let i = 0, r = 0; i < size; r++) for (let c = 0; c < last; c++, i++) out[i] = f(first[r], second[i]);
    else {
      const x = spread(a, shape), y = spread(b, shape);
      for (let i = 0; i < size; i++) out[i] = f(x[i], y[i]);
    }
    return make(shape, out);
  };
  const where = (condition, a, b) => {
    const shape = common(shapeOf(condition), shapeOf(a), shapeOf(b));
    const yes = spread(condition, shape), first = spread(a, shape), second = spread(b, shape), out = new Float64Array(yes.length);
    for (let i = 0; i < out.length; i++) out[i] = yes[i] ? first[i] : second[i];
    return make(shape, out);
  };

  // The entries along some axes become one number each; axis null is all of them.
  const reduce = (f) => (x, { axis = null, keepdims = false } = {}) => {
    const shape = shapeOf(x), rank = shape.length;
    if (rank && (axis === -1 || axis === rank - 1)) { // the usual case
      const inner = shape[rank - 1], outer = shape.slice(0, -1), out = new Float64Array(length(outer));
      for (let i = 0; i < out.length; i++) out[i] = f(x.data, i * inner, inner);
      return make(keepdims ? [...outer, 1] : outer, out);
    }
    const over = axis === null ? shape.map((_, i) => i) : [].concat(axis).map((a) => axisOf(a, rank));
    const kept = shape.map((_, i) => i).filter((i) => !over.includes(i));
    const last = kept.every((a, i) => a === i); // already the last ones
    const moved = last ? make(shape, dataOf(x)) : permute_dims(x, [...kept, ...over]);
    const outer = kept.map((a) => shape[a]), inner = length(over.map((a) => shape[a]));
    const out = new Float64Array(length(outer));
    for (let i = 0; i < out.length; i++) out[i] = f(moved.data, i * inner, inner);
    return make(keepdims ? shape.map((size, a) => (over.includes(a) ? 1 : size)) : outer, out);
  };
  const total = (data, start, count) => {
    let sum = 0;
    for (let i = start; i < start + count; i++) sum += data[i];
    return sum;
  };
  const extreme = (better) => (data, start, count) => {
    let best = start;
    for (let i = start; i < start + count; i++) {
      if (Number.isNaN(data[i])) return i - start;
      if (better(data[i], data[best])) best = i;
    }
    return best - start;
  };
  const [largest, smallest] = [extreme((a, b) => a > b), extreme((a, b) => a < b)];

  const permute_dims = (x, axes) => {
    const steps = strides(x.shape), shape = axes.map((a) => x.shape[a]);
    return gather(x, shape, axes.map((a, i) => Int32Array.from({ length: shape[i] }, (_, j) => j * steps[a])));
  };
  // Entries at the sums of one offset of each list.
  const gather = (x, shape, offsets, base = 0) => {
    let index = Int32Array.of(base);
    for (const list of offsets) {
      const next = new Int32Array(index.length * list.length);
      for (let i = 0, at = 0; i < index.length; i++) for (let j = 0; j < list.length; j++) next[at++] = index[i] + list[j];
      index = next;
    }
    return make(shape, picked(x.data, index));
  };
  const positions = (slice, size) => {
    const step = slice.step ?? 1;
    const clamp = (v, low, high) => Math.min(Math.max(v < 0 ? v + size : v, low), high);
    const start = slice.start === null ? (step > 0 ? 0 : size - 1) : clamp(slice.start, step > 0 ? 0 : -1, step > 0 ? size : size - 1);
    const stop = slice.stop === null ? (step > 0 ? size : -1) : clamp(slice.stop, step > 0 ? 0 : -1, step > 0 ? size : size - 1);
    return Array.from({ length: Math.max(0, Math.ceil((stop - start) / step)) }, (_, i) => start + i * step);
  };
  const isWhole = (part, size) => typeof part === "object" && part.data === undefined && part.start === null && (part.step ?? 1) === 1 && (part.stop === null || part.stop >= size);
  // What numbers at the beginning and whole axes behind them select lies in one piece; null if something else is asked for.
  const piece = (x, parts, steps) => {
    const shape = [];
    let axis = 0, base = 0, size = x.data.length;
    for (const part of parts) {
      if (part === null) { shape.push(1); continue; }
      const count = x.shape[axis];
      if (isNumber(part)) {
        if (shape.length) return null;
        base += axisOf(+part, count) * steps[axis];
        size = steps[axis];
      } else if (isWhole(part, count)) shape.push(count);
      else return null;
      axis++;
    }
    return make(shape, size === x.data.length ? x.data : x.data.subarray(base, base + size));
  };
  const getitem = (x, ...index) => {
    const used = index.filter((part) => part !== null && part !== "...").length;
    const rest = new Array(x.shape.length - used).fill({ start: null, stop: null, step: null });
    const dots = index.indexOf("...");
    const parts = dots < 0 ? [...index, ...rest] : [...index.slice(0, dots), ...rest, ...index.slice(dots + 1)];
    const steps = strides(x.shape), shape = [], offsets = [], whole = piece(x, parts, steps);
    if (whole) return whole;
    let axis = 0, base = 0;
    for (const part of parts) {
      if (part === null) { shape.push(1); continue; }
      const size = x.shape[axis], step = steps[axis++];
      if (isNumber(part)) { base += axisOf(+part, size) * step; continue; }
      const isArray = part.data !== undefined;
      const chosen = isArray ? part.data : positions(part, size);
      shape.push(...(isArray ? part.shape : [chosen.length]));
      offsets.push(Int32Array.from(chosen, (at) => axisOf(at, size) * step));
    }
    return gather(x, shape, offsets, base);
  };

  const matmul = (a, b) => {
    if (a.shape.length === 1) return squeeze(matmul(expand_dims(a, { axis: 0 }), b), { axis: -2 });
    if (b.shape.length === 1) return squeeze(matmul(a, expand_dims(b, { axis: 1 })), { axis: -1 });
    const [n, k] = a.shape.slice(-2), m = b.shape[b.shape.length - 1];
    if (b.shape[b.shape.length - 2] !== k) throw new Error(`shapes do not fit: (${a.shape}) @ (${b.shape})`);
    const batch = common(a.shape.slice(0, -2), b.shape.slice(0, -2));
    const first = sources(a.shape.slice(0, -2), batch), second = sources(b.shape.slice(0, -2), batch);
    const out = new Float64Array(length(batch) * n * m);
    for (let s = 0, at = 0; s < first.length; s++) {
      for (let i = 0; i < n; i++) {
        for (let j = 0; j < m; j++) {
          let sum = 0;
          for (let c = 0, p = (first[s] * n + i) * k, q = second[s] * k * m + j; c < k; c++, q += m) sum += a.data[p + c] * b.data[q];
          out[at++] = sum;
        }
      }
    }
    return make([...batch, n, m], out);
  };
  const expand_dims = (x, { axis }) => {
    const shape = [...shapeOf(x)];
    shape.splice(axisOf(axis, shape.length + 1), 0, 1);
    return make(shape, Float64Array.from(dataOf(x)));
  };
  const squeeze = (x, { axis }) => {
    const gone = [].concat(axis).map((a) => axisOf(a, x.shape.length));
    return make(x.shape.filter((_, i) => !gone.includes(i)), x.data);
  };
  const concat = (arrays, { axis = 0 } = {}) => {
    const rank = arrays[0].shape.length, at = axisOf(axis, rank);
    const outer = length(arrays[0].shape.slice(0, at));
    const shape = arrays[0].shape.map((size, i) => (i === at ? arrays.reduce((sum, x) => sum + x.shape[at], 0) : size));
    const out = new Float64Array(length(shape));
    let place = 0;
    for (let i = 0; i < outer; i++) {
      for (const x of arrays) {
        const chunk = x.data.length / outer;
        out.set(x.data.subarray(i * chunk, (i + 1) * chunk), place);
        place += chunk;
      }
    }
    return make(shape, out);
  };
  const reshape = (x, shape) => {
    const known = -length(shape), count = dataOf(x).length;
    return make(shape.map((size) => (size === -1 ? count / known : size)), Float64Array.from(dataOf(x)));
  };
  const take = (x, index, { axis = 0 } = {}) => {
    const parts = new Array(axisOf(axis, x.shape.length)).fill({ start: null, stop: null, step: null });
    return getitem(x, ...parts, index);
  };
  const take_along_axis = (x, index, { axis = -1 } = {}) => {
    const at = axisOf(axis, x.shape.length), size = x.shape[at];
    const shape = common(x.shape.map((n, i) => (i === at ? 1 : n)), index.shape);
    const chosen = spread(index, shape), inner = length(shape.slice(at + 1)), count = shape[at];
    const rows = sources(x.shape.map((n, i) => (i === at ? 1 : n)), shape.map((n, i) => (i === at ? 1 : n)));
    const out = Float64Array.from(chosen, (pick, i) => {
      const row = rows[Math.floor(i / (inner * count)) * inner + (i % inner)];
      const outer = Math.floor(row / inner), rest = row % inner;
      return x.data[(outer * size + axisOf(pick, size)) * inner + rest];
    });
    return make(shape, out);
  };
  const triangle = (keeps) => (x, { k = 0 } = {}) => {
    const [n, m] = x.shape.slice(-2);
    return make(x.shape, x.data.map((value, at) => (keeps((at % m) - (Math.floor(at / m) % n), k) ? value : 0)));
  };
  const nested = (list) => (Array.isArray(list) ? [list.length, ...nested(list[0] ?? 0)] : []);
  const diagonal = (x) => {
    const [n, m] = x.shape.slice(-2), count = Math.min(n, m);
    const out = new Float64Array((x.data.length / (n * m)) * count);
    for (let i = 0; i < out.length; i++) out[i] = x.data[Math.floor(i / count) * n * m + (i % count) * (m + 1)];
    return make([...x.shape.slice(0, -2), count], out);
  };
  const like = (value) => (x) => (isNumber(x) ? value : filled(x.shape, value));
  const truth = (f) => (...args) => (f(...args) ? 1 : 0);
  const remainder = (a, b) => a - b * Math.floor(a / b);
  const logaddexp = (a, b) => (a === b ? a + Math.LN2 : Math.max(a, b) + Math.log1p(Math.exp(-Math.abs(a - b))));
  const isOptions = (x) => typeof x === "object" && x !== null && !("shape" in x);
  const shapeList = (shape) => [].concat(isNumber(shape) ? +shape : shape);
  const subtract = binary((a, b) => a - b), sum = reduce(total);

  return {
    negative: unary((x) => -x), positive: unary((x) => x), abs: unary(Math.abs), sign: unary(Math.sign),
    exp: unary(Math.exp), expm1: unary(Math.expm1), log: unary(Math.log), log1p: unary(Math.log1p), sqrt: unary(Math.sqrt),
    sin: unary(Math.sin), cos: unary(Math.cos), tan: unary(Math.tan), asin: unary(Math.asin), acos: unary(Math.acos),
    atan: unary(Math.atan), sinh: unary(Math.sinh), cosh: unary(Math.cosh), tanh: unary(Math.tanh), atanh: unary(Math.atanh),
    floor: unary(Math.floor), ceil: unary(Math.ceil), trunc: unary(Math.trunc), square: unary((x) => x * x),
    isfinite: unary(truth(Number.isFinite)), isnan: unary(truth(Number.isNaN)), isinf: unary(truth((x) => Math.abs(x) === Infinity)),
    logical_not: unary(truth((x) => !x)),
    add: binary((a, b) => a + b), subtract, multiply: binary((a, b) => a * b), divide: binary((a, b) => a / b),
    floor_divide: binary((a, b) => Math.floor(a / b)), remainder: binary(remainder), pow: binary((a, b) => (b === 2 ? a * a : a ** b)),
    atan2: binary(Math.atan2), hypot: binary(Math.hypot), maximum: binary(Math.max), minimum: binary(Math.min), logaddexp: binary(logaddexp),
    less: binary(truth((a, b) => a < b)), less_equal: binary(truth((a, b) => a <= b)), greater: binary(truth((a, b) => a > b)),
    greater_equal: binary(truth((a, b) => a >= b)), equal: binary(truth((a, b) => a === b)), not_equal: binary(truth((a, b) => a !== b)),
    logical_and: binary(truth((a, b) => a && b)), logical_or: binary(truth((a, b) => a || b)), logical_xor: binary(truth((a, b) => !a !== !b)),
    where,
    clip: (x, ...limits) => {
      const named = isOptions(limits[limits.length - 1]) ? limits.pop() : {};
      const low = limits[0] ?? named.min ?? null, high = limits[1] ?? named.max ?? null;
      const above = low === null ? x : binary(Math.max)(x, low);
      return high === null ? above : binary(Math.min)(above, high);
    },
    sum, mean: reduce((data, start, count) => total(data, start, count) / count),
    prod: reduce((data, start, count) => data.subarray(start, start + count).reduce((a, b) => a * b, 1)),
    max: reduce((data, start, count) => data[start + largest(data, start, count)]),
    min: reduce((data, start, count) => data[start + smallest(data, start, count)]),
    argmax: reduce(largest), argmin: reduce(smallest),
    all: reduce((data, start, count) => +data.subarray(start, start + count).every((x) => x)),
    any: reduce((data, start, count) => +data.subarray(start, start + count).some((x) => x)),
    count_nonzero: reduce((data, start, count) => data.subarray(start, start + count).reduce((n, x) => n + (x !== 0), 0)),
    linalg_vector_norm: reduce((data, start, count) => {
      let squares = 0;
      for (let i = start; i < start + count; i++) squares += data[i] * data[i];
      return Math.sqrt(squares);
    }),
    linalg_diagonal: diagonal,
    matmul, vecdot: (a, b, { axis = -1 } = {}) => sum(binary((x, y) => x * y)(a, b), { axis }),
    matrix_transpose: (x) => permute_dims(x, [...x.shape.keys()].map((a, i, all) => (i < all.length - 2 ? a : all[2 * all.length - 3 - i]))),
    permute_dims, reshape, expand_dims, squeeze, concat, take, take_along_axis, getitem,
    stack: (arrays, { axis = 0 } = {}) => {
      const at = axisOf(axis, shapeOf(arrays[0]).length + 1);
      return concat(arrays.map((x) => expand_dims(x, { axis: at })), { axis: at });
    },
    broadcast_to: (x, shape) => make([...shape], Float64Array.from(spread(x, shape))),
    broadcast_arrays: (...arrays) => {
      const shape = common(...arrays.map(shapeOf));
      return arrays.map((x) => make(shape, Float64Array.from(spread(x, shape))));
    },
    tril: triangle((offset, k) => offset <= k), triu: triangle((offset, k) => offset >= k),
    size: (x, axis) => x.shape[axis],
    asarray: (x) => (isNumber(x) ? filled([], +x) : Array.isArray(x) ? make(nested(x), Float64Array.from(x.flat(Infinity))) : x),
    astype: (x, kind) => (kind === "b" ? unary((v) => (v === 0 ? 0 : 1))(x) : kind === "i" ? unary(Math.trunc)(x) : x),
    arange: (start, stop = null, step = 1) => {
      const [from, to] = stop === null ? [0, start] : [start, stop];
      const count = Math.max(0, Math.ceil((to - from) / step));
      return make([count], Float64Array.from({ length: count }, (_, i) => from + i * step));
    },
    eye: (n, m = n) => make([n, m], Float64Array.from({ length: n * m }, (_, at) => (Math.floor(at / m) === at % m ? 1 : 0))),
    zeros: (shape) => filled(shapeList(shape), 0), ones: (shape) => filled(shapeList(shape), 1), full: (shape, value) => filled(shapeList(shape), dataOf(value)[0]),
    zeros_like: like(0), ones_like: like(1), full_like: (x, value) => filled(shapeOf(x), dataOf(value)[0]),
    // A condition that held when the loss was compiled, and without which the script means something else.
    require: (condition, way) => {
      if (Boolean(dataOf(condition)[0]) !== way) throw new RangeError("not defined here");
    },
  };
})();
if (typeof module !== "undefined") module.exports = $;
