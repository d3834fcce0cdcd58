// What follows from the sheet's report: lookups, sums by line and by module.

/** Of the sheet's elements, which need not be in the document. */
const byId = (id) => root.querySelector(`#${id}`);
const memory = report.memory;
const cost = report.cost;
const regions = cost ? cost.regions : [];
const totalSeconds = cost ? cost.seconds : 0;

/** A region's place in the schedule, by its name. */
const regionIndex = new Map(regions.map((region, index) => [region.name, index]));

/** The regions that each region reads, and those that read it, in the schedule's order. */
const producers = regions.map((region) =>
  [...new Set(region.operands.map((name) => regionIndex.get(name)))].filter((index) => index !== undefined));
const consumers = regions.map(() => []);
producers.forEach((read, index) => read.forEach((producer) => consumers[producer].push(index)));

const BOUNDS = ["matrix unit", "vector unit", "bandwidth", "interconnect", "overhead"];
const boundClass = (bound) => `bound-${BOUNDS.includes(bound) ? bound.replace(" ", "-") : "overhead"}`;

const lineKey = (source) => `${source.file}\n${source.line}`;
const hasLine = (source) => source.file !== "" && source.line > 0;

/** `file:line`, as short as it stays clear: the file's name, with its folder where several have that name. */
const shortPlace = (() => {
  const tail = (file, parts) => file.split("/").slice(-parts).join("/");
  const rewritten = report.rewrites ? report.rewrites.changes.flatMap((change) => change.places.map((source) => ({ source }))) : [];
  const lists = [report.findings, memory ? memory.holders : [], cost ? cost.lines : [], regions, rewritten, report.planned || []];
  const files = new Set(lists.flatMap((list) => list.map((item) => item.source.file)));
  const counts = new Map();
  for (const file of files) counts.set(tail(file, 1), (counts.get(tail(file, 1)) || 0) + 1);
  return (source) => {
    if (!source.file) return "";
    const path = tail(source.file, counts.get(tail(source.file, 1)) > 1 ? 2 : 1);
    return source.line > 0 ? `${path}:${source.line}` : path;
  };
})();
const place = (source) => (source.line > 0 ? `${source.file}:${source.line}` : source.file);

/** Costs and memory at the peak by source line, whatever the module, most time first. */
const lineTotals = (() => {
  const totals = new Map();
  const at = (source) => {
    const key = lineKey(source);
    if (!totals.has(key)) {
      totals.set(key, { source, seconds: 0, flops: 0, bytes: 0, held: 0, ops: new Set(), modules: new Set() });
    }
    const total = totals.get(key);
    if (source.op) total.ops.add(source.op);
    if (source.module) total.modules.add(source.module);
    return total;
  };
  for (const line of cost ? cost.lines : []) {
    const total = at(line.source);
    total.seconds += line.seconds;
    total.flops += line.flops;
    total.bytes += line.hbm_bytes;
  }
  for (const holder of memory ? memory.holders : []) at(holder.source).held += holder.bytes;
  return totals;
})();

/** The totals of one file's lines, by number. */
const fileTotals = (() => {
  const files = new Map();
  for (const total of lineTotals.values()) {
    if (!hasLine(total.source)) continue;
    if (!files.has(total.source.file)) files.set(total.source.file, new Map());
    files.get(total.source.file).set(total.source.line, total);
  }
  return files;
})();

const sourceLines = new Map((report.sources || []).map((source) => [source.file, source.lines]));

/** The model: `{name, path, children, parent, source, seconds, flops, bytes, held, order}`; lines are leaves. */
const model = (() => {
  const newNode = (name, path, parent) =>
    ({ name, path, parent, children: new Map(), source: null, seconds: 0, flops: 0, bytes: 0, held: 0, order: Infinity });
  const root = newNode("", "", null);
  const child = (node, key, name, path) => {
    if (!node.children.has(key)) node.children.set(key, newNode(name, path, node));
    return node.children.get(key);
  };
  const moduleNode = (module) => {
    let node = root;
    let path = "";
    for (const part of module.split(".")) {
      path = path ? `${path}.${part}` : part;
      node = child(node, part, part, path);
    }
    return node;
  };
  const outside = () => child(root, "", "outside of modules", "");
  // A key with a line feed is no part of a path.
  const leaf = (source, module, label) => {
    const parent = module ? moduleNode(module) : outside();
    const key = hasLine(source) ? lineKey(source) : `\n${label}`;
    const node = child(parent, key, hasLine(source) ? shortPlace(source) : label, parent.path);
    node.source = source;
    return node;
  };
  const add = (node, amounts) => {
    for (let at = node; at; at = at.parent) {
      for (const [key, amount] of Object.entries(amounts)) at[key] += amount;
    }
  };
  const first = new Map();
  regions.forEach((region, index) => {
    const key = `${region.source.module}\n${lineKey(region.source)}`;
    if (!first.has(key)) first.set(key, index);
  });
  const modules = new Set();
  for (const line of cost ? cost.lines : []) {
    const { source } = line;
    modules.add(source.module);
    const node = leaf(source, source.module, source.op || "no line known");
    add(node, { seconds: line.seconds, flops: line.flops, bytes: line.hbm_bytes });
    const order = first.get(`${source.module}\n${lineKey(source)}`);
    for (let at = node; at && order !== undefined; at = at.parent) at.order = Math.min(at.order, order);
  }
  for (const holder of memory ? memory.holders : []) {
    const label = holder.values[0] || holder.kind;
    // A parameter's name without its last part is its module, where the model has such a one.
    const owner = label.slice(0, Math.max(0, label.lastIndexOf(".")));
    const module = holder.source.module || (modules.has(owner) ? owner : "");
    add(leaf(holder.source, module, hasLine(holder.source) ? "" : label), { held: holder.bytes });
  }
  return root;
})();
