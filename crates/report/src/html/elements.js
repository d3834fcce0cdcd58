// The document's elements. Whatever comes from outside enters here, as text: no markup is parsed anywhere.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    // ARIA spells out what is false; of other attributes, being there is what counts.
    if (value === null || value === undefined || (value === false && !name.startsWith("aria-"))) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "vars") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else element.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** An HTML element. `vars` sets style properties, `onclick` and the like listen. */
function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

const byId = (id) => document.getElementById(id);

/** Told to a screen reader when it is next idle. */
function announce(text) {
  byId("status").textContent = text;
}

/** A number over a bar as long as its share. */
function withBar(text, share, kind = "") {
  return h("span", { class: `barred ${kind}`, vars: { "--share": Math.max(0, Math.min(1, share || 0)) } }, text);
}

/** A bar cut in parts, with its legend. Parts are `{label, value, text, kind}`. */
function stackedBar(label, parts) {
  const total = parts.reduce((sum, part) => sum + part.value, 0) || 1;
  const shown = parts.filter((part) => part.value > 0);
  const said = shown.map((part) => `${part.label} ${part.text}`).join(", ");
  const bar = h("div", { class: "stack", role: "img", "aria-label": `${label}: ${said}` });
  const legend = h("ul", { class: "keys", "aria-hidden": "true" });
  for (const part of shown) {
    bar.append(h("span", { class: part.kind, vars: { "flex-grow": part.value / total } }));
    legend.append(h("li", { class: part.kind }, h("i"), `${part.label} `, h("b", {}, part.text)));
  }
  return h("div", { class: "stacked" }, bar, legend);
}

/** A table whose cells may wrap; beyond `limit` rows a button shows the rest. `columns` are `{title, cell, number}`. */
function wrappingTable(caption, columns, rows, limit = 25) {
  const line = (row) =>
    h("tr", {}, ...columns.map((column) => h("td", { class: column.number ? "number" : null }, column.cell(row))));
  const body = h("tbody", {}, ...rows.slice(0, limit).map(line));
  const table = h("table", {},
    h("caption", { class: "unseen" }, caption),
    h("thead", {}, h("tr", {}, ...columns.map((column) =>
      h("th", { scope: "col", class: column.number ? "number" : null }, column.title)))),
    body);
  return h("div", {}, h("div", { class: "scroll" }, table), moreButton(rows.length - limit, () => body.append(...rows.slice(limit).map(line))));
}

/** A button that shows `count` more things once, or nothing. */
function moreButton(count, show) {
  if (count <= 0) return null;
  const button = h("button", { type: "button", class: "more controls" }, `Show ${formatCount(count)} more`);
  button.addEventListener("click", () => {
    show();
    button.remove();
  });
  return button;
}
