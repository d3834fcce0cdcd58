// The model as a tree: time and memory by module, then by line.

const modelTree = {
  opened: new Set(),

  draw() {
    if (model.children.size === 0) return false;
    const most = { seconds: model.seconds || 1, held: model.held || 1 };
    this.grid = new Grid({
      id: "model-grid", label: "Modules and lines", limit: 18, printed: 90, sort: cost ? { key: "order", descending: false } : { key: "held", descending: true },
      identity: (row) => row.node,
      level: (row) => ({ depth: row.depth, open: row.kids ? this.opened.has(row.node) : null }),
      columns: [
        { key: "name", title: "Module or line", width: "minmax(9rem, 3fr)", value: (node) => node.name,
          cell: (row) => this.name(row) },
        { key: "order", off: !cost, title: "Step", width: "4.5rem", number: true, minor: true, value: (node) => node.order,
          hint: "Place in the schedule of the first fusion", cell: ({ node }) => (node.order === Infinity ? "" : formatCount(node.order)) },
        { key: "seconds", off: !cost, title: "Time", width: "minmax(5.5rem, 1fr)", number: true, value: (node) => node.seconds,
          cell: ({ node }) => withBar(formatSeconds(node.seconds), node.seconds / most.seconds) },
        { key: "share", off: !cost, title: "Share", width: "4.5rem", number: true, minor: true, value: (node) => node.seconds,
          cell: ({ node }) => formatShare(node.seconds / most.seconds) },
        { key: "held", off: !memory, title: "At the peak", width: "minmax(5.5rem, 1fr)", number: true, value: (node) => node.held,
          hint: "HBM held at the worst moment", cell: ({ node }) => withBar(formatBytes(node.held), node.held / most.held, "held") },
        { key: "flops", off: !cost, title: "Flops", width: "6rem", number: true, minor: true, value: (node) => node.flops,
          cell: ({ node }) => formatFlops(node.flops) },
        { key: "bytes", off: !cost, title: "HBM traffic", width: "6.5rem", number: true, minor: true, value: (node) => node.bytes,
          cell: ({ node }) => formatBytes(node.bytes) },
      ],
      onSort: () => this.refresh(),
      open: (row) => this.choose(row),
      key: (key, row) => this.key(key, row),
      forPrint: () => this.printRows(),
    });
    this.openHeaviest();
    this.refresh();
    const button = (text, act) => h("button", { type: "button", onclick: act }, text);
    byId("model").append(
      h("div", { class: "tools controls" }, button("Open all", () => this.openAll()), button("Close all", () => this.closeAll())),
      this.grid.host);
    return true;
  },

  name({ node, depth, kids }) {
    const twisty = kids
      ? h("span", { class: "twisty", "aria-hidden": "true" }, this.opened.has(node) ? "▾" : "▸")
      : h("span", { class: "twisty" });
    return h("span", { class: `indent ${node.source ? "leaf" : ""}`, vars: { "--depth": depth }, title: this.title(node) },
      twisty, this.label(node));
  },

  /** A module with one child and nothing else is shown with it, as `model.layers`. */
  label(node) {
    return node.label || node.name;
  },
  title: (node) => (node.source ? `${place(node.source)} ${node.source.op}` : node.path),

  /** The nodes shown below a node, in the order of the chosen column. */
  children(node) {
    const compare = this.grid.order();
    const shown = [...node.children.values()].map((child) => this.compressed(child));
    return shown.sort((a, b) => compare(a, b) || collator.compare(a.name, b.name));
  },

  compressed(node) {
    let label = node.name;
    while (node.children.size === 1) {
      const [only] = node.children.values();
      if (only.source) break;
      label = `${label}.${only.name}`;
      node = only;
    }
    node.label = label;
    return node;
  },

  rows(isOpen) {
    const rows = [];
    const visit = (node, depth) => {
      for (const child of this.children(node)) {
        rows.push({ node: child, depth, kids: child.children.size > 0 });
        if (isOpen(child, depth)) visit(child, depth + 1);
      }
    };
    visit(model, 0);
    return rows;
  },

  refresh(active = this.grid.rows[this.grid.active]) {
    const rows = this.rows((node) => this.opened.has(node));
    const index = active ? rows.findIndex((row) => row.node === active.node) : 0;
    this.grid.setRows(rows, index);
  },

  /** Opens from the top while the tree stays short. */
  openHeaviest() {
    let level = this.children(model);
    for (let count = level.length; level.length; ) {
      const next = level.flatMap((node) => this.children(node));
      count += next.length;
      if (count > 45 && level.length > 3) break;
      level.forEach((node) => node.children.size && this.opened.add(node));
      level = next;
    }
  },

  openAll() {
    const visit = (node) => {
      if (node.children.size) this.opened.add(node);
      node.children.forEach(visit);
    };
    visit(model);
    this.refresh();
  },

  closeAll() {
    this.opened.clear();
    this.refresh();
  },

  toggle(row) {
    if (!this.opened.delete(row.node)) this.opened.add(row.node);
    this.refresh(row);
  },

  choose(row) {
    if (row.kids) this.toggle(row);
    const line = this.heaviest(row.node);
    if (line.source) sourcePanel.show(line.source, !row.kids);
    this.grid.select(row.node);
  },

  heaviest(node) {
    while (!node.source && node.children.size) {
      node = [...node.children.values()].reduce((a, b) => (b.seconds > a.seconds ? b : a));
    }
    return node;
  },

  key(key, row) {
    const open = this.opened.has(row.node);
    if (key === "ArrowRight" && row.kids && !open) this.toggle(row);
    else if (key === "ArrowRight" && row.kids) this.grid.moveTo(this.grid.active + 1);
    else if (key === "ArrowLeft" && open) this.toggle(row);
    else if (key === "ArrowLeft") this.toParent(row);
    else return false;
    return true;
  },

  toParent(row) {
    for (let index = this.grid.active; index >= 0; index -= 1) {
      if (this.grid.rows[index].depth < row.depth) {
        this.grid.moveTo(index);
        return;
      }
    }
  },

  /** On paper: what takes at least a hundredth of time or memory, to four levels. */
  printRows() {
    const heavy = (node) => node.seconds >= model.seconds / 100 || node.held >= model.held / 100;
    return this.rows((node, depth) => depth < 3 && heavy(node)).filter((row) => row.depth === 0 || heavy(row.node));
  },
};
