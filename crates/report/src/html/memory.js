// Memory over the schedule, and who holds it at the worst moment.

const CHART = { height: 250, left: 64, right: 12, top: 18, bottom: 34 };

const memoryChart = {
  draw() {
    this.moments = memory.timeline;
    if (this.moments.length === 0) return null;
    this.last = Math.max(1, this.moments[this.moments.length - 1].step);
    this.top = this.moments.reduce((best, moment, index) => (moment.bytes > this.moments[best].bytes ? index : best), 0);
    this.cursor = this.top;
    this.from = 0;
    this.to = this.last + 1;
    this.drawing = svg("svg", { "aria-hidden": "true", focusable: "false" });
    this.readout = h("p", { class: "readout" });
    this.element = h("div", {
      class: "chart", id: "memory-chart", role: "slider", tabindex: 0, "aria-label": "HBM over the schedule",
      "aria-valuemin": 0, "aria-valuemax": this.last,
      onkeydown: (event) => this.keydown(event),
      onpointermove: (event) => this.point(event),
      onclick: (event) => this.point(event),
    }, this.drawing);
    const button = (text, label, act) => h("button", { type: "button", "aria-label": label, onclick: act }, text);
    const tools = h("div", { class: "tools controls" },
      button("Peak", "Go to the peak", () => this.moveTo(this.top)),
      button("+", "Zoom in", () => this.zoom(0.5)), button("−", "Zoom out", () => this.zoom(2)));
    new ResizeObserver(() => this.redraw()).observe(this.element);
    this.redraw();
    return h("div", {}, tools, this.readout, this.element);
  },

  /** The top of the scale: the limit, unless that would flatten the curve. */
  scale() {
    const peak = this.moments[this.top].bytes;
    const limit = report.target.hbm_bytes;
    return limit <= peak * 2.5 ? Math.max(peak, limit) * 1.04 : peak * 1.15;
  },

  x(step) {
    return CHART.left + ((step - this.from) / (this.to - this.from)) * (this.width - CHART.left - CHART.right);
  },
  y(bytes) {
    return CHART.height - CHART.bottom - (bytes / this.scaleTop) * (CHART.height - CHART.top - CHART.bottom);
  },

  redraw() {
    this.width = Math.max(260, this.element.clientWidth || 900);
    this.scaleTop = this.scale();
    this.drawing.setAttribute("viewBox", `0 0 ${this.width} ${CHART.height}`);
    const baseline = CHART.height - CHART.bottom;
    const curve = this.curve();
    const always = Math.min(memory.arguments, this.scaleTop);
    const area = `${curve} L${this.x(Math.min(this.to, this.last + 1)).toFixed(1)},${baseline} L${this.x(Math.max(this.from, this.moments[0].step)).toFixed(1)},${baseline} Z`;
    const held = always > 0 ? svg("rect", { class: "arguments", x: CHART.left, y: this.y(always),
      width: this.width - CHART.left - CHART.right, height: baseline - this.y(always) }) : null;
    this.marks = svg("g", { class: "cursor" });
    this.drawing.replaceChildren(...[...this.grids(), svg("path", { class: "area", d: area }), held,
      svg("path", { class: "curve", d: curve }), ...this.limit(), this.marks].filter(Boolean));
    this.mark();
  },

  /** The curve as steps: of each pixel's column the first, least, greatest and last moment, so that no maximum is lost. */
  curve() {
    const begin = Math.max(0, this.before(this.from));
    const points = [];
    let column = null;
    const flush = () => {
      if (!column) return;
      const kept = [...new Set([column.first, column.least, column.most, column.last])].sort((a, b) => a - b);
      kept.forEach((index) => points.push(index));
    };
    for (let index = begin; index < this.moments.length && this.moments[index].step <= this.to; index += 1) {
      const { step, bytes } = this.moments[index];
      const at = Math.floor(this.x(Math.max(step, this.from)));
      if (!column || column.at !== at) {
        flush();
        column = { at, first: index, least: index, most: index, last: index };
      }
      if (bytes < this.moments[column.least].bytes) column.least = index;
      if (bytes > this.moments[column.most].bytes) column.most = index;
      column.last = index;
    }
    flush();
    const end = this.x(Math.min(this.to, this.last + 1)).toFixed(1);
    const parts = points.map((index, nth) => {
      const x = this.x(Math.max(this.from, this.moments[index].step)).toFixed(1);
      const y = this.y(this.moments[index].bytes).toFixed(1);
      return nth === 0 ? `M${x},${y}` : `H${x}V${y}`;
    });
    return `${parts.join("")}H${end}`;
  },

  /** The last moment at or before a step; -1 before the first. */
  before(step) {
    let [low, high] = [0, this.moments.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.moments[middle].step <= step) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  },

  grids() {
    const lines = [];
    const label = (x, y, text, anchor) => svg("text", { x, y, "text-anchor": anchor, class: "tick" }, text);
    const unit = 1024 ** Math.floor(Math.log(Math.max(this.scaleTop, 1)) / Math.log(1024));
    for (const value of niceTicks(this.scaleTop / unit, 4)) {
      const y = this.y(value * unit);
      lines.push(svg("line", { class: "rule", x1: CHART.left, x2: this.width - CHART.right, y1: y, y2: y }));
      lines.push(label(CHART.left - 8, y + 4, formatBytes(Math.round(value * unit)).replace(".00 ", " "), "end"));
    }
    for (const value of niceTicks(this.to - this.from, Math.max(2, Math.floor(this.width / 160)))) {
      const step = Math.round(this.from + value);
      lines.push(label(this.x(step), CHART.height - CHART.bottom + 17, formatCount(step), "middle"));
    }
    const middle = (CHART.left + this.width - CHART.right) / 2;
    return [...lines, label(middle, CHART.height - 3, "step of the schedule", "middle")];
  },

  limit() {
    const limit = report.target.hbm_bytes;
    const text = `limit ${formatBytes(limit)}`;
    const right = this.width - CHART.right;
    if (limit > this.scaleTop) {
      return [svg("text", { class: "limit-label", x: right, y: CHART.top - 5, "text-anchor": "end" }, `${text}, above this chart`)];
    }
    const y = this.y(limit);
    return [svg("line", { class: "limit", x1: CHART.left, x2: right, y1: y, y2: y }),
      svg("text", { class: "limit-label", x: right, y: y - 5, "text-anchor": "end" }, text)];
  },

  mark() {
    const { step, instruction, bytes } = this.moments[this.cursor];
    const x = this.x(step);
    const seen = x >= CHART.left - 1 && x <= this.width - CHART.right + 1;
    const shown = seen ? [svg("line", { x1: x, x2: x, y1: CHART.top, y2: CHART.height - CHART.bottom }),
      svg("circle", { cx: x, cy: this.y(bytes), r: 4 })] : [];
    this.marks.replaceChildren(...shown);
    const text = `step ${formatCount(step)}: ${formatBytes(bytes)} after ${instruction}`;
    this.element.setAttribute("aria-valuenow", step);
    this.element.setAttribute("aria-valuetext", this.cursor === this.top ? `${text}, the peak` : text);
    const region = regionIndex.get(instruction);
    this.readout.replaceChildren(
      h("b", {}, formatBytes(bytes)), ` after step ${formatCount(step)} of ${formatCount(this.last)}, `,
      region === undefined ? h("code", {}, instruction)
        : h("button", { type: "button", class: "link", onclick: () => fusions.go(region) }, instruction),
      this.cursor === this.top ? h("span", { class: "tag" }, "peak") : "",
      bytes > report.target.hbm_bytes ? h("span", { class: "tag bad" }, "over the limit") : "");
  },

  moveTo(index) {
    this.cursor = Math.max(0, Math.min(index, this.moments.length - 1));
    const { step } = this.moments[this.cursor];
    if (step < this.from || step > this.to) this.center(this.to - this.from);
    else this.mark();
  },

  /** Shows `span` steps around the cursor. */
  center(span) {
    const wide = Math.max(8, Math.min(span, this.last + 1));
    const { step } = this.moments[this.cursor];
    this.from = Math.max(0, Math.min(step - wide / 2, this.last + 1 - wide));
    this.to = this.from + wide;
    this.redraw();
  },

  zoom(factor) {
    this.center((this.to - this.from) * factor);
  },

  /** Under the pointer: the greatest moment of its pixels' column, so that peaks can be hit. */
  point(event) {
    const box = this.drawing.getBoundingClientRect();
    const at = (event.clientX - box.left) * (this.width / box.width);
    const perPixel = (this.to - this.from) / (this.width - CHART.left - CHART.right);
    const step = this.from + (at - CHART.left) * perPixel;
    const end = this.before(step + perPixel);
    let best = Math.max(0, end);
    for (let index = end; index >= 0 && this.moments[index].step >= step - perPixel; index -= 1) {
      if (this.moments[index].bytes > this.moments[best].bytes) best = index;
    }
    this.cursor = best;
    this.mark();
  },

  keydown(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.round(this.moments.length / 20));
    const moves = {
      ArrowRight: this.cursor + 1, ArrowUp: this.cursor + 1, ArrowLeft: this.cursor - 1, ArrowDown: this.cursor - 1,
      PageUp: this.cursor + page, PageDown: this.cursor - page, Home: 0, End: this.moments.length - 1, p: this.top, P: this.top,
    };
    const region = regionIndex.get(this.moments[this.cursor].instruction);
    if (event.key in moves) this.moveTo(moves[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "Enter" && region !== undefined) fusions.go(region);
    else return;
    event.preventDefault();
  },
};

/** Up to about `count` round numbers from 0 to `top`. */
function niceTicks(top, count) {
  const rough = top / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough * 0.999);
  const ticks = [];
  for (let nth = 0; nth * step <= top; nth += 1) ticks.push(nth * step);
  return ticks;
}

const HELD = ["argument", "output", "temporary", "constant"];

const memorySection = {
  draw() {
    if (!memory) return false;
    const sum = (kind) => memory.holders.filter((holder) => holder.kind === kind).reduce((bytes, holder) => bytes + holder.bytes, 0);
    const parts = HELD.map((kind) => ({ label: kind === "temporary" ? "temporaries" : `${kind}s`, value: sum(kind),
      text: formatBytes(sum(kind)), kind: `held-${kind}` }));
    const reserved = memory.reserved || 0;
    for (const [label, value] of [["fragmentation", memory.unattributed - reserved], ["reserved", reserved]]) {
      parts.push({ label, value, text: formatBytes(value), kind: "held-rest" });
    }
    byId("memory").append(...[this.facts(), memoryChart.draw(), h("h3", {}, "Held at the peak"),
      stackedBar("Held at the peak", parts), this.holders()].filter(Boolean));
    return true;
  },

  facts() {
    const facts = { Arguments: memory.arguments, Outputs: memory.outputs, "of these aliased": memory.aliased,
      "Temporary heap": memory.temporaries, Code: memory.code };
    const items = Object.entries(facts).map(([name, bytes]) => h("li", {}, `${name} `, h("b", {}, formatBytes(bytes))));
    items.push(h("li", {}, "Vector memory ", h("b", {}, formatBytes(memory.vmem_peak)), ` of ${formatBytes(report.target.vmem_bytes)}`));
    return h("ul", { class: "facts" }, ...items);
  },

  holders() {
    const where = ({ source }) => place(source) || source.module;
    return sortedGrid({
      id: "holders", label: "Who holds the memory at the peak", limit: 10, printed: 25,
      identity: (holder) => holder, sort: { key: "bytes", descending: true },
      open: (holder) => sourcePanel.show(holder.source),
      columns: [
        { key: "bytes", title: "Held", width: "minmax(5.5rem, 1fr)", number: true, value: (holder) => holder.bytes,
          cell: (holder) => withBar(formatBytes(holder.bytes), holder.bytes / memory.peak, "held") },
        { key: "share", title: "Share", width: "4.5rem", number: true, minor: true, value: (holder) => holder.bytes,
          cell: (holder) => formatShare(holder.bytes / memory.peak) },
        { key: "padding", title: "Padding", width: "5.5rem", number: true, minor: true, value: (holder) => holder.bytes - holder.unpadded,
          hint: "Of it, padding of the layout", cell: (holder) => formatBytes(holder.bytes - holder.unpadded) },
        { key: "kind", title: "Kind", width: "6rem", minor: true, value: (holder) => holder.kind, cell: (holder) => holder.kind },
        { key: "source", title: "Made at", width: "minmax(9rem, 1.6fr)", value: where, cell: (holder) => sourceLink(holder.source) },
        { key: "values", title: "Values", width: "minmax(5rem, 2fr)", value: (holder) => holder.values.join(", "),
          cell: (holder) => h("span", { title: holder.values.join(", ") }, holder.values.join(", ")) },
      ],
    }, memory.holders).host;
  },
};
