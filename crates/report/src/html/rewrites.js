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

  /** The op before, and those after, runs of one op told once. */
  became(change) {
    const runs = [];
    for (const op of change.after || []) {
      const last = runs[runs.length - 1];
      if (last && last.op === op) last.count += 1;
      else runs.push({ op, count: 1 });
    }
    return change.before ? `${change.before} → ${runs.map(({ op, count }) => (count > 1 ? `${op} ×${count}` : op)).join(", ")}` : "";
  },

  /** The changes of one rule to one op at one line, or where that is not known in one module, counted. */
  rows() {
    const rows = new Map();
    for (const change of this.changes) {
      const source = change.places[0] || { file: "", line: 0, module: "", op: "" };
      const became = this.became(change);
      const where = hasLine(source) ? lineKey(source) : source.module || source.op;
      const key = `${where}\n${change.rule}\n${became}`;
      if (!rows.has(key)) rows.set(key, { ...change, source, became, count: 0, modules: new Set(), also: new Set() });
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
    const told = ({ source }) => (hasLine(source) ? sourceLink({ ...source, module: "" })
      : h("span", { class: "dim", title: source.op }, source.module || source.op || NONE));
    const where = (row) => h("span", {}, told(row),
      row.also.size ? h("small", { title: [...row.also].join("\n") }, ` and ${plural(row.also.size, "line")} more`) : "");
    return sortedGrid({
      id: "rewrite-list", label: "Rewrites by line", limit: 12, printed: 60, identity: (row) => row,
      open: (row) => sourcePanel.show({ ...row.source, module: "" }),
      columns: [
        { key: "place", title: "Line", width: "minmax(11rem, 1.4fr)", value: (row) => place(row.source) || row.source.module, cell: where },
        { key: "modules", title: "Modules", width: "5rem", number: true, minor: true, value: (row) => row.modules.size,
          hint: "How many modules it was done in", cell: (row) => formatCount(row.modules.size) },
        { key: "rule", title: "Rule", width: "minmax(10rem, 1.4fr)", value: (row) => row.rule,
          cell: (row) => h("span", { class: "mono", title: row.rule }, row.rule) },
        { key: "became", off: !this.changes.some((change) => change.before), title: "Became", width: "minmax(9rem, 1.4fr)", minor: true,
          value: (row) => row.became, cell: (row) => h("span", { class: "mono", title: row.became }, row.became) },
        { key: "count", title: "Times", width: "4.5rem", number: true, value: (row) => row.count, cell: (row) => formatCount(row.count) },
        { key: "class", title: "Class", width: "8.5rem", minor: true, value: (row) => row.class,
          cell: (row) => h("span", { title: CLASSES[row.class] }, row.class) },
        { key: "why", title: "Because", width: "minmax(10rem, 2fr)", cell: (row) => h("span", { title: row.why }, row.why) },
      ],
    }, this.rows()).host;
  },
};

/** What the optimizer plans to run together. */
function drawPlanned() {
  const planned = report.planned || [];
  if (planned.length === 0) return false;
  const most = Math.max(...planned.map((region) => region.picoseconds)) || 1;
  const where = ({ source }) => h("span", {}, hasLine(source) ? sourceLink({ ...source, module: "" }) : "",
    source.module ? h("small", {}, ` ${source.module}`) : "");
  byId("planned").append(
    h("p", { class: "note" }, "What would run together, each with one pass over memory, by the same clock. The target's compiler has the last word."),
    sortedGrid({
      id: "planned-list", label: "Regions", limit: 15, printed: 60, identity: (region) => region,
      sort: { key: "time", descending: true }, open: (region) => sourcePanel.show({ ...region.source, module: "" }),
      columns: [
        { key: "name", title: "Region", width: "minmax(9rem, 1.6fr)", value: (region) => region.name,
          cell: (region) => h("span", { class: "mono", title: region.name }, region.name) },
        { key: "place", title: "Where", width: "minmax(10rem, 1.6fr)", value: (region) => place(region.source) || region.source.module, cell: where },
        { key: "time", title: "Time", width: "minmax(6rem, 1fr)", number: true, value: (region) => region.picoseconds,
          cell: (region) => withBar(formatSeconds(region.picoseconds * 1e-12), region.picoseconds / most) },
        { key: "bound", title: "Bound", width: "6.5rem", minor: true, value: (region) => region.bound, cell: (region) => region.bound },
        { key: "moved", title: "Moved", width: "6rem", number: true, value: (region) => region.read + region.written,
          hint: "Bytes read from and written to memory", cell: (region) => formatBytes(region.read + region.written) },
        { key: "kept", title: "Kept", width: "6rem", number: true, minor: true, value: (region) => region.kept,
          hint: "Bytes of values that never reach memory", cell: (region) => formatBytes(region.kept) },
        { key: "gains", title: "Because", width: "minmax(9rem, 2fr)", minor: true,
          cell: (region) => h("span", { title: region.gains.join("\n") }, region.gains.join("; ")) },
      ],
    }, planned).host);
  return true;
}
