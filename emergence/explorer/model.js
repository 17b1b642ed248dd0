// What the page knows of a problem. Equations, kernels and formulas are printed (`systems`, `kernels`, `laws`, `formulas`,
// `facts`); here they are given numbers and integrated.

/** Views of one flat vector as the arrays of a system's state. */
function viewsOf(shapes) {
  const known = new WeakMap();
  const places = [];
  let size = 0;
  for (const [name, axes] of Object.entries(shapes)) {
    const count = axes.reduce((x, y) => x * y, 1);
    places.push([name, size, size + count]);
    size += count;
  }
  const views = flat => {
    if (!known.has(flat)) known.set(flat, Object.fromEntries(places.map(([n, from, to]) => [n, flat.subarray(from, to)])));
    return known.get(flat);
  };
  return { views, size, places };
}

/** A printed system with numbers: right-hand side of one flat vector, and the vector of a state by names. */
function vectorField(name, sizes, phi, parameters) {
  const system = systems[name].make(sizes, phi);
  const { views, size } = viewsOf(system.shapes);
  const flat = state => {
    const y = new Float64Array(size);
    for (const [key, view] of Object.entries(views(y))) view.set(state[key]);
    return y;
  };
  const f = (y, out) => {
    system.drift(views(y), parameters, views(out));
    if (name === "overlap-flow") keepCosines(views(out).c, sizes.m);
  };
  return { system, views, flat, f };
}

/** Rates of cosines: one for both sides of the diagonal, none on it; rounding in what differs there grows where students repel. */
function keepCosines(rate, m) {
  for (let k = 0; k < m; k++) {
    rate[k * m + k] = 0;
    for (let l = 0; l < k; l++) rate[k * m + l] = rate[l * m + k];
  }
}

const rms = values => Math.sqrt(values.reduce((sum, x) => sum + x * x, 0) / values.length);

// ------------------------------------------------------------------ the additive model

/** Weights of a settings' teacher: p^−β, or those given; unit sum of squares unless told not to. */
function weightsOf({ P, beta, weights, normalise = true }) {
  const a = weights ?? Array.from({ length: P }, (_, p) => (p + 1) ** -beta);
  const size = normalise ? Math.hypot(...a) : 1;
  return Float64Array.from(a, x => x / size);
}

/** Kernel, Hermite degrees and parity of a settings' activation. */
function activationOf({ mixture, own }) {
  if (own) return { phi: kernels.own(), ...facts.own };
  const values = facts.degrees.map(j => mixture[j] ?? 0);
  const degrees = facts.degrees.filter((_, i) => values[i] !== 0);
  const parities = new Set(degrees.map(j => j % 2));
  const parity = parities.size > 1 ? null : parities.has(0) ? "even" : "odd";
  const leading = degrees.length ? mixture[degrees[0]] ** 2 : null;
  return { phi: kernels.mixture(...values), exponent: degrees[0] ?? null, leading, parity, values, centred: true };
}

/** Students uniform on the sphere of radius σ₀: the start of `emergence` at the same seed, to the last bits. */
function drawStart({ P, m, d, sigma0, seed }) {
  const random = generator(seed);
  const onTeachers = Float64Array.from({ length: m * P }, random.normal);
  const residual = bartlett(random, m, d - P);
  const t = new Float64Array(m * P), c = new Float64Array(m * m), r = new Float64Array(m).fill(sigma0 ** 2);
  const size = Array.from({ length: m }, (_, k) =>
    Math.hypot(...onTeachers.subarray(k * P, k * P + P), ...residual.subarray(k * m, k * m + m)));
  for (let k = 0; k < m; k++) {
    for (let p = 0; p < P; p++) t[k * P + p] = onTeachers[k * P + p] / size[k];
    for (let l = 0; l < m; l++) {
      let sum = 0;
      for (let p = 0; p < P; p++) sum += onTeachers[k * P + p] * onTeachers[l * P + p];
      for (let i = 0; i < m; i++) sum += residual[k * m + i] * residual[l * m + i];
      c[k * m + l] = k === l ? 1 : sum / size[k] / size[l];
    }
  }
  return { t, c, r };
}

/** Lower triangular A with AAᵀ a Wishart matrix (Bartlett 1933), from the stream as `theory.core.initial` takes it. */
function bartlett(random, width, freedom) {
  const factor = Float64Array.from({ length: width * width }, random.normal);
  for (let i = 0; i < width; i++) for (let j = i; j < width; j++) factor[i * width + j] = 0;
  for (let i = 0; i < width; i++) factor[i * width + i] = Math.sqrt(random.chiSquare(freedom - i));
  return factor;
}

/** Everything that is fixed by the settings before anything is integrated. */
function problemOf(settings) {
  const activation = activationOf(settings), a = weightsOf(settings), P = a.length;
  return { ...settings, P, a, activation, phi: activation.phi, start: drawStart({ ...settings, P }) };
}

/** One student's speed on its way to a direction of unit weight. */
const speedOf = phi => u => formulas.rate(phi)(u, 1)[0];

/** Time from overlap u to |u| = `end` for unit weight; infinite if it never gets there. */
function passageTime(phi, u, end = Math.SQRT1_2) {
  if (Math.abs(u) >= end) return 0;
  const speed = speedOf(phi), side = Math.sign(speed(u)), goal = side * end;
  if (side === 0 || u * goal <= 0) return Infinity;
  let stalled = false;
  const time = quadrature(s => {
    const x = side * Math.exp(s), v = speed(x) * side;
    if (!(v > 0)) stalled = true;
    return Math.exp(s) / v;
  }, Math.log(Math.abs(u)), Math.log(end));
  return stalled ? Infinity : time;
}

/** (m, P) inverse exact one-task times, on the scale of the leading scores a|u|^(J−2). */
function scoresOf({ a, P, m, phi, start, activation }) {
  const J = activation.exponent, constant = J > 2 ? J * (J - 2) * activation.leading : 1;
  return Float64Array.from(start.t, (u, i) => a[i % P] / (constant * Math.max(passageTime(phi, u), 1e-12)));
}

/** Repeatedly the largest entry, its row and column struck out; and by which factor each pair is clear of ties. */
function select(score, m, P) {
  const left = Float64Array.from(score), pairs = [];
  const byNeuron = new Map(), byDirection = new Map();
  const clearance = (own, rivals) => {
    let least = Infinity;
    for (const [value, taken] of rivals)
      if (value > 0) least = Math.min(least, Math.max(own / value, taken ? Math.min(taken.score / value, taken.lead) : 0));
    return least;
  };
  for (let turn = 0; turn < Math.min(m, P); turn++) {
    let best = 0;
    for (let i = 1; i < left.length; i++) if (left[i] > left[best]) best = i;
    if (!(left[best] > 0)) break;
    const k = Math.floor(best / P), q = best % P, own = score[best];
    const along = Array.from({ length: P }, (_, p) => [p === q ? 0 : score[k * P + p], byDirection.get(p)]);
    const across = Array.from({ length: m }, (_, l) => [l === k ? 0 : score[l * P + q], byNeuron.get(l)]);
    const pair = { neuron: k, direction: q, score: own, lead: Math.min(clearance(own, along), clearance(own, across)) };
    pairs.push(pair);
    byNeuron.set(k, pair);
    byDirection.set(q, pair);
    for (let p = 0; p < P; p++) left[k * P + p] = -1;
    for (let l = 0; l < m; l++) left[l * P + q] = -1;
  }
  return pairs;
}

/** |t_i| and its rate; ln Σ_k r_k t_kp² and its rate. */
const size = (y, slope, i) => [Math.abs(y.t[i]), Math.sign(y.t[i]) * slope.t[i]];
function logMass({ t, r }, slope, p, P) {
  let sum = 0, rate = 0;
  for (let k = 0; k < r.length; k++) {
    const u = t[k * P + p];
    sum += r[k] * u * u;
    rate += slope.r[k] * u * u + 2 * r[k] * u * slope.t[k * P + p];
  }
  return [Math.log(sum), rate / sum];
}

/**
 * Half time and loss time of one student and one teacher of weight a: the printed flow at m = P = 1. `keep` takes the path,
 * up to `until`. */
function lonePath(phi, a, u, r, keep = null, until = 0) {
  const { f, flat, views } = vectorField("overlap-flow", { m: 1, P: 1 }, phi, { a: [a] });
  const end = until || (4 * passageTime(phi, u)) / a + (40 * Math.log(2 + a / r)) / a, level = Math.log(a / 2);
  const floor = [Math.abs(u) / 10, 1, r / 10];
  let half = Math.abs(u) >= Math.SQRT1_2 ? 0 : null, fitted = r * u * u >= a / 2 ? 0 : null;
  if (keep) keep.push([0, u * u, r]);
  for (const step of integrate(f, flat({ t: [u], c: [1], r: [r] }), end, { tolerance: 1e-7, floor, steps: 40 })) {
    const ends = [step.before, step].map(x => [views(x.y), views(x.slope)]), y = ends[1][0];
    const located = (read, value) => crossing(step.before.time, step.time, ...ends.map(x => read(...x)), value);
    if (half === null && Math.abs(y.t[0]) >= Math.SQRT1_2) half = located((...x) => size(...x, 0), Math.SQRT1_2);
    if (keep) keep.push([step.time, y.t[0] ** 2, y.r[0]]);
    const mass = y.r[0] * y.t[0] ** 2;
    if (fitted === null && mass >= a / 2) fitted = located((...x) => logMass(...x, 0, 1), level);
    if (fitted !== null && !keep) break;
  }
  return { half, fitted };
}

/** Who learns what, when: per direction {neuron, overlap, lead, half, loss, leading, doubt}; null where nothing is learned. */
function predict(problem) {
  const { phi, a, P, m, start, activation } = problem;
  const score = scoresOf(problem), pairs = select(score, m, P), found = Array(P).fill(null);
  let limit = 1;
  for (const { neuron, direction, lead } of pairs) {
    const overlap = start.t[neuron * P + direction], weight = a[direction], share = overlap ** 2;
    const half = passageTime(phi, overlap) / weight;
    const loss = Number.isFinite(half) ? loneLoss(phi, weight, overlap, start.r[neuron]) : Infinity;
    limit = Math.max(limit, (half > 0 ? loss / half : 1) * (1 - 3 * share * Math.log(share)));
    const leading = formulas.emergence[activation.exponent]?.(weight, share, activation.leading)[0] ?? null;
    found[direction] = { direction, neuron, overlap, lead, half, loss, leading, doubt: doubtOf(activation, overlap, lead < limit) };
  }
  return { score, pairs, directions: found };
}

/** What closed forms hold against a direction's time: see `theory.prediction.validity`, which asks for more. */
function doubtOf({ exponent, parity }, overlap, below) {
  const found = [[exponent < facts.leastWithLaw, "exponent"], [overlap < 0 && parity !== "even", "parity"], [below, BELOW]];
  return found.flatMap(([broken, name]) => (broken ? [name] : [])).join(", ");
}

const BELOW = "lead below the closed-form limit: `emergence predict` decides";

/**
 * The prediction with {low, high, outside, why} in each direction: as `emergence predict` gives them where it was asked (`known`,
 * one of each direction); else no interval, and outside what closed forms exclude or leave open. */
function judged(prediction, known) {
  const open = x => ({ low: null, high: null, outside: x.doubt, why: "" });
  const directions = prediction.directions.map((x, p) => x && { ...x, ...(known?.[p] ?? open(x)) });
  return { ...prediction, directions };
}

/** Directions whose times can be judged, counted from 1; all that are learned if there is none, with the reason. */
function judgeable(prediction, known) {
  const learned = prediction.directions.filter(Boolean), inside = learned.filter(x => !x.outside);
  const none = known ? "No time is inside its conditions: `emergence predict` says why." : "No time is clear of doubt in closed form: `emergence predict` decides.";
  return { found: (inside.length ? inside : learned).map(x => x.direction + 1), note: inside.length ? "" : none };
}

/** Its loss time; on a plateau so long that the norm's lag is nothing beside it, its half time. */
function loneLoss(phi, a, u, r) {
  const half = passageTime(phi, u) / a;
  return half * a > 1e6 ? half : (lonePath(phi, a, u, r).fitted ?? Infinity);
}


/** Largest step at which the drift still grows every selected overlap; null where no law is printed. */
function stabilityBound(problem, prediction) {
  const law = lawOf(problem);
  if (!law) return null;
  const critical = prediction.directions.filter(Boolean).map(({ direction, overlap }) => {
    const signal = law(overlap, 0, problem.a[direction])[0];
    const loss = signal - law(overlap, 1, problem.a[direction])[0];
    return signal * loss > 0 ? signal / loss : Infinity;
  });
  return Math.min(...critical);
}

/** [drift, variance rate] of an overlap u at step size η and weight a; null where none is derived. */
function lawOf({ activation, own, a, d, batch = 1 }) {
  const mass = a.reduce((sum, x) => sum + x * x, 0);
  if (!(activation.exponent >= facts.leastWithLaw)) return null;
  if (own) return (u, eta, weight) => laws.own(u, eta, weight, mass, d, batch);
  const values = activation.values.slice(facts.degrees.length - facts.lawDegrees);
  return (u, eta, weight) => laws.mixture(u, eta, weight, mass, d, batch, ...values);
}

/** Kurtosis of a kick along a direction: how rare the samples are that move its neuron. */
function kickKurtosis({ activation, own, a }, direction) {
  const sums = [1, 2, 3, 4].map(i => a.reduce((sum, x, q) => sum + (q === direction ? 0 : x ** i), 0));
  if (own) return kurtosis.own(a[direction], ...sums)[0];
  return kurtosis.mixture(a[direction], ...sums, ...activation.values.slice(facts.degrees.length - facts.lawDegrees))[0];
}

/** What rare samples leave of a law of SGD's times, in words ("" if all of it), by its mean and the flow's time. */
function rareSamples(problem, direction, eta, mean, flow) {
  const found = formulas.rare(kickKurtosis(problem, direction), eta, mean, flow);
  const said = facts.rare.map(({ limit, text }, i) => (found[i] <= limit ? "" : text.replace(/\{.*?\}/, Number(found[i].toPrecision(2)))));
  return said.filter(Boolean).join("; ");
}

/** ½E(f*−f)² if every learned direction were fitted at its loss time, as [time, value] corners; null with a mean. */
function staircase({ a, phi, activation }, directions, end) {
  if (!activation.centred) return null;
  const half = 0.5 * phi[0](1);
  let left = half * a.reduce((sum, x) => sum + x * x, 0);
  const corners = [[0, left]];
  for (const one of directions.filter(x => x && x.loss < end).sort((x, y) => x.loss - y.loss)) {
    corners.push([one.loss, left]);
    left -= half * a[one.direction] ** 2;
    corners.push([one.loss, left]);
  }
  corners.push([end, left]);
  return corners;
}

/**
 * The coupled flow, a step at a time: yields the record so far, {problem, prediction, times, loss, states: [{t, r}], half, fitted, end, done}.
 */
function* flowRun(problem, prediction, tolerance = 2e-6) {
  const { m, P, a, phi, start } = problem;
  const { system, f, flat, views } = vectorField("overlap-flow", { m, P }, phi, { a });
  const times = prediction.directions.flatMap(x => (x ? [x.half, x.loss] : [])).filter(x => Number.isFinite(x) && x > 0);
  const end = problem.time ?? (times.length ? facts.horizon * Math.max(...times) : 100 / Math.max(...a));
  const typical = rms(start.t) / 4;
  const floor = flat({ t: start.t.map(() => typical), c: start.c.map(() => 1), r: start.r.map(x => x / 4) });
  const record = { problem, prediction, times: [], loss: [], states: [], half: Array(P).fill(null), fitted: Array(P).fill(null), end, done: false };
  const keep = (time, now) => {
    record.times.push(time);
    record.loss.push(system.observables.loss(now, { a }));
    record.states.push({ t: Float32Array.from(now.t), r: Float64Array.from(now.r) });
  };
  const y = flat(start);
  keep(0, views(y));
  yield record;
  for (const step of integrate(f, y, end, { tolerance, floor, steps: 120 })) {
    const ends = [step.before, step].map(x => [views(x.y), views(x.slope)]), now = ends[1][0];
    const located = (read, level) => crossing(step.before.time, step.time, ...ends.map(x => read(...x)), level);
    for (let p = 0; p < P; p++) {
      for (let k = 0; record.half[p] === null && k < m; k++)
        if (Math.abs(now.t[k * P + p]) >= Math.SQRT1_2)
          record.half[p] = located((...x) => size(...x, k * P + p), Math.SQRT1_2);
      const level = Math.log(a[p] / 2);
      if (record.fitted[p] === null && logMass(now, ends[1][1], p, P)[0] >= level)
        record.fitted[p] = located((...x) => logMass(...x, p, P), level);
    }
    keep(step.time, now);
    yield record;
  }
  record.done = true;
  yield record;
}

// ------------------------------------------------------------------ law of SGD's times

/**
 * P(T ≤ t) of the time at which the squared overlap reaches `level` under the one-task diffusion: see
 * `theory.one_task.hitting_distribution`, whose method this is: at e or, unless u and −u are one (`even`), at −e. Returns a function
 * of t, good up to `latest`, with the `mean` of T.
 */
function hittingDistribution(law, weight, eta, overlap, even, latest, { level = 0.5, cells = 600 } = {}) {
  const start = even ? Math.abs(overlap) : overlap, end = Math.sqrt(level), damping = 20, length = 2 * latest;
  const nodes = cellNodes(start, end, even, cells), count = nodes.length - 1;
  const drift = new Float64Array(count), noise = new Float64Array(count), width = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    [drift[i], noise[i]] = law((nodes[i] + nodes[i + 1]) / 2, eta, weight);
    width[i] = nodes[i + 1] - nodes[i];
    if (!(noise[i] > 0)) return null;
  }
  const first = nodes.findIndex(x => x >= start - 1e-15);
  const mirrored = { drift: drift.map(b => -b).reverse(), noise: noise.slice().reverse(), width: width.slice().reverse() };
  const real = [], imaginary = [];
  const both = (...at) => {
    const [x, y] = transform(...at, drift, noise, width, first, even ? 0 : ABSORBED);
    if (even) return [x, y];
    const turned = transform(...at, mirrored.drift, mirrored.noise, mirrored.width, count - first, ABSORBED);
    return [x + turned[0], y + turned[1]];
  };
  let size = 1;
  for (let n = 0; n < 4096; n++) {
    const [x, y] = both(damping / length, (2 * Math.PI * n) / length);
    real.push(x);
    imaginary.push(y);
    if (n === 0) size = Math.hypot(x, y);
    if (n > 32 && n % 8 === 0 && Math.hypot(x, y) < 1e-10 * size) break;
  }
  const small = SMALL / latest, mean = (1 - small * both(small, 0)[0]) / small;
  return Object.assign(time => {
    if (time <= 0) return 0;
    const angle = (2 * Math.PI * time) / length;
    let sum = -real[0];
    for (let n = 0; n < real.length; n++) sum += 2 * (real[n] * Math.cos(n * angle) - imaginary[n] * Math.sin(n * angle));
    return Math.min(1, Math.max(0, (Math.exp((damping * time) / length) / length) * sum));
  }, { mean });
}

/** sL at which (1 − E e^{−sT})/s is the mean of T. */
const SMALL = 1e-6;

/** m'/m beside an end that does not count. */
const ABSORBED = 1e100;

/** Edges of the cells, equally wide in arsinh(u/s), s = |start|, with a node at the start. */
function cellNodes(start, end, even, count) {
  const scale = Math.max(Math.abs(start), 1e-6 * end), low = even ? 0 : -end;
  const [bottom, middle, top] = [low, start, end].map(x => Math.asinh(x / scale));
  const below = start > low ? Math.min(count - 1, Math.max(1, Math.round(((middle - bottom) / (top - bottom)) * count))) : 0;
  const between = (from, to, n, i) => scale * Math.sinh(from + ((to - from) * i) / n);
  return [
    ...Array.from({ length: below }, (_, i) => between(bottom, middle, below, i)),
    ...Array.from({ length: count - below + 1 }, (_, i) => (i === 0 ? start : between(middle, top, count - below, i))),
  ];
}

/**
 * E e^{−sT}/s at s = x + iy of what ends at the last node: m'/m carried from `slope` at the first cell by cell, exactly for constant
 * coefficients.
 */
function transform(x, y, drift, noise, width, first, slope) {
  let wr = slope, wi = 0, logR = 0, logI = 0;
  for (let i = 0; i < drift.length; i++) {
    const b = drift[i], D = noise[i];
    const [rr, ri] = complexRoot(b * b + 2 * D * x, 2 * D * y);
    let ur, ui, vr, vi;
    if (b >= 0) {
      [ur, ui] = divide(2 * x, 2 * y, b + rr, ri);
      vr = -(b + rr) / D;
      vi = -ri / D;
    } else {
      ur = (rr - b) / D;
      ui = ri / D;
      [vr, vi] = divide(-2 * x, -2 * y, rr - b, ri);
    }
    const [qr, qi] = divide(ur - wr, ui - wi, wr - vr, wi - vi);
    const shrink = Math.exp((vr - ur) * width[i]), angle = (vi - ui) * width[i];
    const lr = shrink * (qr * Math.cos(angle) - qi * Math.sin(angle));
    const li = shrink * (qr * Math.sin(angle) + qi * Math.cos(angle));
    [wr, wi] = divide(ur + lr * vr - li * vi, ui + lr * vi + li * vr, 1 + lr, li);
    if (i >= first) {
      logR += ur * width[i] + 0.5 * Math.log(((1 + lr) ** 2 + li * li) / ((1 + qr) ** 2 + qi * qi));
      logI += ui * width[i] + Math.atan2(li, 1 + lr) - Math.atan2(qi, 1 + qr);
    }
  }
  return divide(Math.exp(-logR) * Math.cos(logI), -Math.exp(-logR) * Math.sin(logI), x, y);
}

function complexRoot(x, y) {
  const size = Math.hypot(x, y), real = Math.sqrt((size + Math.abs(x)) / 2);
  return x >= 0 ? [real, y / (2 * real)] : [Math.abs(y) / (2 * real), Math.sign(y || 1) * real];
}

function divide(a, b, c, d) {
  const size = c * c + d * d;
  return [(a * c + b * d) / size, (b * c - a * d) / size];
}

// ------------------------------------------------------------------ quadratic networks

/** Z(0) (P × m), G = ZZᵀ, of a random subspace of m dimensions seen from the teacher: the start of `emergence`'s Riccati flow. */
function drawSubspace({ P, m, d, seed }) {
  const random = generator(seed, facts.keys.subspace);
  const top = Float64Array.from({ length: P * m }, random.normal);
  const low = bartlett(random, m, d - P), gram = new Float64Array(m * m);
  for (let i = 0; i < m; i++)
    for (let j = 0; j < m; j++) {
      for (let p = 0; p < P; p++) gram[i * m + j] += top[p * m + i] * top[p * m + j];
      for (let k = 0; k < m; k++) gram[i * m + j] += low[i * m + k] * low[j * m + k];
    }
  return halfSandwich(top, gram, P, m);
}

/**
 * The Riccati flow: {times, diagonal: [[…]], spectrum: [[…]], risk, half}; Riccati time. Z is integrated, as rounding gives G = ZZᵀ
 * ranks that fewer neurons than directions do not have; the weakest directions are beyond those (`half` is infinite).
 */
function* riccatiRun({ a, P, m, d, seed }) {
  const norm = Math.hypot(...a), spectrum = a.map(x => x / norm);
  const least = Array.from(spectrum).sort((x, y) => y - x)[Math.min(m, P) - 1];
  const half = Array.from(spectrum, x => (x < least ? Infinity : Math.max(0, formulas.riccatiHalf(x, Math.max(d / m, 1.0001))[0])));
  const { system, f, flat, views } = vectorField("riccati", { P, m }, [], { a: spectrum });
  const y = flat({ z: drawSubspace({ P, m, d, seed }) }), end = facts.horizon * Math.max(...half.filter(Number.isFinite), 1);
  const record = { P, times: [], diagonal: [], spectrum: [], risk: [], half, end, done: false };
  const keep = (time, { z }) => {
    const G = gramOf(z, P, m);
    record.times.push(time);
    record.diagonal.push(Array.from({ length: P }, (_, p) => G[p * P + p]));
    record.spectrum.push(eigenvalues(G, P));
    record.risk.push(system.observables.risk({ z }, { a: spectrum }));
  };
  keep(0, views(y));
  for (const step of integrate(f, y, end, { tolerance: 1e-6, floor: y.map(() => 0.3 / Math.sqrt(d)), steps: 200 })) {
    keep(step.time, views(step.y));
    yield record;
  }
  record.done = true;
  yield record;
}

// ------------------------------------------------------------------ label noise

/**
 * Label-noise SGD on the two-layer linear network, exactly, in its order parameters: {steps, frobenius, second, share, error,
 * escape, end, diverged}: ‖W‖²_F, ‖a‖², s₁/‖W‖_F and |e|² against steps; the step by which it has diverged, or null. Where the error
 * does not settle the lazy regime has no end that is known. `draw` fills a step's sample and returns the noise of its label.
 */
function* labelNoiseRun({ d, m, sigma, eta, seed }, points = 240, draw = labelNoise(sigma, seed + 1)) {
  const { system, views, flat } = vectorField("label-noise-step", { d }, [], {});
  const target = Array.from({ length: d }, (_, i) => (i ? 0 : 1));
  const parameters = { target, eta, x: new Float64Array(d), epsilon: 0 };
  const state = flat(linearStart({ d, m, seed })), y = views(state), drift = new Float64Array(state.length);
  const end = Math.ceil((1.6 * Math.max(1, Math.log(m / d))) / (eta * sigma) ** 2), every = Math.max(1, Math.ceil(end / points));
  const limit = formulas.labelLimit(d)[0], product = eta * (m / d + 1), stable = product < limit;
  const escape = stable ? formulas.escape(m, eta, sigma ** 2 + formulas.labelError(product, d, sigma)[0])[0] : Infinity;
  const record = { steps: [], frobenius: [], second: [], share: [], error: [], escape, end, limit: limit / (m / d + 1), diverged: null, done: false };
  for (let n = 0; n <= end; n++) {
    if (n % every === 0) {
      const trace = target.reduce((sum, _, i) => sum + y.G[i * (d + 1)], 0);
      if (!(trace < 1e3 * m)) {
        record.diverged = n;
        break;
      }
      record.steps.push(n);
      record.frobenius.push(trace);
      record.second.push(y.A[0]);
      record.share.push(Math.sqrt(Math.max(eigenvalues(y.G, d)[0], 0) / trace));
      record.error.push(target.reduce((sum, x, i) => sum + (y.theta[i] - x) ** 2, 0));
      yield record;
    }
    parameters.epsilon = draw(parameters.x);
    system.drift(y, parameters, views(drift));
    for (let i = 0; i < state.length; i++) state[i] += eta * drift[i];
  }
  record.done = true;
  yield record;
}

/** Fresh samples N(0, I) into an array, with label noise of fair signs ±σ. */
function labelNoise(sigma, seed) {
  const normals = quickNormals(seed);
  return x => {
    for (let i = 0; i < x.length; i++) x[i] = normals();
    return normals() < 0 ? -sigma : sigma;
  };
}

/** w_ij ~ N(0, 1/d), a_i ~ N(0, 1/m), as products. */
function linearStart({ d, m, seed }) {
  const random = generator(seed, facts.keys.linear);
  const W = new Float64Array(m * d), a = new Float64Array(m);
  for (let k = 0; k < m; k++) {
    a[k] = random.normal() / Math.sqrt(m);
    for (let i = 0; i < d; i++) W[k * d + i] = random.normal() / Math.sqrt(d);
  }
  const G = new Float64Array(d * d), theta = new Float64Array(d), A = new Float64Array([a.reduce((s, x) => s + x * x, 0)]);
  for (let k = 0; k < m; k++)
    for (let i = 0; i < d; i++) {
      theta[i] += a[k] * W[k * d + i];
      for (let h = 0; h < d; h++) G[i * d + h] += W[k * d + i] * W[k * d + h];
    }
  return { G, theta, A };
}
