// Numbers: NumPy's random streams, a stabilised Runge–Kutta method, symmetric eigenvalues, quadrature. No library.

// ------------------------------------------------------------------ random numbers, NumPy's to the last bits

/** The generator that `numpy.random.default_rng` makes of a seed and a spawn key: PCG64 behind SeedSequence. */
function generator(seed, spawnKey = []) {
  const words = seedWords(seed, spawnKey);
  const mask = (1n << 128n) - 1n, low = (1n << 64n) - 1n;
  const pair = i => BigInt(words[i]) | (BigInt(words[i + 1]) << 32n);
  const increment = ((((pair(4) << 64n) | pair(6)) << 1n) | 1n) & mask;
  let state = 0n;
  const step = () => { state = (state * 0x2360ed051fc65da44385df649fccf645n + increment) & mask; };
  step();
  state = (state + ((pair(0) << 64n) | pair(2))) & mask;
  step();
  function bits() {
    step();
    const value = (state >> 64n) ^ (state & low), turn = state >> 122n;
    return ((value >> turn) | (value << (64n - turn))) & low;
  }
  const uniform = () => Number(bits() >> 11n) / 9007199254740992;
  return { bits, uniform, normal: () => normal(bits, uniform), chiSquare: k => 2 * gamma(k / 2, bits, uniform) };
}

/** Eight words of 32 bits from a seed (below 2⁵³) and a spawn key. */
function seedWords(seed, spawnKey) {
  const entropy = seed >= 2 ** 32 ? [seed >>> 0, Math.floor(seed / 2 ** 32)] : [seed];
  if (spawnKey.length) {
    while (entropy.length < 4) entropy.push(0);
    entropy.push(...spawnKey);
  }
  const times = Math.imul;
  let constant = 0x43b0d7e5;
  const hash = value => {
    value ^= constant;
    constant = times(constant, 0x931e8875);
    value = times(value, constant);
    return (value ^ (value >>> 16)) >>> 0;
  };
  const mix = (x, y) => {
    const found = (times(0xca01f9dd, x) - times(0x4973f715, y)) | 0;
    return (found ^ (found >>> 16)) >>> 0;
  };
  const pool = [0, 1, 2, 3].map(i => hash(i < entropy.length ? entropy[i] : 0));
  for (let from = 0; from < 4; from++)
    for (let to = 0; to < 4; to++) if (from !== to) pool[to] = mix(pool[to], hash(pool[from]));
  for (const word of entropy.slice(4)) for (let to = 0; to < 4; to++) pool[to] = mix(pool[to], hash(word));
  constant = 0x8b51f9dd;
  return Array.from({ length: 8 }, (_, i) => {
    let value = pool[i % 4] ^ constant;
    constant = times(constant, 0x58f38ded);
    value = times(value, constant);
    return (value ^ (value >>> 16)) >>> 0;
  });
}

/** Layers of the ziggurat (Marsaglia and Tsang 2000) with 256 layers and 52 bits. */
const ziggurat = (() => {
  const edge = 3.6541528853610088, unit = 2 ** 52;
  const limit = new Float64Array(256), width = new Float64Array(256), height = new Float64Array(256);
  const density = x => Math.exp(-0.5 * x * x);
  const area = edge * density(edge) + quadrature(density, edge, edge + 12, 100);
  let x = edge, last = edge;
  const base = area / density(x);
  limit[0] = (x / base) * unit;
  width[0] = base / unit;
  width[255] = x / unit;
  height[0] = 1;
  height[255] = density(x);
  for (let i = 254; i >= 1; i--) {
    x = Math.sqrt(-2 * Math.log(area / x + density(x)));
    limit[i + 1] = (x / last) * unit;
    last = x;
    height[i] = density(x);
    width[i] = x / unit;
  }
  return { edge, limit, width, height };
})();

function normal(bits, uniform) {
  const { edge, limit, width, height } = ziggurat;
  for (;;) {
    const word = bits(), layer = Number(word & 0xffn), share = Number((word >> 9n) & 0xfffffffffffffn);
    const x = ((word >> 8n) & 1n ? -1 : 1) * share * width[layer];
    if (share < limit[layer]) return x;
    if (layer === 0) {
      for (;;) {
        const out = -Math.log1p(-uniform()) / edge, high = -Math.log1p(-uniform());
        if (high + high > out * out) return (share >= 2 ** 8 && (BigInt(share) >> 8n) & 1n ? -1 : 1) * (edge + out);
      }
    }
    if ((height[layer - 1] - height[layer]) * uniform() + height[layer] < Math.exp(-0.5 * x * x)) return x;
  }
}

/** Gamma of shape above 1 (Marsaglia and Tsang 2000). */
function gamma(shape, bits, uniform) {
  const b = shape - 1 / 3, c = 1 / Math.sqrt(9 * b);
  for (;;) {
    let x, v;
    do {
      x = normal(bits, uniform);
      v = 1 + c * x;
    } while (v <= 0);
    v = v * v * v;
    const u = uniform();
    if (u < 1 - 0.0331 * x * x * x * x || Math.log(u) < 0.5 * x * x + b * (1 - v + Math.log(v))) return b * v;
  }
}

/** A quick generator of standard normals for noise paths (sfc32, polar method): no stream of Python's. */
function quickNormals(seed) {
  let a = 0x9e3779b9, b = 0x243f6a88, c = seed >>> 0, count = 1, spare = null;
  const uniform = () => {
    const t = (((a + b) | 0) + count) | 0;
    count = (count + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + t | 0;
    return (t >>> 0) / 4294967296;
  };
  for (let i = 0; i < 20; i++) uniform();
  return () => {
    if (spare !== null) {
      const kept = spare;
      spare = null;
      return kept;
    }
    for (;;) {
      const x = 2 * uniform() - 1, y = 2 * uniform() - 1, s = x * x + y * y;
      if (s > 0 && s < 1) {
        const scale = Math.sqrt((-2 * Math.log(s)) / s);
        spare = y * scale;
        return x * scale;
      }
    }
  };
}

// ------------------------------------------------------------------ kernels that are no polynomial

/** Σ_k b_k T_k(2θ/π) at c = sin θ, by Clenshaw's recurrence; a cosine beyond ±1 is rounding and counts as ±1. */
function inAngle([first, ...rest]) {
  return c => {
    const twice = (4 / Math.PI) * Math.asin(Math.min(1, Math.max(-1, c)));
    let last = 0, before = 0;
    for (let k = rest.length - 1; k >= 0; k--) [last, before] = [rest[k] + twice * last - before, last];
    return first + (twice / 2) * last - before;
  };
}

// ------------------------------------------------------------------ ordinary differential equations

/** Stages of a step at most, and of stiffness times length what a page has patience for. */
const MOST_STAGES = 1000, PATIENCE = 2e8;

/**
 * Steps of y' = f(y) from 0 to `end` by the Runge–Kutta–Chebyshev method of order 2 (Sommeijer, Shampine, Verwer 1998):
 * explicit, with as many stages as a step's stiffness asks for, so that a long plateau costs a few steps.
 *
 * f(y, out) fills `out`. `floor` (per component): below it an error counts absolutely. After each step it yields
 * {time, y, slope, before: {time, y, slope}}, arrays that are overwritten by the next.
 */
function* integrate(f, start, end, { tolerance = 1e-5, floor, steps = 60, most = 1e6 } = {}) {
  const n = start.length, fresh = () => new Float64Array(n);
  let y = Float64Array.from(start), next = fresh(), slope = fresh(), later = fresh();
  const work = [fresh(), fresh(), fresh()], direction = fresh();
  f(y, slope);
  let time = 0, radius = spectralRadius(f, y, slope, direction, work), age = 0;
  if (!(end * radius < PATIENCE)) throw new Error(`${end.toExponential(1)} units of time are more than a page integrates; the predicted times stand`);
  let size = Math.min(end / steps, 0.1 / Math.max(radius, 1e-12), end);
  for (let count = 0; time < end && count < most; count++) {
    if (age++ > 12) {
      radius = spectralRadius(f, y, slope, direction, work);
      age = 0;
    }
    size = Math.min(size, end / steps, (0.65 * MOST_STAGES ** 2) / Math.max(radius, 1e-300));
    const last = time + size * (1 + 1e-9) >= end;
    if (last) size = end - time;
    const stages = Math.max(2, 1 + Math.floor(Math.sqrt(1 + 1.54 * size * radius)));
    chebyshevStep(f, y, slope, size, stages, next, work);
    f(next, later);
    let error = 0;
    for (let i = 0; i < n; i++) {
      const scale = tolerance * (Math.max(Math.abs(y[i]), Math.abs(next[i])) + floor[i]);
      error += ((0.8 * (y[i] - next[i]) + 0.4 * size * (slope[i] + later[i])) / scale) ** 2;
    }
    error = Math.sqrt(error / n);
    const factor = Number.isFinite(error) ? Math.min(4, Math.max(0.15, 0.8 / Math.cbrt(Math.max(error, 1e-9)))) : 0.15;
    if (error <= 1) {
      const before = { time, y, slope };
      time = last ? end : time + size;
      yield { time, y: next, slope: later, before };
      [y, next] = [next, y];
      [slope, later] = [later, slope];
    } else age = 99;
    size *= factor;
    if (size < 1e-14 * end) throw new Error("the step size has vanished: the equation is too stiff here");
  }
}

function chebyshevStep(f, y, slope, size, stages, out, [one, two, rate]) {
  const n = y.length, w0 = 1 + 2 / (13 * stages * stages), root = Math.sqrt(w0 * w0 - 1);
  const angle = stages * Math.log(w0 + root);
  const w1 = (Math.sinh(angle) * root * root) / (Math.cosh(angle) * stages * root - w0 * Math.sinh(angle));
  let b1 = 1 / (4 * w0 * w0), b2 = b1, z1 = w0, z2 = 1, d1 = 1, d2 = 0, e1 = 0, e2 = 0;
  let before = one, now = two;
  before.set(y);
  for (let i = 0; i < n; i++) now[i] = y[i] + size * w1 * b1 * slope[i];
  for (let j = 2; j <= stages; j++) {
    const z = 2 * w0 * z1 - z2, d = 2 * w0 * d1 - d2 + 2 * z1, e = 2 * w0 * e1 - e2 + 4 * d1, b = e / (d * d);
    const mu = (2 * w0 * b) / b1, nu = -b / b2, moved = (size * mu * w1) / w0, own = 1 - z1 * b1, rest = 1 - mu - nu;
    f(now, rate);
    const target = j === stages ? out : before;
    for (let i = 0; i < n; i++)
      target[i] = mu * now[i] + nu * before[i] + rest * y[i] + moved * (rate[i] - own * slope[i]);
    [before, now] = [now, target];
    [b2, b1, z2, z1, d2, d1, e2, e1] = [b1, b, z1, z, d1, d, e1, e];
  }
}

/**
 * Largest modulus of an eigenvalue of the Jacobian, with room, by the power method on differences of f. It begins with a part of
 * every component: one below the rounding of y would never grow. Where f has an edge it goes to and fro: the larger of both counts.
 */
function spectralRadius(f, y, slope, direction, [point, rate]) {
  const n = y.length, length = v => Math.sqrt(v.reduce((sum, x) => sum + x * x, 0));
  const known = length(direction) > 0 ? direction : slope, share = (0.1 * (length(known) || 1)) / Math.sqrt(n);
  for (let i = 0; i < n; i++) direction[i] = known[i] + share * Math.cos(7 * i + 1);
  let size = length(direction);
  const reach = 1e-7 * Math.max(length(y), 1e-3);
  let radius = 0, last = 0;
  for (let turn = 0; turn < 40; turn++) {
    for (let i = 0; i < n; i++) point[i] = y[i] + (reach / size) * direction[i];
    f(point, rate);
    for (let i = 0; i < n; i++) direction[i] = (rate[i] - slope[i]) / reach;
    size = length(direction);
    const settled = Math.abs(size - radius) < 0.02 * size;
    [last, radius] = [radius, size];
    if (!(size > 0) || (turn > 1 && settled)) break;
  }
  return 1.25 * Math.max(last, radius);
}

/** When a rising quantity passes `level` between two times: by the cubic through [value, rate] at both. */
function crossing(from, to, [low, lowRate], [high, highRate], level) {
  const span = to - from;
  let left = 0, right = 1;
  for (let turn = 0; turn < 50; turn++) {
    const s = (left + right) / 2, t = 1 - s;
    const ends = low * t * t * (1 + 2 * s) + high * s * s * (3 - 2 * s);
    if (ends + span * s * t * (lowRate * t - highRate * s) < level) left = s;
    else right = s;
  }
  return from + right * span;
}

// ------------------------------------------------------------------ linear algebra and quadrature

/** Eigenvalues of a symmetric matrix (flat, n × n), decreasing, by Jacobi's rotations. */
function eigenvalues(matrix, n) {
  const a = Float64Array.from(matrix);
  for (let sweep = 0; sweep < 30; sweep++) {
    let off = 0;
    for (let p = 0; p < n; p++) for (let q = 0; q < p; q++) off += a[p * n + q] ** 2;
    if (off < 1e-26) break;
    for (let p = 0; p < n; p++)
      for (let q = 0; q < p; q++) {
        if (Math.abs(a[p * n + q]) < 1e-300) continue;
        const ratio = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
        const t = Math.sign(ratio || 1) / (Math.abs(ratio) + Math.sqrt(ratio * ratio + 1));
        const c = 1 / Math.sqrt(t * t + 1), s = t * c;
        for (let k = 0; k < n; k++) {
          const x = a[k * n + p], y = a[k * n + q];
          a[k * n + p] = c * x - s * y;
          a[k * n + q] = s * x + c * y;
        }
        for (let k = 0; k < n; k++) {
          const x = a[p * n + k], y = a[q * n + k];
          a[p * n + k] = c * x - s * y;
          a[q * n + k] = s * x + c * y;
        }
      }
  }
  return Array.from({ length: n }, (_, i) => a[i * n + i]).sort((x, y) => y - x);
}

/** Z (rows × n) with ZZᵀ = X M⁻¹ Xᵀ for a positive definite M (n × n) and X (rows × n), by Cholesky's factor. */
function halfSandwich(x, matrix, rows, n) {
  const factor = new Float64Array(n * n), half = new Float64Array(rows * n);
  for (let i = 0; i < n; i++)
    for (let j = 0; j <= i; j++) {
      let sum = matrix[i * n + j];
      for (let k = 0; k < j; k++) sum -= factor[i * n + k] * factor[j * n + k];
      factor[i * n + j] = i === j ? Math.sqrt(sum) : sum / factor[j * n + j];
    }
  for (let p = 0; p < rows; p++)
    for (let i = 0; i < n; i++) {
      let sum = x[p * n + i];
      for (let k = 0; k < i; k++) sum -= factor[i * n + k] * half[p * n + k];
      half[p * n + i] = sum / factor[i * n + i];
    }
  return half;
}

/** ZZᵀ (rows × rows) of Z (rows × n). */
function gramOf(z, rows, n) {
  const out = new Float64Array(rows * rows);
  for (let p = 0; p < rows; p++)
    for (let q = 0; q < rows; q++)
      for (let i = 0; i < n; i++) out[p * rows + q] += z[p * n + i] * z[q * n + i];
  return out;
}

/** ∫ f from low to high by Gauss's rule of five nodes on equal panels. */
function quadrature(f, low, high, panels = 48) {
  const inner = Math.sqrt(5 - 2 * Math.sqrt(10 / 7)) / 3, outer = Math.sqrt(5 + 2 * Math.sqrt(10 / 7)) / 3;
  const near = (322 + 13 * Math.sqrt(70)) / 900, far = (322 - 13 * Math.sqrt(70)) / 900;
  const half = (high - low) / panels / 2;
  let sum = 0;
  for (let i = 0; i < panels; i++) {
    const middle = low + (2 * i + 1) * half;
    sum += (128 / 225) * f(middle) + near * (f(middle - inner * half) + f(middle + inner * half));
    sum += far * (f(middle - outer * half) + f(middle + outer * half));
  }
  return sum * half;
}
