// Making elements. Text only ever enters the page through createTextNode, so nothing in a run can become markup.

function node(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === "") continue;
    element.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

function drawing(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

function percent(value, digits = 1) {
  return isNumber(value) ? (100 * value).toFixed(digits) + " %" : "–";
}

function short(value) {
  if (!isNumber(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e10) return value.toExponential(1).replace("e+", "e");
  if (size >= 1e6) return (value / 1e6).toFixed(1) + "M";
  if (size >= 1e4) return (value / 1e3).toFixed(0) + "k";
  if (size >= 100 || Number.isInteger(value)) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  if (size >= 0.1 || size === 0) return value.toFixed(2);
  return size >= 0.001 ? value.toPrecision(2) : value.toExponential(1).replace(".0e", "e");
}

function signed(value) {
  return (value > 0 ? "+" : value < 0 ? "−" : "") + short(Math.abs(value));
}

function duration(seconds) {
  if (!isNumber(seconds)) return "–";
  const total = Math.round(seconds);
  if (total < 60) return total + " s";
  if (total < 3600) return Math.floor(total / 60) + " min " + (total % 60) + " s";
  return Math.floor(total / 3600) + " h " + Math.round((total % 3600) / 60) + " min";
}
