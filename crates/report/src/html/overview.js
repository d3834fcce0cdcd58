// The head of the page: the program, the target, the verdict and the key figures.

const overview = {
  draw() {
    const { program, target, verdict } = report;
    if (!target) {
      byId("overview").append(h("h1", {}, program.name), h("ul", { class: "chips" }, h("li", {}, "what the optimizer changed")));
      return;
    }
    // What is refused meets no devices, and no compiler; of StableHLO, no ops were traced.
    const facts = [
      `${target.name}`,
      `${target.devices_used} of ${plural(target.num_devices, "device")}`,
      target.device_kind,
      target.compiler && `libtpu ${target.compiler}`,
      program.num_ops ? plural(program.num_ops, "traced op") : "StableHLO",
    ];
    const parts = [
      h("h1", {}, program.name),
      h("ul", { class: "chips" }, ...facts.filter(Boolean).map((fact) => h("li", {}, fact))),
      h("div", { class: `verdict ${verdict.runs ? "good" : "bad"}` },
        h("p", { class: "answer" }, h("span", { class: "mark", "aria-hidden": "true" }, verdict.runs ? "✓" : "✕"),
          ...this.answer(verdict)),
        verdict.advice.length ? h("ul", {}, ...verdict.advice.map((advice) => h("li", {}, advice))) : null),
      h("div", { class: "figures" }, this.memory(), this.time(), this.flops(), this.traffic()),
      this.bounds(),
      h("p", { class: "hash" }, "Program ", h("code", {}, program.hash)),
    ];
    byId("overview").append(...parts.filter(Boolean));
  },

  /** The sentence after the verdict's word, which it may begin with itself. */
  answer({ runs, summary }) {
    const word = runs ? "Runs" : "Does not run";
    const rest = summary.toLowerCase().startsWith(word.toLowerCase()) ? summary.slice(word.length) : ` ${summary}`;
    return [h("strong", {}, word), rest];
  },

  figure(title, value, note, ...rest) {
    return h("div", { class: "figure" }, h("h2", {}, title), h("p", { class: "value" }, value),
      h("p", { class: "note" }, note), ...rest);
  },

  memory() {
    const limit = report.target.hbm_bytes;
    if (!memory) return this.figure("Peak HBM", NONE, `limit ${formatBytes(limit)}; the compiler did not get that far`);
    const share = memory.peak / limit;
    const meter = h("div", {
      class: `meter ${share > 1 ? "over" : share > 0.9 ? "close" : ""}`, role: "meter", "aria-label": "Peak HBM of the limit",
      "aria-valuemin": 0, "aria-valuemax": limit, "aria-valuenow": Math.min(memory.peak, limit),
      "aria-valuetext": `${formatBytes(memory.peak)} of ${formatBytes(limit)}`,
    }, h("span", { vars: { width: `${Math.min(100, 100 / Math.max(share, 1))}%` } },
      h("i", { vars: { width: `${Math.min(share, 1) * 100}%` } })));
    const over = memory.peak - limit;
    const note = over > 0 ? `${formatBytes(over)} over the limit of ${formatBytes(limit)}`
      : `${formatShare(share)} of ${formatBytes(limit)}`;
    return this.figure("Peak HBM", formatBytes(memory.peak), note, meter);
  },

  time() {
    if (!cost) return this.figure("Time", NONE, "the compiler did not get that far");
    return this.figure("Time", formatSeconds(totalSeconds), "a run, by the roofline: computed, not measured");
  },

  bounds() {
    if (regions.length === 0) return null;
    const parts = BOUNDS.map((bound) => {
      const seconds = regions.filter((region) => region.bound === bound).reduce((sum, region) => sum + region.seconds, 0);
      return { label: bound, value: seconds, text: `${formatSeconds(seconds)} (${formatShare(seconds / totalSeconds)})`, kind: boundClass(bound) };
    });
    return h("div", {}, h("h2", { class: "small" }, "What bounds the time"), stackedBar("What bounds the time", parts));
  },

  flops() {
    if (!cost) return this.figure("Work", NONE, "");
    return this.figure("Work", `${formatFlops(cost.flops)}flop`,
      `${formatShare(cost.peak_share)} of the ${formatFlops(report.target.peak_flops)}flop/s peak (bf16)`,
      h("p", { class: "note" }, `${formatFlops(cost.transcendentals)} exponentials and their like`));
  },

  traffic() {
    if (!cost) return this.figure("HBM traffic", NONE, "");
    const intensity = cost.hbm_bytes ? cost.flops / cost.hbm_bytes : Infinity;
    const ridge = report.target.peak_flops / report.target.hbm_bandwidth;
    const sent = cost.collectives.reduce((sum, collective) => sum + collective.bytes, 0);
    return this.figure("HBM traffic", formatBytes(cost.hbm_bytes),
      `${formatFlops(intensity)} flop per byte; the chip balances at ${formatFlops(ridge)}`,
      sent ? h("p", { class: "note" }, `${formatBytes(sent)} sent to other devices`) : null);
  },
};
