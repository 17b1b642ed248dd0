// Six panels, each integrated when it comes into view and again when its sliders move.

function story() {
  for (const [id, begin] of Object.entries({ search, descent, deflation, lag, ties, scaling })) {
    let begun = false;
    const start = () => {
      if (!begun) begin(part(id));
      begun = true;
    };
    new IntersectionObserver(([{ isIntersecting }], watch) => {
      if (!isIntersecting) return;
      watch.disconnect();
      start();
    }, { rootMargin: "400px" }).observe(byId(id));
    addEventListener("beforeprint", start);
  }
}

/** A panel's own elements; `again` runs what it last ran when the width changes. */
function part(id) {
  const own = { controls: byId(`${id}-controls`), chart: byId(`${id}-chart`), second: byId(`${id}-second`), redraw: () => {} };
  own.says = text => (byId(`${id}-says`).innerHTML = text);
  own.slider = (options, change) => slider(own.controls, { ...options, id: `${id}-${options.key}` }, change);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (width !== innerWidth) own.redraw();
    width = innerWidth;
  });
  return own;
}

const mixtureOf = J => ({ [J]: 1 });
const only = J => activationOf({ mixture: mixtureOf(J), own: false });
const bold = text => `<strong>${text}</strong>`;

// 1 — one neuron, one direction: nothing, for a time that grows with d, and then all at once.
function search(own) {
  const at = { d: 1000, J: 4 };
  const draw = () => {
    const { phi } = only(at.J), curves = [];
    for (const d of [...new Set([100, 1000, 10000, at.d])]) {
      const u = 1 / Math.sqrt(d), time = formulas.emergence[at.J](1, u * u, 1)[0], path = [];
      lonePath(phi, 1, u, 1e-3, path, 1.35 * time);
      curves.push({ d, time, points: path.map(([t, M]) => [t / time, M]) });
    }
    const chosen = curves.find(x => x.d === at.d), when = level => {
      const i = chosen.points.findIndex(([, M]) => M >= level), [[t0, m0], [t1, m1]] = [chosen.points[i - 1], chosen.points[i]];
      return t0 + ((level - m0) / (m1 - m0)) * (t1 - t0);
    };
    const layers = curves.filter(x => x !== chosen).map(x => ({ line: x.points, colour: "var(--hollow)", width: 1.3 }));
    layers.push({ band: [[when(0.1), 0, 1], [when(0.9), 0, 1]] }, { rule: 1, dash: "3 4", width: 1.2 }, { line: chosen.points, colour: "var(--d1)", width: 3 },
      { at: [1, 1.04], text: "T", anchor: "middle", strong: true });
    chart(own.chart, { x: { range: [0, 1.35], label: "time over the predicted T" }, y: { range: [0, 1], label: "squared overlap M of one neuron" }, layers, height: 380,
      summary: `A single neuron in dimension ${at.d}: its squared overlap stays near zero until the predicted time and then rises within ${shown(100 * (when(0.9) - when(0.1)))} per cent of it.` });
    own.says(`In ${bold(shown(at.d, 4))} dimensions it waits ${bold(`T = ${shown(chosen.time)}`)} and goes from 10 to 90 % within ${bold(`${shown(100 * (when(0.9) - when(0.1)))} %`)} of that.`);
  };
  own.slider({ key: "d", label: "dimension <i>d</i>", min: 50, max: 1e5, step: 1, log: true, value: at.d }, v => { at.d = v; draw(); });
  own.slider({ key: "J", label: "information exponent <i>J</i>", min: 3, max: 6, step: 1, value: at.J }, v => { at.J = v; draw(); });
  own.redraw = draw;
  draw();
}

/** A coupled problem for a panel, drawn as it is integrated. */
function coupled(own, draw) {
  const run = runner((record, done) => record && draw(record.problem, record.prediction, record, done));
  own.redraw = run.again;
  return settings => {
    const problem = problemOf({ own: false, weights: null, mixture: mixtureOf(4), sigma0: 0.03, ...settings });
    run(() => flowRun(problem, predict(problem), 1e-5));
  };
}

// 2 — many neurons, many directions: the loss comes down a staircase.
function descent(own) {
  const at = { P: 5, m: 14, d: 800, beta: 1, seed: 2 };
  const go = coupled(own, (problem, prediction, record, done) => {
    const x = { range: [0, record.end], label: "gradient-flow time" }, layers = [], stairs = staircase(problem, prediction.directions, record.end);
    for (let p = 0; p < problem.P; p++) {
      const k = standsFor(record, problem, prediction, p);
      layers.push({ line: record.times.map((t, i) => [t, record.states[i].t[k * problem.P + p] ** 2]), colour: colour(p), width: 2.6 });
      if (record.half[p] !== null) layers.push({ at: [record.half[p], 1], text: p + 1, colour: colour(p), anchor: "middle", dy: -5 });
    }
    chart(own.chart, { x: { ...x, label: "" }, y: { range: [0, 1], label: "squared overlaps" }, layers, height: 230, summary: `${problem.P} directions are found one after another.` });
    chart(own.second, { x, y: { range: [0, record.loss[0] * 1.05], label: "loss" }, height: 210,
      layers: [{ line: stairs, colour: "var(--soft)", width: 1.5, dash: "5 4" }, { line: record.times.map((t, i) => [t, record.loss[i]]), width: 2.6 }],
      summary: "The loss, and dashed the staircase predicted from the start." });
    const gaps = record.half.map((h, p) => (h === null ? null : Math.abs(h / prediction.directions[p]?.half - 1))).filter(x => x !== null);
    if (done) own.says(`${bold(gaps.length)} of ${problem.P} directions found. Each time was predicted from the start alone; the farthest is off by ${bold(`${shown(100 * Math.max(...gaps), 2)} %`)}.`);
  });
  const again = () => go(at);
  own.slider({ key: "beta", label: "decay <i>β</i> of the weights", min: 0.2, max: 1.6, step: 0.05, value: at.beta }, v => { at.beta = v; again(); });
  own.slider({ key: "seed", label: "another draw", min: 0, max: 40, step: 1, value: at.seed }, v => { at.seed = v; again(); });
  again();
}

// 3 — a learned direction is gone, and so is its neuron: a greedy matching.
function deflation(own) {
  const at = { P: 6, m: 12, d: 1000, beta: 0.7, seed: 1 }, view = { time: 0 };
  let last = null;
  const draw = () => {
    if (!last) return;
    const [problem, prediction, record] = last, now = view.time * record.end, { t } = record.states[placeOf(record.times, now)];
    const gone = new Set(), neurons = new Set();
    for (const { neuron, direction } of prediction.pairs) if (t[neuron * problem.P + direction] ** 2 > 0.4) { gone.add(direction); neurons.add(neuron); }
    const best = Math.max(...prediction.score);
    matrix(own.chart, { rows: problem.m, columns: problem.P, rowTitle: "neuron", columnTitle: "direction",
      value: (k, p) => {
        const done = t[k * problem.P + p] ** 2;
        return done > 0.3 ? done : gone.has(p) || neurons.has(k) ? 0.03 : 0.06 + 0.55 * prediction.score[k * problem.P + p] / best;
      },
      marks: prediction.pairs.map(({ neuron, direction }, n) => ({ row: neuron, column: direction, text: n + 1, taken: gone.has(direction) })),
      summary: `At time ${shown(now)} ${gone.size} directions and their neurons are taken.` });
    own.says(gone.size ? `${bold(`${gone.size} of ${problem.P}`)} directions are taken at t = ${shown(now)}; their rows and columns are out of the race.`
      : "Tints are scores: weight times a power of the starting overlap. The largest wins, and takes its row and column along.");
  };
  const go = coupled(own, (...found) => { last = found; draw(); });
  const time = own.slider({ key: "time", label: "time, of the whole run", min: 0, max: 1, step: 0.002, value: 0 }, v => { view.time = v; draw(); });
  const play = document.createElement("button");
  Object.assign(play, { type: "button", textContent: "Play" });
  time.box.append(play);
  player(play, time.input, v => { view.time = v; draw(); });
  own.slider({ key: "seed", label: "another draw", min: 0, max: 40, step: 1, value: at.seed }, v => { at.seed = v; go(at); });
  go(at);
}

// 4 — direction first, norm after: a neuron that has found its direction is still light.
function lag(own) {
  const at = { sigma0: 0.003, a: 0.5 };
  const draw = () => {
    const { phi } = only(4), u = 0.08, path = [], found = lonePath(phi, at.a, u, at.sigma0 ** 2, path, 4 * passageTime(phi, u) / at.a);
    const wait = formulas.normLag(at.a, at.sigma0 ** 2, 0.5)[0], end = found.fitted + 0.25 * (found.fitted - found.half) + 2, from = Math.max(0, found.half - 6);
    const layers = [{ band: [[found.half, 0, 1], [found.fitted, 0, 1]] }, { line: path.map(([t, M]) => [t, M]), colour: "var(--d1)", width: 3 },
      { line: path.map(([t, , r]) => [t, r / at.a]), colour: "var(--d7)", width: 3 }, { at: [from, 0.9], text: "direction: squared overlap", colour: "var(--d1)", dx: 8 },
      { at: [from, 0.8], text: "norm: r over a", colour: "var(--d7)", dx: 8 }, { at: [found.half, 1.03], text: "found", anchor: "end", strong: true }, { at: [found.fitted, 1.03], text: "fitted", strong: true }];
    chart(own.chart, { x: { range: [from, end], label: "gradient-flow time" }, y: { range: [0, 1], label: "" }, layers, height: 360, summary: `Found at ${shown(found.half)}, fitted at ${shown(found.fitted)}.` });
    own.says(`The loss follows ${bold(shown(found.fitted - found.half))} after the direction; an aligned neuron of norm <i>σ</i>₀ would need ${bold(shown(wait))}. The plateau has made it lighter.`);
  };
  own.slider({ key: "sigma0", label: "initial norm <i>σ</i><sub>0</sub>", min: 1e-5, max: 0.2, step: 0.001, log: true, digits: 2, value: at.sigma0 }, v => { at.sigma0 = v; draw(); });
  own.slider({ key: "a", label: "weight <i>a</i> of the direction", min: 0.2, max: 1, step: 0.05, value: at.a }, v => { at.a = v; draw(); });
  own.redraw = draw;
  draw();
}

// 5 — two neurons want the same direction: near a tie nobody can say who learns it, and a direction may be lost.
function ties(own) {
  const at = { lead: 1.1 };
  let problem;
  const run = runner((record, done) => {
    if (!record) return;
    const { P } = problem, line = (k, p) => record.times.map((t, i) => [t, record.states[i].t[k * P + p] ** 2]);
    const layers = [{ line: line(0, 0), colour: "var(--d1)", width: 3 }, { line: line(1, 0), colour: "var(--d1)", width: 2, dash: "6 4" },
      { line: line(1, 1), colour: "var(--d7)", width: 3, dash: "6 4" }];
    chart(own.chart, { x: { range: [0, record.end], label: "gradient-flow time" }, y: { range: [0, 1], label: "squared overlap" }, layers, height: 360,
      summary: `Two neurons and two directions with a lead of ${shown(at.lead)}.` });
    if (!done) return;
    const last = record.states.at(-1).t, rival = Math.max(...record.states.map(x => x.t[P] ** 2));
    own.says(last[P + 1] ** 2 > 0.5
      ? `The second neuron came to ${bold(`${shown(100 * rival, 2)} %`)} of direction 1, let go, and found direction 2.`
      : `${bold("A tie.")} Both neurons took direction 1, the second up to ${bold(`${shown(100 * rival, 2)} %`)}; direction 2 is not found in this time.`);
  });
  const go = () => {
    const u = 0.06, other = u / Math.sqrt(at.lead), t = Float64Array.of(u, 0.01, other, 0.05), c = Float64Array.of(1, 0, 0, 1);
    problem = { P: 2, m: 2, a: Float64Array.of(1, 0.6), phi: only(4).phi, activation: only(4), start: { t, c, r: Float64Array.of(1e-4, 1e-4) }, time: 120 };
    run(() => flowRun(problem, { directions: [null, null] }, 1e-6));
  };
  own.slider({ key: "lead", label: "lead of the first neuron's score", min: 1, max: 1.3, step: 0.002, value: at.lead }, v => { at.lead = v; go(); });
  own.redraw = run.again;
  go();
}

// 6 — a thousand steps, on two logarithmic axes: a power law.
function scaling(own) {
  const at = { beta: 1, P: 1000 };
  const draw = () => {
    const a = weightsOf({ P: at.P, beta: at.beta }), slope = formulas.timeExponent(at.beta)[0], J = 4, u = 1e-3, corners = [];
    let left = 0.5;
    const first = formulas.emergence[J](a[0], u * u, 1)[0];
    for (const weight of a) {
      const time = formulas.emergence[J](weight, u * u, 1)[0] / first;
      corners.push([time, left]);
      left -= 0.5 * weight ** 2;
      if (left > 1e-9) corners.push([time, left]);
    }
    const last = corners.at(-1)[0], middle = Math.sqrt(last), height = corners.find(([t]) => t >= middle)?.[1] ?? 0.1;
    const rate = t => height * (t / middle) ** slope;
    const lowest = Math.max(1e-6, 0.3 * corners.at(-8)[1]);
    chart(own.chart, { x: { range: [0.6, last], log: true, label: "time over that of the first direction" }, y: { range: [lowest, 0.8], log: true, label: "loss" }, height: 380,
      layers: [{ line: [[0.6, 0.5], ...corners], colour: "var(--d1)", width: 2 }, { line: [[1.5, rate(1.5)], [last, rate(last)]], colour: "var(--d7)", width: 2, dash: "6 4" },
        { at: [middle, rate(middle)], text: `slope ${shown(slope)}`, colour: "var(--d7)", dx: 10, dy: -10 }],
      summary: `A thousand steps: the loss falls as time to the power ${shown(slope)}.` });
    own.says(`With weights <i>p</i><sup>−${shown(at.beta)}</sup> the steps add up to loss ∝ time<sup>${shown(slope)}</sup>, the exponent (1 − 2<i>β</i>)/<i>β</i>.`);
  };
  own.slider({ key: "beta", label: "decay <i>β</i> of the weights", min: 0.6, max: 2, step: 0.05, value: at.beta }, v => { at.beta = v; draw(); });
  own.redraw = draw;
  draw();
}
