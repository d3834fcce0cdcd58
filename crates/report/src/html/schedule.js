// The whole schedule in one strip: as wide as the roofline's time, modules above, coloured by what bounds a region,
// filled as high as it uses the chip's peak flops. What a search leaves out is grey.

const STRIP = { level: 19, bars: 46, gap: 3, levels: 5, column: 0.8 };

const schedule = {
  draw() {
    this.ends = new Float64Array(regions.length);
    regions.reduce((end, region, index) => (this.ends[index] = end + region.seconds), 0);
    this.total = this.ends[regions.length - 1] || 1;
    this.levels = this.moduleLevels();
    this.from = 0;
    this.to = this.total;
    this.cursor = 0;
    this.matching = null;
    this.drawing = svg("svg", { "aria-hidden": "true", focusable: "false" });
    this.readout = h("p", { class: "readout" });
    this.element = h("div", {
      class: "chart strip", id: "schedule", role: "slider", tabindex: 0, "aria-label": "Fusions in the order of the schedule",
      "aria-valuemin": 0, "aria-valuemax": regions.length - 1,
      onkeydown: (event) => this.keydown(event),
      onpointermove: (event) => this.moveTo(this.under(event)),
      onclick: (event) => fusions.visit(this.under(event)),
    }, this.drawing);
    const button = (text, label, factor) =>
      h("button", { type: "button", "aria-label": label, onclick: () => this.zoom(factor) }, text);
    const tools = h("div", { class: "tools controls" },
      button("+", "Zoom into the strip", 0.5), button("−", "Zoom out of the strip", 2), this.readout);
    new ResizeObserver(() => this.redraw()).observe(this.element);
    return h("div", {}, tools, this.element);
  },

  /** Module paths without what all have in common, cut into runs of the same module, a list a level. */
  moduleLevels() {
    const paths = regions.map((region) => (region.source.module ? region.source.module.split(".") : []));
    const known = paths.filter((path) => path.length);
    let common = 0;
    while (known.length && known.every((path) => path.length > common && path[common] === known[0][common])) common += 1;
    const levels = [];
    for (let level = 0; level < STRIP.levels; level += 1) {
      const runs = this.runs(paths, common + level);
      if (runs.length === 0) break;
      levels.push(runs);
    }
    return levels;
  },

  runs(paths, depth) {
    const runs = [];
    let previous = null;
    paths.forEach((path, index) => {
      const key = path.length > depth ? path.slice(0, depth + 1).join(".") : null;
      if (key !== null && key === previous) runs[runs.length - 1].to = index;
      else if (key !== null) runs.push({ label: path[depth], from: index, to: index });
      previous = key;
    });
    return runs;
  },

  begin: (index) => (index === 0 ? 0 : schedule.ends[index - 1]),
  x(seconds) {
    return ((seconds - this.from) / (this.to - this.from)) * this.width;
  },

  redraw() {
    this.width = Math.max(260, this.element.clientWidth || 900);
    const rows = this.levels.map((runs) => this.levelRow(runs)).filter(({ boxes }) => boxes.length);
    this.top = rows.length * STRIP.level + STRIP.gap;
    this.height = this.top + STRIP.bars;
    this.drawing.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    const levels = rows.map(({ boxes, labels }, level) => svg("g", { transform: `translate(0 ${level * STRIP.level})` },
      svg("path", { class: "level", d: boxes.join("") }), ...labels));
    this.bars = svg("g");
    this.marks = svg("g", { class: "cursor" });
    this.drawing.replaceChildren(...levels, this.bars, this.marks);
    this.drawBars();
    this.mark();
  },

  /** The boxes of a level, as paths, and their names, where there is room for them. */
  levelRow(runs) {
    const boxes = [];
    const labels = [];
    for (const { label, from, to } of runs) {
      const x = Math.max(0, this.x(this.begin(from)));
      const wide = Math.min(this.width, this.x(this.ends[to])) - x;
      if (wide < 2) continue;
      boxes.push(`M${x.toFixed(1)},0h${(wide - 0.6).toFixed(1)}v${STRIP.level - 2}h${(0.6 - wide).toFixed(1)}z`);
      if (wide > label.length * 7 + 5) {
        labels.push(svg("text", { class: "tick", x: x + wide / 2, y: 13, "text-anchor": "middle" }, label));
      }
    }
    return { boxes, labels };
  },

  /** Bars by colour: regions too narrow to be seen are joined, coloured as the one that takes the most time. */
  drawBars() {
    const [whole, filled] = [new Map(), new Map()];
    const bottom = this.height;
    const flush = ({ x, end, worst, flops, seconds, matches }) => {
      const kind = matches ? boundClass(regions[worst].bound) : "unmatched";
      const use = seconds ? Math.min(1, flops / (seconds * report.target.peak_flops)) : 0;
      const wide = Math.max(0.4, end - x - (end - x > 3 ? 0.6 : 0)).toFixed(2);
      const bar = (height) => `M${x.toFixed(2)},${bottom}h${wide}v${(-height).toFixed(1)}h-${wide}z`;
      whole.set(kind, (whole.get(kind) || "") + bar(STRIP.bars));
      if (matches) filled.set(kind, (filled.get(kind) || "") + bar(use * STRIP.bars));
    };
    let column = null;
    regions.forEach((region, index) => {
      const end = this.x(this.ends[index]);
      if (end < 0 || this.begin(index) > this.to) return;
      column ||= { x: this.x(this.begin(index)), worst: index, flops: 0, seconds: 0, matches: false };
      column.end = end;
      column.flops += region.flops;
      column.seconds += region.seconds;
      column.matches ||= !this.matching || this.matching.has(index);
      if (region.seconds > regions[column.worst].seconds) column.worst = index;
      if (end - column.x < STRIP.column) return;
      flush(column);
      column = null;
    });
    if (column) flush(column);
    const paths = (bars, name) => [...bars].map(([kind, d]) => svg("path", { class: `${name} ${kind}`, d }));
    this.bars.replaceChildren(...paths(whole, "bar-whole"), ...paths(filled, "bar-filled"));
  },

  /** Shows where the found regions are; all, if none is left out. */
  highlight(rows) {
    this.matching = rows.length < regions.length ? new Set(rows) : null;
    if (this.bars) this.drawBars();
  },

  mark() {
    const region = regions[this.cursor];
    const place = (index) => this.x((this.begin(index) + this.ends[index]) / 2);
    const line = (x, kind) => svg("line", { class: kind, x1: x, x2: x, y1: this.top - STRIP.gap, y2: this.height });
    const chosen = fusions.current === null ? [] : [line(place(fusions.current), "chosen-mark")];
    this.marks.replaceChildren(...chosen, line(place(this.cursor), ""));
    const use = region.seconds ? region.flops / (region.seconds * report.target.peak_flops) : 0;
    const text = `${region.name}, ${region.source.module || shortPlace(region.source) || region.source.op}: `
      + `${formatSeconds(region.seconds)}, bound by ${region.bound}, ${formatShare(use)} of the peak flops`;
    this.readout.textContent = text;
    this.element.setAttribute("aria-valuenow", this.cursor);
    this.element.setAttribute("aria-valuetext", text);
  },

  moveTo(index) {
    this.cursor = Math.max(0, Math.min(index, regions.length - 1));
    if (!this.marks) return;
    if (this.ends[this.cursor] < this.from || this.begin(this.cursor) > this.to) this.zoom(1);
    else this.mark();
  },

  /** Shows `factor` times as much time as now, around the cursor. */
  zoom(factor) {
    const span = Math.max(this.total * 1e-5, Math.min(this.total, (this.to - this.from) * factor));
    const middle = (this.begin(this.cursor) + this.ends[this.cursor]) / 2;
    this.from = Math.max(0, Math.min(middle - span / 2, this.total - span));
    this.to = this.from + span;
    this.redraw();
  },

  under(event) {
    const box = this.drawing.getBoundingClientRect();
    const seconds = this.from + ((event.clientX - box.left) / box.width) * (this.to - this.from);
    let [low, high] = [0, regions.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.ends[middle] < seconds) low = middle + 1;
      else high = middle;
    }
    return low;
  },

  keydown(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.round(regions.length / 20));
    const moves = {
      ArrowRight: this.cursor + 1, ArrowUp: this.cursor + 1, ArrowLeft: this.cursor - 1, ArrowDown: this.cursor - 1,
      PageUp: this.cursor + page, PageDown: this.cursor - page, Home: 0, End: regions.length - 1,
    };
    if (event.key in moves) this.moveTo(moves[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "Enter") fusions.visit(this.cursor);
    else return;
    event.preventDefault();
  },
};
