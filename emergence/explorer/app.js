// The page: sliders, runs that give way to the reader, drawings, and what to type to judge what is on the screen.

const byId = id => document.getElementById(id);

/**
 * Work in small pieces: a new run takes the place of the last one, and the page stays awake. `show(result, done, error)`
 * draws; `again()` of what this returns draws the last result once more.
 */
function runner(draw) {
  let turn = 0, timer = 0, last = null;
  const show = (...found) => {
    last = found;
    draw(...found);
  };
  const start = make => {
    const own = ++turn;
    clearTimeout(timer);
    let run = null, drawn = 0, result;
    const piece = () => {
      if (own !== turn) return;
      const begun = performance.now();
      try {
        run ??= make();
        for (;;) {
          const { value, done } = run.next();
          if (done) return show(result, true);
          result = value;
          if (performance.now() - begun > 12) break;
        }
      } catch (error) {
        return show(result, true, error);
      }
      if (performance.now() - drawn > 120) {
        show(result, false);
        drawn = performance.now();
      }
      timer = setTimeout(piece, 0);
    };
    timer = setTimeout(piece, 0);
  };
  start.again = () => last && draw(...last);
  return start;
}

/** A labelled slider; `log`: equal ratios are equal ways. Calls `change(value)`. */
function slider(host, { id, label, min, max, step, value, log = false, help = "", digits = 3 }, change) {
  const box = document.createElement("div"), to = log ? v => Math.log10(v) : v => v;
  const from = log ? v => Number((10 ** v).toPrecision(digits)) : v => Number(v);
  box.className = "control";
  box.innerHTML = `<label for="${id}">${label}</label><output for="${id}"></output>` +
    `<input type="range" id="${id}" min="${to(min)}" max="${to(max)}" step="${log ? "any" : step}"${help ? ` title="${escaped(help)}"` : ""}>`;
  host.append(box);
  const input = box.querySelector("input"), output = box.querySelector("output");
  if (log) input.step = (to(max) - to(min)) / 120;
  const whole = step === 1;
  const read = () => (whole ? Math.max(min, Math.round(from(input.value))) : from(input.value));
  const tell = v => {
    output.textContent = shown(v, whole ? 6 : digits);
    input.setAttribute("aria-valuetext", output.textContent);
  };
  const set = v => {
    input.value = to(v);
    tell(v);
  };
  input.addEventListener("input", () => {
    const v = read();
    tell(v);
    change(v);
  });
  set(value);
  return { set, input, box };
}

// ------------------------------------------------------------------ the sandbox

const state = structuredClone(page.settings);
const bench = { problem: null, prediction: null, record: null, bound: null, known: null, share: page.settings.share, time: 1, sliders: {} };

/** From the settings to everything that is shown. */
function renew() {
  const note = byId("note"), cut = state.own ? facts.own.leftOut : 0;
  note.textContent = cut ? `The kernel of ${facts.own.name} is a series that leaves out ${shown(cut)} of Eσ′², the drift near alignment: flow and loss beyond one half are off.` : "";
  const empty = !state.own && !facts.degrees.some(j => state.mixture[j]);
  byId("shown").hidden = empty;
  if (empty) {
    note.textContent = "Every Hermite coefficient is zero: give one of them.";
    return;
  }
  const P = state.weights?.length ?? state.P;
  if (state.d < P + state.m + 2) {
    note.textContent = `d must be at least P + m + 2 = ${P + state.m + 2}: it is taken as that.`;
    state.d = P + state.m + 2;
    bench.sliders.d.set(state.d);
  }
  bench.problem = problemOf(state);
  bench.known = JSON.stringify(state) === JSON.stringify(page.settings) ? page.known : null;
  bench.prediction = judged(predict(bench.problem), bench.known);
  bench.bound = stabilityBound(bench.problem, bench.prediction);
  bench.laws = null;
  if (!bench.prediction.pairs.length) note.textContent = "No neuron can grow from this start: every overlap leans the wrong way. Change the seed.";
  runFlow(() => flowRun(bench.problem, bench.prediction));
  runLaws(() => lawsRun());
  runRiccati(() => riccatiRun(bench.problem));
  command();
}

const runFlow = runner((record, done, error) => {
  if (error) byId("note").textContent = `The flow is not integrated: ${error.message}.`;
  if (!record) return;
  bench.record = record;
  drawFlow(done && !error);
});

/** Place of the last recorded time at or before `time`. */
function placeOf(times, time) {
  let low = 0, high = times.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (times[middle] <= time) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The neuron whose curve stands for a direction: the predicted one, unless another has learned it. */
function standsFor(record, problem, prediction, p) {
  const last = record.states.at(-1).t, own = prediction.directions[p]?.neuron ?? 0;
  let best = own;
  for (let k = 0; k < problem.m; k++)
    if (last[k * problem.P + p] ** 2 > last[best * problem.P + p] ** 2 && last[k * problem.P + p] ** 2 > 0.5) best = k;
  return best;
}

function drawFlow(done) {
  const { record } = bench, { problem, prediction } = record, { P } = problem, x = { range: [0, record.end], label: "gradient-flow time t = η · steps" };
  const now = bench.time * record.end, layers = [], band = bandOf(problem);
  for (let p = 0; p < P; p++) {
    const k = standsFor(record, problem, prediction, p), ahead = prediction.directions[p];
    const points = record.times.map((t, i) => [t, record.states[i].t[k * P + p] ** 2]);
    if (ahead && ahead.half < record.end) layers.push({ rule: ahead.half, colour: colour(p), width: 1, dash: "3 4", opacity: 0.9 });
    layers.push({ line: points, colour: colour(p), width: 2.2 });
    if (record.half[p] !== null) layers.push({ dot: [record.half[p], 0.5], colour: colour(p), hollow: true },
      { at: [record.half[p], 1], text: p + 1, colour: colour(p), anchor: "middle", dy: -5 });
  }
  layers.push({ rule: now, colour: "var(--ink)", width: 1, opacity: 0.55 });
  const learned = record.half.filter(h => h !== null).length;
  chart(byId("overlaps"), { x, y: { range: [0, 1], label: "squared overlap" }, layers, height: 270,
    summary: `Squared overlaps of ${P} directions against time: ${learned} pass one half.` });
  const total = record.loss[0], stairs = staircase(problem, prediction.directions, record.end), loss = [];
  if (band) loss.push({ band: band.times.map((t, i) => [t, band.loss[0][i], band.loss[2][i]]) }, { line: band.times.map((t, i) => [t, band.loss[1][i]]), colour: "var(--accent)", width: 1.5 });
  if (stairs) loss.push({ line: stairs, colour: "var(--soft)", width: 1.5, dash: "5 4" });
  loss.push({ line: record.times.map((t, i) => [t, record.loss[i]]), colour: "var(--ink)", width: 2.2 }, { rule: now, width: 1, opacity: 0.55 });
  chart(byId("loss"), { x, y: { range: [0, Math.max(total, ...record.loss) * 1.04], label: "population loss" }, layers: loss, height: 230,
    summary: `Loss falls from ${shown(total)} to ${shown(record.loss.at(-1))} in ${learned} steps.` });
  byId("bandnote").textContent = band ? `Blue: exact SGD, ${band.replicas} runs at η = ${shown(band.step_size)}; line the median, band from 10 to 90 %.` : "";
  drawMatrix();
  drawTable(done);
}

function drawMatrix() {
  const { record } = bench, { problem, prediction } = record, now = bench.time * record.end, i = placeOf(record.times, now), { t } = record.states[i];
  const marks = prediction.pairs.map(({ neuron, direction }, n) => ({ row: neuron, column: direction, text: n + 1, taken: t[neuron * problem.P + direction] ** 2 > 0.4 }));
  matrix(byId("matrix"), { rows: problem.m, columns: problem.P, value: (k, p) => Math.min(1, t[k * problem.P + p] ** 2), marks,
    rowTitle: "neuron", columnTitle: "direction", summary: `Squared overlap of each neuron with each direction at time ${shown(now)}; framed, the greedy pairs.` });
  byId("when").textContent = `t = ${shown(now)}`;
}

function drawTable(done) {
  const { record } = bench, { problem, prediction } = record;
  const rows = Array.from(problem.a, (weight, p) => {
    const x = prediction.directions[p], own = `<th scope="row"><span class="swatch" style="background:${colour(p)}"></span>${p + 1}</th><td>${shown(weight)}</td>`;
    const flow = [record.half[p], record.fitted[p]].map(t => t ?? (done ? Infinity : null)).map(t => (t === null ? "…" : shown(t, 4))).join("</td><td>");
    if (!x) return `<tr>${own}<td>none</td><td>–</td><td>never</td><td>–</td><td></td><td>${flow}</td></tr>`;
    return `<tr>${own}<td>${x.neuron}</td><td>${shown(x.lead)}</td><td>${shown(x.half, 4)}</td>` +
      `<td>${x.low === null ? "–" : `${shown(x.low, 4)} – ${shown(x.high, 4)}`}</td><td${x.outside ? ` class="tie" title="${escaped(x.why)}"` : ""}>${escaped(x.outside || "yes")}</td><td>${flow}</td></tr>`;
  });
  byId("rows").innerHTML = rows.join("");
}

// ------------------------------------------------------------------ SGD's times

function* lawsRun() {
  const { problem, prediction, bound } = bench, law = lawOf(problem), found = [];
  const eta = stepSize(), ahead = prediction.directions.filter(x => x && Number.isFinite(x.half));
  if (!law || !ahead.length || !(bound > 0 && bound < Infinity)) return yield { found, eta };
  const latest = 2.5 * Math.max(...ahead.map(x => x.half));
  for (const one of ahead) {
    const window = Math.min(latest, 6 * one.half);
    const cdf = hittingDistribution(law, problem.a[one.direction], eta, one.overlap, problem.activation.parity === "even", window);
    if (cdf) {
      const points = Array.from({ length: 161 }, (_, i) => [(window * i) / 160, cdf((window * i) / 160)]);
      found.push({ ...one, points, rare: rareSamples(problem, one.direction, eta, cdf.mean, one.half) });
    }
    yield { found, eta, latest };
  }
  yield { found, eta, latest };
}

const stepSize = () => Number((bench.share * bench.bound).toPrecision(4));

const runLaws = runner((result, done, error) => {
  const host = byId("law"), text = byId("lawtext");
  if (error || !result) return void (text.textContent = error ? `No law here: ${error.message}.` : "");
  const { found, eta, latest } = result;
  if (!found.length) {
    if (!done) return;
    host.innerHTML = "";
    text.textContent = bench.problem.activation.exponent < facts.leastWithLaw
      ? `The law of SGD's times needs an information exponent of ${facts.leastWithLaw} or more: there is no plateau to cross here.`
      : "No step size is stable here, or the diffusion does not hold.";
    return;
  }
  const layers = [], highest = found.length;
  found.forEach(({ direction, half, points }, row) => {
    const density = points.slice(1).map(([t, v], i) => [(t + points[i][0]) / 2, (v - points[i][1]) / (t - points[i][0])]);
    const peak = Math.max(...density.map(x => x[1]), 1e-300), base = highest - 1 - row;
    layers.push({ band: density.map(([t, v]) => [t, base, base + (0.86 * v) / peak]), colour: colour(direction), opacity: 0.3 },
      { line: density.map(([t, v]) => [t, base + (0.86 * v) / peak]), colour: colour(direction), width: 1.8 },
      { line: [[half, base], [half, base + 0.9]], width: 1.2, dash: "3 3" },
      { at: [0, base], text: direction + 1, colour: colour(direction), dx: 3, dy: -5 });
  });
  chart(host, { x: { range: [0, latest], label: "η · steps at which a direction is found" }, y: { range: [0, highest], ticks: false, label: "" }, layers,
    height: Math.max(150, 40 * highest + 60), summary: `Law of the time at which SGD finds each of ${highest} directions, at step size ${shown(eta)}.` });
  text.textContent = `η = ${shown(eta)}, ${shown(100 * bench.share)} % of the stability bound ${shown(bench.bound)}; in steps, the last of them needs about ${shown(Math.max(...found.map(x => x.half)) / eta)}. Dashed: without noise.${
    found.filter(x => x.rare).map(x => ` Outside its conditions, direction ${x.direction + 1}: ${x.rare}.`).join("")}`;
});

// ------------------------------------------------------------------ quadratic networks, label noise

const runRiccati = runner((record, done, error) => {
  byId("riccatitext").textContent = error ? `The flow is not integrated: ${error.message}.` : "";
  if (!record) return void (byId("riccati").innerHTML = "");
  const { P } = record, layers = [], x = { range: [0, record.end], label: "Riccati time" };
  for (let p = 0; p < P; p++) {
    layers.push({ line: record.times.map((t, i) => [t, record.spectrum[i][p]]), colour: "var(--hollow)", width: 1.2 });
    layers.push({ line: record.times.map((t, i) => [t, record.diagonal[i][p]]), colour: colour(p), width: 2.2 });
    if (record.half[p] < record.end) layers.push({ rule: record.half[p], colour: colour(p), width: 1, dash: "3 4" },
      { at: [record.half[p], 1], text: p + 1, colour: colour(p), anchor: "middle", dy: -5 });
  }
  chart(byId("riccati"), { x, y: { range: [0, 1], label: "overlap with the student's subspace" }, layers, height: 230,
    summary: `Quadratic network: diagonal and eigenvalues of the overlap matrix of ${P} directions; risk falls to ${shown(record.risk.at(-1))}.` });
});

const noise = { ...page.labelNoise };
const runNoise = runner((record, done, error) => {
  if (error || !record) return;
  const { m } = noise, norm = record.frobenius.map((v, i) => [record.steps[i], v / m]), share = record.steps.map((n, i) => [n, record.share[i]]);
  const layers = [{ line: norm, colour: "var(--d7)", width: 2.2 }, { line: share, colour: "var(--d2)", width: 2.2 }];
  if (record.escape < record.end) layers.push({ rule: record.escape, dash: "3 4", width: 1.2 }, { at: [record.escape, 1.1], text: "lazy regime ends", dx: 5, dy: 4 });
  layers.push({ at: [record.end, norm.at(-1)[1]], text: "‖W‖² / m", colour: "var(--d7)", anchor: "end", dy: -8 },
    { at: [record.end, share.at(-1)[1]], text: "s₁ / ‖W‖", colour: "var(--d2)", anchor: "end", dy: 18 });
  const top = Math.max(1.15, 1.05 * Math.max(...norm.map(([, v]) => v)));
  chart(byId("noise"), { x: { range: [0, record.end], label: "SGD steps" }, y: { range: [0, top], label: "norm and rank" }, layers, height: 230,
    summary: `Label noise: ‖W‖² falls to ${shown(norm.at(-1)[1] / norm[0][1])} of its start and the leading singular value holds ${shown(share.at(-1)[1])} of it.` });
  const beyond = noise.eta < record.limit ? "" : `η is beyond the least-squares limit ${shown(record.limit)}: the error does not settle.`;
  byId("noisetext").textContent = record.diverged === null ? beyond : `SGD diverges within ${shown(record.diverged, 6)} steps. ${beyond}`;
});

// ------------------------------------------------------------------ exact SGD, computed before

/** The band of a problem that was simulated, if it is the one on the screen, at its step size. */
function bandOf(problem) {
  const name = s => JSON.stringify([s.own, s.own ? facts.own?.name : facts.degrees.map(j => s.mixture[j] ?? 0), s.weights ?? [s.P, s.beta], s.normalise ?? true, s.m, s.d, s.sigma0, s.seed]);
  return page.bands.find(one => name(one.settings) === name(problem) && Math.abs(stepSize() / one.step_size - 1) < 0.02) ?? null;
}

// ------------------------------------------------------------------ what to type

/** Options of the problem on the screen, by the names that the command line gives them. */
function optionsOf() {
  const found = { activation: activationText() };
  for (const { key, option } of page.sliders) {
    if (state.weights && (key === "P" || key === "beta")) continue;
    found[option] = state[key];
  }
  if (state.weights) Object.assign(found, { teacher_weights: state.weights, ...(state.normalise ? {} : { normalise: false }) });
  return found;
}

function activationText() {
  if (state.own) return facts.own.name;
  const parts = facts.degrees.filter(j => state.mixture[j]).map(j => (state.mixture[j] === 1 ? `h${j}` : `${state.mixture[j]}*h${j}`));
  return parts.join(" + ").replace(/\+ -/g, "- ");
}

const written = name => name.replace(/_/g, "-");
const quoted = text => (/^[\w.,/-]+$/.test(text) ? text : `"${text}"`);

function command() {
  const options = { ...optionsOf() }, eta = bench.bound > 0 && bench.bound < Infinity ? stepSize() : null;
  const flags = Object.entries(options).map(([name, value]) =>
    value === false ? `--no-${written(name)}` : `--${written(name)}${typeof value === "string" && value.startsWith("-") ? "=" : " "}${Array.isArray(value) ? value.join(" ") : quoted(String(value))}`);
  const problem = flags.join(" ");
  byId("command").textContent = [`emergence predict ${problem}`, `emergence simulate gradient-flow ${problem}`,
    `emergence compare ${problem}${eta ? ` --step-size ${eta}` : ""}`, `emergence judge ${page.conjecture}`].join("\n");
  byId("conjecture").textContent = conjecture(options);
}

/** The claim that the emergence time of the screen's problem is the leading formula, as a file. */
function conjecture(options) {
  const J = bench.problem.activation.exponent, formula = facts.times[J];
  if (!formula) return `# An information exponent of ${J} has no leading emergence time: give one of ${facts.leastWithLaw} or more.\n`;
  const { found, note } = judgeable(bench.prediction, bench.known);
  if (!found.length) return "# Nothing is predicted to be learned from this start: change the seed or raise m.\n";
  const text = formula.replace(/\bL\b\*?/, x => (leading() === 1 ? (x.endsWith("*") ? "" : "1") : `${leading()}${x.endsWith("*") ? "*" : ""}`));
  const value = v => (Array.isArray(v) ? `[${v.map(value).join(", ")}]` : typeof v === "string" ? JSON.stringify(v) : String(v));
  const problem = Object.entries({ ...options, seed: undefined }).filter(([, v]) => v !== undefined);
  return [
    ...(note ? [`# ${note}`, ""] : []),
    "[claim]", 'id = "X1"', `statement = "The emergence time is ${text}."`, 'kind = "asymptotic"', "",
    "[problem]", ...problem.map(([name, v]) => `${written(name)} = ${value(v)}`), "",
    "[quantity]", 'measure = "half_time"', ...(bench.problem.P > 1 ? [`direction = ${value(found)}`] : []), "",
    "[predict]", `formula = "${text}"`, "",
    "[rivals]", `"half of it" = "(${text})/2"`, `"one power of the overlap less" = "(${text})*u0"`, "",
    "[data]", 'from = "gradient-flow"', `seeds = "${state.seed}:${state.seed + 4}"`, "",
    "[judge]", 'allowance = "finite-size"', "",
  ].join("\n");
}

const leading = () => Number(bench.problem.activation.leading.toPrecision(12));

function copying(button, from) {
  byId(button).addEventListener("click", async () => {
    const text = byId(from).textContent, told = byId("copied");
    try {
      await navigator.clipboard.writeText(text);
      told.textContent = "Copied.";
    } catch {
      getSelection().selectAllChildren(byId(from));
      told.textContent = "Selected: press Ctrl-C to copy.";
    }
  });
}

// ------------------------------------------------------------------ putting it together

function sandbox() {
  let waiting = 0;
  const soon = () => {
    clearTimeout(waiting);
    waiting = setTimeout(renew, 60);
  };
  const change = key => v => {
    state[key] = v;
    if (key === "P" || key === "beta") state.weights = null;
    soon();
  };
  for (const one of page.sliders) bench.sliders[one.key] = slider(byId("problem"), { ...one, id: `s-${one.key}`, value: state[one.key] }, change(one.key));
  bench.sliders.share = slider(byId("problem"), { id: "s-share", label: "step size <i>η</i> over its bound", min: 0.001, max: 0.9, log: true, digits: 2, value: bench.share }, v => {
    bench.share = v;
    if (!bench.record) return;
    runLaws(() => lawsRun());
    drawFlow(bench.record.done);
    command();
  });
  const mixed = {};
  for (const j of facts.degrees)
    mixed[j] = slider(byId("mixture"), { id: `s-h${j}`, label: `coefficient of <i>h</i><sub>${j}</sub>`, min: -1, max: 1, step: 0.05, value: state.mixture[j] ?? 0 }, v => {
      state.mixture[j] = v;
      choose(false);
      soon();
    });
  const choose = own => {
    state.own = own;
    for (const button of document.querySelectorAll("#chosen button")) button.setAttribute("aria-pressed", String((button.dataset.own === "true") === own && (own || button.dataset.mixture === JSON.stringify(state.mixture))));
  };
  const offered = [...page.activations.map(x => ({ ...x, own: false })), ...(facts.own ? [{ name: facts.own.name, own: true }] : [])];
  for (const { name, mixture, own } of offered) {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: name });
    button.dataset.own = String(own);
    button.dataset.mixture = JSON.stringify(mixture ?? {});
    button.addEventListener("click", () => {
      if (!own) {
        state.mixture = { ...mixture };
        for (const j of facts.degrees) mixed[j].set(state.mixture[j] ?? 0);
      }
      choose(own);
      soon();
    });
    byId("chosen").append(button);
  }
  choose(state.own);
  page.bands.forEach((band, i) => {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: band.name });
    button.addEventListener("click", () => {
      Object.assign(state, structuredClone(band.settings));
      for (const { key } of page.sliders) bench.sliders[key].set(state[key]);
      for (const j of facts.degrees) mixed[j].set(state.mixture[j] ?? 0);
      choose(state.own);
      const problem = problemOf(state);
      bench.share = band.step_size / stabilityBound(problem, predict(problem));
      bench.sliders.share.set(Number(bench.share.toPrecision(2)));
      soon();
    });
    byId("bands").append(button);
  });
  byId("bands").parentElement.hidden = !page.bands.length;
  const time = byId("time");
  time.addEventListener("input", () => moveTo(Number(time.value)));
  player(byId("play"), time, moveTo);
  copying("copy-command", "command");
  copying("copy-conjecture", "conjecture");
  byId("judge").addEventListener("click", () => {
    byId("judging").hidden = false;
    byId("judging").focus();
  });
  for (const one of page.noiseSliders) slider(byId("noisecontrols"), { ...one, id: `n-${one.key}`, value: noise[one.key] }, v => {
    noise[one.key] = v;
    runNoise(() => labelNoiseRun(noise));
  });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    for (const run of [runFlow, runLaws, runRiccati, runNoise]) run.again();
  });
  renew();
  runNoise(() => labelNoiseRun(noise));
}

function moveTo(share) {
  bench.time = share;
  byId("time").setAttribute("aria-valuetext", bench.record ? `time ${shown(share * bench.record.end)}` : "");
  if (bench.record) drawFlow(bench.record.done);
}

/** A button that lets a time slider run from its start; still where motion is unwelcome until it is pressed. */
function player(button, input, move) {
  let frame = 0;
  const stop = () => {
    cancelAnimationFrame(frame);
    frame = 0;
    button.textContent = "Play";
  };
  button.addEventListener("click", () => {
    if (frame) return stop();
    button.textContent = "Pause";
    let last = performance.now(), share = Number(input.value) >= 0.999 ? 0 : Number(input.value);
    const turn = now => {
      share = Math.min(1, share + (now - last) / 9000);
      last = now;
      input.value = share;
      move(share);
      if (share >= 1) return stop();
      frame = requestAnimationFrame(turn);
    };
    frame = requestAnimationFrame(turn);
  });
}

/** The part that is being read, in the row of links. */
function follow() {
  const links = new Map([...document.querySelectorAll("nav.parts a")].map(a => [a.getAttribute("href").slice(1), a]));
  const seen = new IntersectionObserver(entries => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      for (const a of links.values()) a.removeAttribute("aria-current");
      links.get(target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-45% 0px -50% 0px" });
  for (const id of links.keys()) seen.observe(byId(id));
}

sandbox();
story();
follow();
