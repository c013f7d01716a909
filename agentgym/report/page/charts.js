// Line and area charts as plain SVG, drawn to the width they have.

const LEAST = 1e-100; // what is nearer to 0 is drawn as 0: no step of an axis fits between such numbers
const MARGIN = { top: 10, right: 14, bottom: 24, left: 56 };

// chart: {title, note, series: [{name, points: [[x, y]], band: [[x, low, high]], mark, dots}], levels: [{name, y}], stacked,
//         log, id, bottom, top, flat (height of the axis where all values are one), format (of y), across (of x; whole numbers without), domain (of x), unit (before x; "step" without)}
function chartCard(chart) {
  const legend = node("div", { class: "legend" });
  const host = node("div", { class: "plot" });
  const card = node("figure", { class: "card" + (chart.wide ? " wide" : "") },
    node("figcaption", {}, node("strong", {}, chart.title), node("span", { class: "soft" }, chart.note || "")), host, legend);
  const pointer = { at: null }; // where it is over the curves, which may be drawn again under it
  let width = 0;
  const draw = () => {
    if (!host.clientWidth) return; // in a closed section
    width = host.clientWidth;
    replace(host, plot(chart, width, chart.wide ? 250 : 170, legend, pointer));
  };
  new ResizeObserver(() => { if (host.clientWidth !== width) draw(); }).observe(host);
  card.update = (newer) => { chart = newer; draw(); };
  return card;
}

// Put charts into a place; those that are there already are drawn again where they stand.
function showCharts(host, charts) {
  const titles = JSON.stringify(charts.map((chart) => chart.id || chart.title));
  if (host.titles === titles) charts.forEach((chart, i) => host.children[i].update(chart));
  else replace(host, charts.map(chartCard));
  host.titles = titles;
}

function plot(chart, width, height, legend, pointer) {
  const points = chart.series.flatMap((series) => series.points);
  const [left, right] = chart.domain || range(points.map((point) => point[0]), null, null);
  const values = chart.stacked ? [0, 1] : points.map((point) => point[1]).concat((chart.levels || []).map((level) => level.y));
  const log = chart.log && values.some((value) => value > LEAST);
  if (log) chart = positive(chart);
  const lines = height > 200 ? 5 : 4;
  const [bottom, top] = log ? decades(values.filter((value) => value > LEAST)) : rounded(range(values, chart.bottom, chart.top, chart.flat), lines, chart.top);
  const scale = log ? Math.log10 : (value) => value;
  const x = (value) => MARGIN.left + ((value - left) / (right - left)) * (width - MARGIN.left - MARGIN.right);
  const y = (value) => height - MARGIN.bottom - ((scale(value) - scale(bottom)) / (scale(top) - scale(bottom))) * (height - MARGIN.top - MARGIN.bottom);
  const format = chart.format || short;
  const svg = drawing("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": chart.title });
  for (const tick of log ? logTicks(bottom, top, lines) : ticks(bottom, top, lines)) {
    svg.append(drawing("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(tick), y2: y(tick) }));
    svg.append(drawing("text", { class: "tick", x: MARGIN.left - 6, y: y(tick) + 4, "text-anchor": "end" }, format(tick)));
  }
  for (const tick of ticks(left, right, width > 500 ? 8 : 4).filter(chart.across ? isNumber : Number.isInteger)) {
    svg.append(drawing("text", { class: "tick", x: x(tick), y: height - 6, "text-anchor": "middle" }, (chart.across || String)(tick)));
  }
  let free = height; // names of levels close to one another are stacked upwards
  const names = [];
  for (const level of (chart.levels || []).slice().sort((a, b) => a.y - b.y)) {
    free = Math.min(free - 13, y(level.y) - 4);
    svg.append(drawing("line", { class: "level", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(level.y), y2: y(level.y) }));
    names.push(drawing("text", { class: "level-name", x: width - MARGIN.right, y: free, "text-anchor": "end" }, level.name));
  }
  if (chart.stacked) stack(svg, chart.series, x, y);
  else for (const series of chart.series) line(svg, series, x, y);
  svg.append(...names); // over the curves
  readings(svg, chart, legend, format, { x, left, right, width, height, pointer });
  return svg;
}

function line(svg, series, x, y) {
  if (series.band && series.band.length) {
    const place = (at, value) => `${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    const outline = series.band.map(([at, , high]) => place(at, high)).concat(series.band.slice().reverse().map(([at, low]) => place(at, low)));
    svg.append(drawing("path", { class: "band " + series.mark, d: "M" + outline.join("L") + "Z" }));
  }
  const path = thinned(series.points, x).map((point, i) => `${i ? "L" : "M"}${x(point[0]).toFixed(1)} ${y(point[1]).toFixed(1)}`).join("");
  svg.append(drawing("path", { class: "line " + series.mark, d: path }));
  if (series.dots || series.points.length === 1) for (const point of series.points) {
    svg.append(drawing("circle", { class: "dot " + series.mark, cx: x(point[0]), cy: y(point[1]), r: 3.5 }));
  }
}

// The points that can be told apart on the screen: of each column of pixels the first, the lowest, the highest and the last.
function thinned(points, x) {
  if (points.length < 3000) return points;
  const columns = new Map();
  points.forEach((point, i) => {
    const key = Math.round(x(point[0]));
    const [first, low, high] = columns.get(key) || [i, i, i];
    columns.set(key, [first, point[1] < points[low][1] ? i : low, point[1] > points[high][1] ? i : high, i]);
  });
  return [...new Set([...columns.values()].flat())].sort((a, b) => a - b).map((i) => points[i]);
}

function stack(svg, all, x, y) {
  let below = all[0].points.map((point) => [point[0], 0]);
  for (const series of all) {
    const above = series.points.map((point, i) => [point[0], below[i][1] + point[1]]);
    const outline = above.concat(below.slice().reverse());
    const path = outline.map((point, i) => `${i ? "L" : "M"}${x(point[0]).toFixed(1)} ${y(point[1]).toFixed(1)}`).join("");
    svg.append(drawing("path", { class: "area " + series.mark, d: path + "Z" }));
    below = above;
  }
}

// The legend shows the last values, and those under the pointer while there is one.
function readings(svg, chart, legend, format, frame) {
  const cursor = drawing("line", { class: "cursor", y1: MARGIN.top, y2: frame.height - MARGIN.bottom, visibility: "hidden" });
  svg.append(cursor);
  const left = chart.leftOut ? node("span", { class: "soft" }, `${chart.leftOut} values at or below 0 are not shown`) : "";
  const show = (at) => replace(legend, chart.series.filter((series) => !series.quiet).map((series) => {
    const near = at === null ? series.points[series.points.length - 1]
      : series.points.reduce((best, point) => (Math.abs(point[0] - at) < Math.abs(best[0] - at) ? point : best));
    return node("span", { class: "key " + series.mark }, node("i"), series.name, " ", node("b", {}, format(near[1])),
      at === null ? "" : node("span", { class: "soft" }, ` ${chart.unit || "step"} ${(chart.across || String)(near[0])}`));
  }), left);
  const move = (at) => {
    frame.pointer.at = at;
    cursor.setAttribute("visibility", at === null ? "hidden" : "visible");
    if (at !== null) for (const end of ["x1", "x2"]) cursor.setAttribute(end, frame.x(at));
    show(at);
  };
  svg.addEventListener("pointermove", (event) => {
    const share = (event.clientX - svg.getBoundingClientRect().left - MARGIN.left) / (frame.width - MARGIN.left - MARGIN.right);
    move(frame.left + Math.min(1, Math.max(0, share)) * (frame.right - frame.left));
  });
  svg.addEventListener("pointerleave", () => move(null));
  move(frame.pointer.at);
}

// The least and the greatest value, further apart where they are (nearly) one: a computer's numbers end somewhere.
function range(values, least, most, flat) {
  let low = least ?? values.reduce((a, b) => Math.min(a, b), Infinity), high = most ?? values.reduce((a, b) => Math.max(a, b), -Infinity);
  const size = Math.max(Math.abs(low), Math.abs(high));
  if (!(high - low > Math.max(1e-9 * size, LEAST))) {
    const apart = Math.max(flat ?? (size > LEAST ? size / 2 : 0.5), 1e-3 * size);
    [low, high] = [low - (least === null || least === undefined ? apart : 0), low + apart];
  }
  return [low, high];
}

// A chart for a logarithmic axis: what is not above 0 is left out, and counted.
function positive(chart) {
  const series = chart.series.map((one) => ({ ...one, points: one.points.filter(([, y]) => y > LEAST) })).filter((one) => one.points.length);
  const count = (all) => all.filter((one) => !one.quiet).reduce((sum, one) => sum + one.points.length, 0);
  return { ...chart, series, levels: (chart.levels || []).filter((level) => level.y > LEAST), leftOut: count(chart.series) - count(series) };
}

// The ends of a logarithmic axis, a little beyond the values so that the name of a level has room.
function decades(values) {
  const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
  if (high <= 1.2 * low) return [low / 2, high * 2];
  const beyond = (high / low) ** 0.06;
  return [low / beyond, high * beyond];
}

function logTicks(low, high, count) {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const every = Math.max(1, Math.ceil((last - first) / count));
  const factors = last - first <= 2 ? [1, 2, 5] : [1];
  const found = [];
  for (let power = first; power <= last; power += every) for (const factor of factors) found.push(Number(`${factor}e${power}`));
  const inside = found.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
  return inside.length > 1 ? inside : [low, high];
}

function rounded([low, high], count, most) {
  const step = spacing(low, high, count);
  return [Math.floor(low / step + 1e-9) * step, most ?? Math.ceil(high / step - 1e-9) * step];
}

function spacing(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
}

function ticks(low, high, count) {
  const step = spacing(low, high, count);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(Number((i * step).toPrecision(12)));
  return found;
}
