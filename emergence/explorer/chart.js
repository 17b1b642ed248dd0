// Charts as SVG, coloured by the page's own variables, so that they follow light and dark. Nothing is downloaded.

const colour = p => `var(--d${(p % 8) + 1})`;
const escaped = text => String(text).replace(/[&<>"]/g, x => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[x]);
const raised = n => String(n).replace(/[-0-9]/g, x => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(x)]);

/** A number for people: so many significant digits, powers of ten raised. */
function shown(x, digits = 3) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  if (!Number.isFinite(x)) return x > 0 ? "never" : "−∞";
  if (x === 0) return "0";
  const [factor, size] = x.toExponential(digits - 1).split("e").map(Number);
  if (size >= 5 || size < -3) return factor === 1 ? `10${raised(size)}` : `${factor}·10${raised(size)}`.replace("-", "−");
  return Number(x.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 8, useGrouping: Math.abs(x) >= 1e4 }).replace("-", "−");
}

/** Round numbers between low and high. */
function ticks(low, high, log, most = 6) {
  if (log) {
    const from = Math.ceil(Math.log10(low) - 1e-9), to = Math.floor(Math.log10(high) + 1e-9);
    const every = Math.max(1, Math.ceil((to - from + 1) / most));
    return Array.from({ length: Math.max(0, Math.floor((to - from) / every) + 1) }, (_, i) => 10 ** (from + i * every));
  }
  const rough = (high - low) / most, unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find(x => x * unit >= rough);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/**
 * Draw into `host`. Axes: {range: [low, high], log, label}. Layers: {line: [[x, y], …]}, {band: [[x, low, high], …]},
 * {rule: x}, {level: y}, {dot: [x, y]}, {text, at: [x, y]}; each with colour, width, dash, opacity, label as it needs.
 */
function chart(host, { x, y, layers, height = 260, summary }) {
  const width = Math.max(260, host.clientWidth || 600), left = y.ticks === false ? 14 : 50, right = 14, top = 34, bottom = 42;
  const scale = ({ range: [low, high], log }, from, to) => {
    const [a, b] = log ? [Math.log10(low), Math.log10(high)] : [low, high];
    return v => from + (((log ? Math.log10(Math.max(v, 1e-300)) : v) - a) / (b - a || 1)) * (to - from);
  };
  const px = scale(x, left, width - right), py = scale(y, height - bottom, top);
  const inside = v => Math.min(height + 400, Math.max(-400, v));
  const path = points => {
    let text = "", lastX = -1e9, lastY = -1e9;
    points.forEach(([u, v], i) => {
      const [a, b] = [px(u), inside(py(v))];
      if (i && i < points.length - 1 && Math.abs(a - lastX) < 0.6 && Math.abs(b - lastY) < 0.6) return;
      text += `${text ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`;
      [lastX, lastY] = [a, b];
    });
    return text;
  };
  const stroke = l => `stroke="${l.colour ?? "var(--ink)"}" stroke-width="${l.width ?? 2}" ` +
    `${l.dash ? `stroke-dasharray="${l.dash}" ` : ""}opacity="${l.opacity ?? 1}"`;
  const draw = l => {
    if (l.line) return `<path d="${path(l.line)}" fill="none" stroke-linejoin="round" ${stroke(l)}/>`;
    if (l.band) {
      const edge = path([...l.band.map(([u, low]) => [u, low]), ...l.band.map(([u, , high]) => [u, high]).reverse()]);
      return `<path d="${edge}Z" fill="${l.colour ?? "var(--band)"}" opacity="${l.opacity ?? 1}"/>`;
    }
    if (l.rule !== undefined) return `<line x1="${px(l.rule)}" x2="${px(l.rule)}" y1="${top}" y2="${height - bottom}" ${stroke(l)}/>`;
    if (l.level !== undefined) return `<line x1="${left}" x2="${width - right}" y1="${py(l.level)}" y2="${py(l.level)}" ${stroke(l)}/>`;
    if (l.dot) return `<circle cx="${px(l.dot[0])}" cy="${py(l.dot[1])}" r="4" fill="${l.hollow ? "var(--card)" : (l.colour ?? "var(--ink)")}" ${stroke(l)}/>`;
    const [u, v] = l.at, anchor = l.anchor ?? "start";
    return `<text x="${px(u) + (l.dx ?? 0)}" y="${py(v) + (l.dy ?? 0)}" text-anchor="${anchor}" class="${l.strong ? "strong" : ""}" ` +
      `style="${l.colour ? `fill:${l.colour};font-weight:600` : ""}">${escaped(l.text)}</text>`;
  };
  const label = (v, axis) => (axis.log ? `10${raised(Math.round(Math.log10(v)))}` : shown(v, 4));
  const xs = ticks(...x.range, x.log, Math.max(3, Math.floor(width / 75))), ys = ticks(...y.range, y.log, 5);
  const axes = [
    ...ys.map(v => `<line x1="${left}" x2="${width - right}" y1="${py(v)}" y2="${py(v)}" stroke="var(--grid)"/>`),
    ...(y.ticks === false ? [] : ys.map(v => `<text x="${left - 7}" y="${py(v) + 4}" text-anchor="end">${label(v, y)}</text>`)),
    ...xs.map(v => `<line x1="${px(v)}" x2="${px(v)}" y1="${height - bottom}" y2="${height - bottom + 4}" stroke="var(--hollow)"/>`),
    ...xs.map(v => `<text x="${px(v)}" y="${height - bottom + 18}" text-anchor="middle">${label(v, x)}</text>`),
    `<line x1="${left}" x2="${width - right}" y1="${height - bottom}" y2="${height - bottom}" stroke="var(--hollow)"/>`,
    `<text x="${(left + width - right) / 2}" y="${height - 6}" text-anchor="middle">${escaped(x.label ?? "")}</text>`,
    `<text x="4" y="11">${escaped(y.label ?? "")}</text>`,
  ];
  const clip = `clip-${host.id}`, clipped = layers.filter(l => l.line || l.band), free = layers.filter(l => !(l.line || l.band));
  host.innerHTML = `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${escaped(summary ?? "")}">` +
    `<clipPath id="${clip}"><rect x="${left}" y="${top - 4}" width="${width - left - right}" height="${height - top - bottom + 8}"/></clipPath>` +
    `${axes.join("")}<g clip-path="url(#${clip})">${clipped.map(draw).join("")}</g>${free.map(draw).join("")}</svg>`;
}

/** Cells of a matrix (rows × columns) by a share in [0, 1]; `marks`: {row, column, text}. */
function matrix(host, { rows, columns, value, marks, summary, rowTitle, columnTitle }) {
  const width = Math.max(260, host.clientWidth || 400), left = 34, top = 30;
  const w = Math.min(64, (width - left - 4) / columns), h = Math.max(9, Math.min(24, 300 / rows)), cells = [];
  for (let k = 0; k < rows; k++)
    for (let p = 0; p < columns; p++) {
      const at = `x="${(left + p * w + 1).toFixed(1)}" y="${(top + k * h + 1).toFixed(1)}" width="${(w - 2).toFixed(1)}" height="${(h - 2).toFixed(1)}" rx="2"`;
      cells.push(`<rect ${at} fill="var(--grid)"/><rect ${at} fill="${colour(p)}" opacity="${value(k, p).toFixed(3)}"/>`);
    }
  for (const { row, column, text, taken } of marks) {
    const x = left + column * w, y = top + row * h;
    cells.push(`<rect x="${x + 1}" y="${y + 1}" width="${w - 2}" height="${h - 2}" rx="2" fill="none" stroke="var(--ink)" stroke-width="${taken ? 2 : 1.2}"/>`);
    if (h >= 12) cells.push(`<text x="${x + w / 2}" y="${y + h / 2 + 4}" text-anchor="middle" ${taken ? 'style="fill:var(--page);font-weight:600"' : 'class="strong"'}>${text}</text>`);
  }
  const heads = Array.from({ length: columns }, (_, p) =>
    `<text x="${left + (p + 0.5) * w}" y="${top - 5}" text-anchor="middle" style="fill:${colour(p)};font-weight:600">${p + 1}</text>`);
  const numbers = Array.from({ length: rows }, (_, k) => (h >= 11 || k % 4 === 0)
    ? `<text x="${left - 6}" y="${top + (k + 0.5) * h + 4}" text-anchor="end">${k}</text>` : "");
  host.innerHTML = `<svg viewBox="0 0 ${width} ${top + rows * h + 6}" role="img" aria-label="${escaped(summary)}">` +
    `<text x="${left}" y="10">${escaped(columnTitle)} →</text><text x="0" y="${top - 5}">${escaped(rowTitle)}</text>` +
    `${heads.join("")}${numbers.join("")}${cells.join("")}</svg>`;
}
