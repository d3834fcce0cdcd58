// The program's regions: a list to search and sort, and around the chosen one the graph of what it reads and what reads it.

const BOX = { width: 224, height: 52, gap: 10, link: 76, shown: 6 };
const boxColumn = (nth) => nth * (BOX.width + BOX.link);

const fusions = {
  current: null,
  extra: { in: 0, out: 0 },

  draw() {
    if (regions.length === 0) return false;
    this.texts = regions.map(({ name, kind, bound, source }) =>
      `${name} ${kind} ${source.op} ${source.module} ${place(source)}: ${bound}`.toLowerCase());
    this.addresses = new Map(regions.map((_, index) => [this.address(index), index]));
    this.bound = "";
    this.list = this.makeList();
    this.graph = h("div", { class: "graph controls" });
    this.details = h("div", { class: "details controls" });
    byId("fusions").append(schedule.draw(), this.tools(), this.list.host, this.graph, this.details);
    this.filter();
    const heaviest = regions.reduce((best, region, index) => (region.seconds > regions[best].seconds ? index : best), 0);
    if (!this.fromAddress()) this.show(heaviest);
    return true;
  },

  tools() {
    this.box = h("input", {
      type: "search", id: "search", placeholder: "name, op, module, file:line …", "aria-describedby": "found",
      oninput: () => this.filter(),
      onkeydown: (event) => {
        if (event.key === "Escape") this.search("");
        else if (event.key === "ArrowDown" || event.key === "Enter") this.list.element.focus();
        else return;
        event.preventDefault();
      },
    });
    this.found = h("span", { id: "found", class: "note", role: "status" });
    const there = BOUNDS.filter((bound) => regions.some((region) => region.bound === bound));
    this.chips = ["", ...there].map((bound) => h("button", {
      type: "button", class: bound ? `chip ${boundClass(bound)}` : "chip", "aria-pressed": bound === "", "data-bound": bound,
      onclick: () => this.only(bound),
    }, bound ? h("i") : null, bound || "all"));
    return h("div", { class: "tools controls" }, h("label", { for: "search" }, "Search"), this.box,
      h("span", { role: "group", "aria-label": "Bound by", class: "chips" }, ...this.chips), this.found);
  },

  makeList() {
    const most = Math.max(...regions.map((region) => region.seconds)) || 1;
    const at = (index) => regions[index];
    const where = (index) => at(index).source.module || place(at(index).source);
    return new Grid({
      id: "fusion-list", label: "Fusions", limit: 12, printed: 40, empty: "No fusion matches.",
      identity: (index) => index, sort: { key: "seconds", descending: true },
      onSort: () => this.filter(),
      open: (index) => this.visit(index),
      forPrint: () => this.mostTime(),
      columns: [
        { key: "order", title: "Step", width: "4rem", number: true, minor: true, value: (index) => index, cell: (index) => formatCount(index) },
        { key: "name", title: "Name", width: "minmax(7rem, 1.3fr)", value: (index) => at(index).name,
          cell: (index) => h("span", { class: "mono", title: at(index).name }, at(index).name) },
        { key: "kind", title: "Kind", width: "5.5rem", minor: true, value: (index) => at(index).kind, cell: (index) => at(index).kind },
        { key: "module", title: "Module", width: "minmax(7rem, 2.6fr)", value: where,
          cell: (index) => h("span", { class: "tail", title: `${where(index)} ${at(index).source.op}` }, h("bdi", {}, where(index))) },
        { key: "seconds", title: "Time", width: "minmax(6rem, 1fr)", number: true, value: (index) => at(index).seconds,
          cell: (index) => withBar(formatSeconds(at(index).seconds), at(index).seconds / most, boundClass(at(index).bound)) },
        { key: "bytes", title: "HBM traffic", width: "6.5rem", number: true, minor: true, value: (index) => at(index).hbm_bytes,
          cell: (index) => formatBytes(at(index).hbm_bytes) },
        { key: "flops", title: "Flops", width: "5.5rem", number: true, minor: true, value: (index) => at(index).flops,
          cell: (index) => formatFlops(at(index).flops) },
        { key: "bound", title: "Bound", width: "7rem", minor: true, value: (index) => at(index).bound, cell: (index) => at(index).bound },
      ],
    });
  },

  mostTime() {
    return regions.map((_, index) => index).sort((a, b) => regions[b].seconds - regions[a].seconds || a - b);
  },

  /** All regions in the chosen order; made once an order. */
  ordered() {
    const { key, descending } = this.list.sort;
    const name = `${key} ${descending}`;
    this.orders ||= new Map();
    if (!this.orders.has(name)) this.orders.set(name, regions.map((_, index) => index).sort(this.list.order()));
    return this.orders.get(name);
  },

  filter() {
    const words = this.box.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = (index) => (!this.bound || regions[index].bound === this.bound)
      && words.every((word) => this.texts[index].includes(word));
    const rows = this.ordered().filter(matches);
    const seconds = rows.reduce((sum, index) => sum + regions[index].seconds, 0);
    this.list.setRows(rows);
    schedule.highlight(rows);
    this.list.element.scrollTop = 0;
    this.found.textContent = `${formatCount(rows.length)} of ${formatCount(regions.length)}, ${formatSeconds(seconds)} (${formatShare(seconds / totalSeconds)})`;
  },

  only(bound) {
    this.bound = bound;
    this.chips.forEach((chip) => chip.setAttribute("aria-pressed", chip.dataset.bound === bound));
    this.filter();
  },

  /** Searches as if typed, and goes there. */
  search(query) {
    this.box.value = query;
    this.only("");
    this.box.focus();
  },

  address: (index) => `#${sheetAddress}fusion=${encodeURIComponent(regions[index].name)}`,

  /** Shows a region and remembers it in the address, so that the browser's way back works. */
  visit(index) {
    const address = this.address(index);
    if (location.hash === address) this.show(index, true);
    else location.hash = address;
  },

  /** The same from elsewhere on the page. */
  go(index) {
    this.visit(index);
    byId("fusions").scrollIntoView();
    this.list.element.focus({ preventScroll: true });
  },

  fromAddress() {
    const index = this.addresses.get(location.hash);
    if (index === undefined) return false;
    this.show(index, true);
    return true;
  },

  show(index, chosen = false) {
    this.current = index;
    this.extra = { in: 0, out: 0 };
    const focused = this.graph.contains(document.activeElement);
    this.list.select(index);
    this.drawGraph();
    this.drawDetails();
    schedule.moveTo(index);
    sourcePanel.show(regions[index].source, chosen);
    if (focused) this.graph.querySelector(".box.center").focus({ preventScroll: true });
    if (chosen) announce(`${regions[index].name}: ${plural(producers[index].length, "producer")}, ${plural(consumers[index].length, "consumer")}`);
  },

  drawGraph() {
    const center = this.current;
    const sides = [this.side("in", producers[center]), this.side("out", consumers[center])];
    const slots = Math.max(1, ...sides.map(({ shown, left }) => shown.length + (left > 0 ? 1 : 0)));
    const height = slots * (BOX.height + BOX.gap) - BOX.gap;
    const width = boxColumn(2) + BOX.width;
    const edges = svg("svg", { class: "edges", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" });
    const [reads, readers] = sides.map((side) => this.drawSide(side, height / 2, edges));
    const chosen = this.regionBox(center, "center", boxColumn(1), (height - BOX.height) / 2);
    const plane = h("div", { class: "plane", vars: { width: `${width}px`, height: `${height}px` } }, edges, ...reads, chosen, ...readers);
    const heads = [`Reads ${formatCount(producers[center].length)}`, "Chosen", `Read by ${formatCount(consumers[center].length)}`];
    this.graph.replaceChildren(
      h("div", { class: "graph-head", "aria-hidden": "true", vars: { width: `${width}px` } }, ...heads.map((head) => h("span", {}, head))),
      h("div", { role: "group", "aria-label": "Graph around the chosen fusion", onkeydown: (event) => this.graphKey(event) }, plane));
  },

  /** Of a side's regions those that take the most time, in the schedule's order, and how many are left out. */
  side(name, all) {
    const byTime = [...all].sort((a, b) => regions[b].seconds - regions[a].seconds || a - b);
    const shown = byTime.slice(0, BOX.shown + this.extra[name]).sort((a, b) => a - b);
    return { name, shown, left: all.length - shown.length };
  },

  /** The boxes of a side, around the height of the chosen one; their edges go into `edges`. */
  drawSide({ name, shown, left }, middle, edges) {
    const x = boxColumn(name === "in" ? 0 : 2);
    const count = Math.max(1, shown.length + (left > 0 ? 1 : 0));
    const y = (nth) => middle + nth * (BOX.height + BOX.gap) - (count * (BOX.height + BOX.gap) - BOX.gap) / 2;
    shown.forEach((_, nth) => edges.append(...this.edge(name, y(nth) + BOX.height / 2, middle)));
    const boxes = shown.map((index, nth) => this.regionBox(index, name, x, y(nth)));
    if (left > 0) boxes.push(this.moreBox(name, left, x, y(shown.length)));
    const nothing = name === "in" ? "reads arguments and constants only" : "read by no fusion: a result";
    return boxes.length ? boxes : [h("p", { class: "box none", vars: this.at(x, y(0)) }, nothing)];
  },

  at(x, y) {
    return { left: `${x}px`, top: `${y}px`, width: `${BOX.width}px`, height: `${BOX.height}px` };
  },

  regionBox(index, side, x, y) {
    const { name, source, seconds, bound } = regions[index];
    const said = { in: "producer", out: "consumer", center: "chosen" }[side];
    return h("button", {
      type: "button", class: `box ${side} ${boundClass(bound)}`, "data-side": side, vars: this.at(x, y),
      title: `${name}\n${source.module} ${source.op}\n${place(source)}`,
      "aria-label": `${said}: ${name}, ${source.module} ${source.op}, ${formatSeconds(seconds)}, ${bound}`,
      "aria-current": side === "center" ? "true" : null,
      onclick: () => this.visit(index),
    }, h("span", { class: "mono" }, name),
    h("span", { class: "tail" }, h("bdi", {}, source.module || shortPlace(source) || source.op || NONE)),
    h("span", { class: "cost" }, formatSeconds(seconds), h("small", {}, `${producers[index].length} in · ${consumers[index].length} out`)));
  },

  moreBox(side, left, x, y) {
    return h("button", { type: "button", class: "box rest", "data-side": side, vars: this.at(x, y),
      onclick: () => {
        this.extra[side] += 20;
        this.drawGraph();
        const boxes = this.graph.querySelectorAll(`[data-side="${side}"]`);
        boxes[boxes.length - 1].focus({ preventScroll: true });
      } }, `${formatCount(left)} more`);
  },

  /** A line from a producer's right side to a consumer's left, with its head. */
  edge(side, outer, middle) {
    const from = side === "in" ? [BOX.width, outer] : [BOX.width * 2 + BOX.link, middle];
    const to = side === "in" ? [BOX.width + BOX.link, middle] : [(BOX.width + BOX.link) * 2, outer];
    const half = (from[0] + to[0]) / 2;
    return [
      svg("path", { d: `M${from[0]},${from[1]} C${half},${from[1]} ${half},${to[1]} ${to[0] - 6},${to[1]}` }),
      svg("path", { class: "head", d: `M${to[0]},${to[1]} l-8,-4 v8 z` }),
    ];
  },

  graphKey(event) {
    const box = event.target.closest("[data-side]");
    if (!box) return;
    const side = box.dataset.side;
    const column = (name) => [...this.graph.querySelectorAll(`[data-side="${name}"]`)];
    const sides = ["in", "center", "out"];
    let next = null;
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      const to = sides[sides.indexOf(side) + (event.key === "ArrowRight" ? 1 : -1)];
      next = to ? column(to)[0] : null;
    } else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      next = column(side)[column(side).indexOf(box) + (event.key === "ArrowDown" ? 1 : -1)];
    } else {
      return;
    }
    if (next) next.focus();
    event.preventDefault();
  },

  drawDetails() {
    const region = regions[this.current];
    const facts = [
      ["Name", h("span", { class: "mono" }, region.name)],
      ["Kind", region.kind],
      ["Op", region.source.op || NONE],
      ["Module", region.source.module || NONE],
      ["Source", sourceLink(region.source)],
      ["Time", `${formatSeconds(region.seconds)} (${formatShare(region.seconds / totalSeconds)}), bound by ${region.bound}`],
      ["Flops", formatFlops(region.flops)],
      ["HBM traffic", formatBytes(region.hbm_bytes)],
      ["Transcendentals", formatFlops(region.transcendentals)],
      ["Runs", formatCount(region.runs)],
      ["Compiler’s estimate", region.estimated_cycles === null || region.estimated_cycles === undefined ? NONE
        : `${formatCount(region.estimated_cycles)} cycles a run`],
    ];
    this.details.replaceChildren(h("dl", { class: "pairs" },
      ...facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))));
  },
};
