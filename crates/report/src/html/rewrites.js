// What our own optimizer made of the program before the target's compiler saw it.

const CLASSES = {
  exact: "the same bits",
  reassociating: "the same in exact arithmetic",
  "precision-changing": "leaves out roundings",
};

const rewritesSection = {
  changes: report.rewrites ? report.rewrites.changes : [],

  /** Where the changes are, in the program's order. */
  places() {
    return this.changes.flatMap((change) => change.places);
  },

  draw() {
    if (!report.rewrites) return false;
    const counts = Object.keys(CLASSES).map((name) => {
      const value = this.changes.filter((change) => change.class === name).length;
      return { label: `${name} (${CLASSES[name]})`, value, text: formatCount(value), kind: `class-${name}` };
    });
    const parts = [this.figures()];
    if (this.changes.length === 0) parts.push(h("p", { class: "note" }, "No rule made the program cheaper: it was left as it is."));
    else parts.push(h("h3", {}, plural(this.changes.length, "rewrite")), stackedBar("Rewrites", counts), this.table());
    byId("rewrites").append(...parts);
    return true;
  },

  figures() {
    const { picoseconds, ops, platform } = report.rewrites;
    const change = ({ before, after }) => (before ? formatShare(Math.abs(after - before) / before) : NONE);
    const than = ({ before, after }) => (after <= before ? "less" : "more");
    const figure = (title, pair, format) => overview.figure(title, format(pair.after),
      pair.after === pair.before ? `${format(pair.before)} before` : `${change(pair)} ${than(pair)} than ${format(pair.before)} before`);
    return h("div", { class: "figures" },
      figure(`Optimizer’s clock, for ${platform}`, picoseconds, (value) => formatSeconds(value * 1e-12)),
      figure("Ops of the graph", ops, formatCount));
  },

  /** The changes of one rule at one line, counted. */
  rows() {
    const rows = new Map();
    for (const change of this.changes) {
      const source = change.places[0] || { file: "", line: 0, module: "", op: "" };
      const key = `${lineKey(source)}\n${change.rule}`;
      if (!rows.has(key)) rows.set(key, { ...change, source, count: 0, modules: new Set(), also: new Set() });
      const row = rows.get(key);
      row.count += 1;
      change.places.forEach((other) => {
        row.modules.add(other.module);
        if (hasLine(other) && lineKey(other) !== lineKey(source)) row.also.add(place(other));
      });
    }
    return [...rows.values()];
  },

  table() {
    const where = (row) => h("span", {}, sourceLink({ ...row.source, module: "" }),
      row.also.size ? h("small", { title: [...row.also].join("\n") }, ` and ${plural(row.also.size, "line")} more`) : "");
    return sortedGrid({
      id: "rewrite-list", label: "Rewrites by line", limit: 12, printed: 60, identity: (row) => row,
      open: (row) => sourcePanel.show({ ...row.source, module: "" }),
      columns: [
        { key: "place", title: "Line", width: "minmax(13rem, 1.6fr)", value: (row) => place(row.source), cell: where },
        { key: "modules", title: "Modules", width: "5rem", number: true, minor: true, value: (row) => row.modules.size,
          hint: "How many modules it was done in", cell: (row) => formatCount(row.modules.size) },
        { key: "rule", title: "Rule", width: "minmax(10rem, 1.4fr)", value: (row) => row.rule,
          cell: (row) => h("span", { class: "mono", title: row.rule }, row.rule) },
        { key: "count", title: "Times", width: "4.5rem", number: true, value: (row) => row.count, cell: (row) => formatCount(row.count) },
        { key: "class", title: "Class", width: "8.5rem", minor: true, value: (row) => row.class,
          cell: (row) => h("span", { title: CLASSES[row.class] }, row.class) },
        { key: "why", title: "Because", width: "minmax(10rem, 2fr)", cell: (row) => h("span", { title: row.why }, row.why) },
      ],
    }, this.rows()).host;
  },
};
