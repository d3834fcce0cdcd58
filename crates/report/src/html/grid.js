// A table of any length: only the rows in sight are in the document. One tab stop; keys move the active row.

const ROW = 30;

class Grid {
  /**
   * `columns`: `{key, title, width, cell(row), value(row)?, number?, minor?, hint?}`; `value` makes a column sortable,
   * `minor` ones go first when there is little room, `off` ones are not there. `level(row)` makes it a tree grid: `{depth, open}`.
   */
  constructor(options) {
    Object.assign(this, { limit: 14, printed: 60, level: null, open: () => {}, key: () => false, sorted: null }, options);
    this.columns = options.columns.filter((column) => !column.off);
    this.rows = [];
    this.active = 0;
    this.selected = null;
    this.sort = options.sort || null;
    this.head = h("div", { class: "grid-row grid-head", role: "row", "aria-rowindex": 1 });
    this.body = h("div", { class: "grid-body", role: "rowgroup" });
    this.element = h("div", {
      class: "grid controls", id: this.id, role: this.level ? "treegrid" : "grid", tabindex: 0, "aria-label": this.label,
      vars: {
        "--columns": this.columns.map((column) => column.width).join(" "),
        "--major": this.columns.filter((column) => !column.minor).map((column) => column.width).join(" "),
      },
      onscroll: () => this.later(),
      onkeydown: (event) => this.keydown(event),
      onclick: (event) => this.click(event),
    }, h("div", { role: "rowgroup", class: "grid-top" }, this.head), this.body);
    this.paper = h("div", { class: "paper" });
    this.host = h("div", {}, this.element, this.paper);
    for (const column of this.columns) this.head.append(this.header(column));
    new ResizeObserver(() => this.later()).observe(this.element);
    Grid.all.push(this);
  }

  header(column) {
    const names = `${column.number ? "number" : ""} ${column.minor ? "minor" : ""}`;
    const cell = h("div", { role: "columnheader", class: names, title: column.hint });
    if (!column.value) cell.append(column.title);
    else cell.append(h("button", { type: "button", onclick: () => this.sortBy(column) }, column.title));
    column.header = cell;
    return cell;
  }

  /** Sorts by a column; again, the other way round. Numbers start with the greatest. */
  sortBy(column) {
    const again = this.sort && this.sort.key === column.key;
    this.sort = { key: column.key, descending: again ? !this.sort.descending : Boolean(column.number) };
    this.onSort(this.sort);
  }

  /** Compares rows as `sort` says. */
  order() {
    const column = this.sort && this.columns.find((candidate) => candidate.key === this.sort.key);
    if (!column) return null;
    const sign = this.sort.descending ? -1 : 1;
    return (a, b) => {
      const [left, right] = [column.value(a), column.value(b)];
      return sign * (typeof left === "string" ? collator.compare(left, right) : left === right ? 0 : left - right);
    };
  }

  setRows(rows, active = 0) {
    this.rows = rows;
    this.active = Math.max(0, Math.min(active, rows.length - 1));
    const shown = Math.max(1, Math.min(this.limit, rows.length));
    this.element.style.setProperty("--height", `${(shown + 1) * ROW + 2}px`);
    this.body.style.height = `${rows.length * ROW}px`;
    this.element.setAttribute("aria-rowcount", rows.length + 1);
    for (const column of this.columns) {
      const sorted = this.sort && this.sort.key === column.key;
      if (column.value) column.header.setAttribute("aria-sort", sorted ? (this.sort.descending ? "descending" : "ascending") : "none");
    }
    this.draw();
  }

  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  draw() {
    const height = this.element.clientHeight || (this.limit + 1) * ROW;
    const from = Math.max(0, Math.floor(this.element.scrollTop / ROW) - 4);
    const to = Math.min(this.rows.length, Math.ceil((this.element.scrollTop + height) / ROW) + 4);
    const drawn = [];
    for (let index = from; index < to; index += 1) drawn.push(this.row(index));
    if (this.rows.length === 0) drawn.push(h("p", { class: "empty" }, this.empty || "Nothing here."));
    this.body.replaceChildren(...drawn);
    const there = this.active >= from && this.active < to;
    if (there) this.element.setAttribute("aria-activedescendant", `${this.id}-${this.active}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  row(index) {
    const row = this.rows[index];
    const level = this.level && this.level(row);
    const selected = this.selected !== null && this.identity(row) === this.selected;
    return h("div", {
      class: `grid-row ${index === this.active ? "active" : ""} ${selected ? "selected" : ""}`,
      id: `${this.id}-${index}`, role: "row", "aria-rowindex": index + 2, "aria-selected": selected,
      "aria-level": level ? level.depth + 1 : null,
      "aria-expanded": level && level.open !== null ? level.open : null,
      "data-index": index, vars: { top: `${index * ROW}px` },
    }, ...this.columns.map((column) => this.cell(column, row)));
  }

  cell(column, row) {
    const names = `${column.number ? "number" : ""} ${column.minor ? "minor" : ""}`;
    return h("div", { role: "gridcell", class: names }, column.cell(row));
  }

  /** Makes a row the active one and brings it in sight, of the grid only. */
  moveTo(index) {
    if (this.rows.length === 0) return;
    this.active = Math.max(0, Math.min(index, this.rows.length - 1));
    const top = this.active * ROW;
    const room = this.element.clientHeight - ROW;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top + ROW > this.element.scrollTop + room) this.element.scrollTop = top + ROW - room;
    this.draw();
  }

  /** Marks the row that is shown elsewhere on the page. */
  select(identity) {
    this.selected = identity;
    const index = this.rows.findIndex((row) => this.identity(row) === identity);
    if (index >= 0) this.moveTo(index);
    else this.draw();
  }

  keydown(event) {
    if (event.target !== this.element || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW) - 2);
    const moves = {
      ArrowDown: this.active + 1, ArrowUp: this.active - 1, PageDown: this.active + page, PageUp: this.active - page,
      Home: 0, End: this.rows.length - 1,
    };
    if (event.key in moves) this.moveTo(moves[event.key]);
    else if (this.rows.length && (event.key === "Enter" || event.key === " ")) this.open(this.rows[this.active]);
    else if (!this.rows.length || !this.key(event.key, this.rows[this.active])) return;
    event.preventDefault();
  }

  click(event) {
    const row = event.target.closest("[data-index]");
    if (!row || event.target.closest("button")) return;
    this.active = Number(row.dataset.index);
    this.draw();
    this.open(this.rows[this.active]);
  }

  /** What a printed page shows: the first rows, all columns, as a plain table. */
  print() {
    const rows = this.forPrint ? this.forPrint() : this.rows;
    const cells = (row) => this.columns.map((column) =>
      h("td", { class: column.number ? "number" : null }, column.cell(row)));
    const head = this.columns.map((column) => h("th", { scope: "col", class: column.number ? "number" : null }, column.title));
    const left = rows.length - this.printed;
    this.paper.replaceChildren(
      h("table", {}, h("thead", {}, h("tr", {}, ...head)),
        h("tbody", {}, ...rows.slice(0, this.printed).map((row) => h("tr", {}, ...cells(row))))),
      left > 0 ? h("p", { class: "note" }, `${formatCount(left)} more rows are on the screen's page.`) : "");
  }
}
Grid.all = [];

/** A grid over a fixed set of rows, sorted by its columns. */
function sortedGrid(options, rows) {
  const grid = new Grid({
    ...options,
    onSort: () => grid.setRows([...rows].sort(grid.order())),
  });
  grid.setRows(grid.sort ? [...rows].sort(grid.order()) : rows);
  return grid;
}
