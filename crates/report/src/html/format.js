"use strict";
// Numbers as people read them: three significant digits and a unit. What is not a number shows as a dash.

const NONE = "–";

/** Orders names as people do: layer 2 before layer 10. */
const collator = new Intl.Collator("en", { numeric: true });

function significant(value) {
  const size = Math.abs(value);
  return value.toFixed(size === 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

/** The largest of `units` that leaves at least 1 (`units` go up by `step`). */
function scaled(value, step, units) {
  if (value === null || value === undefined || Number.isNaN(value)) return NONE;
  let unit = 0;
  while (Math.abs(value) >= step * 0.9995 && unit < units.length - 1) {
    value /= step;
    unit += 1;
  }
  return unit === 0 && Number.isInteger(value) ? `${value}${units[0]}` : `${significant(value)}${units[unit]}`;
}

/** From a gibibyte on with two decimals, as memories of chips are given: 15.75 GiB. */
function formatBytes(value) {
  const exact = value >= 2 ** 30 && value < 99.995 * 2 ** 30;
  return exact ? `${(value / 2 ** 30).toFixed(2)} GiB` : scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB", " PiB"]);
}
const formatFlops = (value) => scaled(value, 1000, ["", " k", " M", " G", " T", " P", " E"]);
const formatSeconds = (value) =>
  value === 0 ? "0 s" : value >= 0.9995 ? `${significant(value)} s` : scaled(value * 1e9, 1000, [" ns", " µs", " ms"]);
const formatCount = (value) =>
  value === null || value === undefined ? NONE : value.toLocaleString("en-US", { maximumFractionDigits: 1 });

function formatShare(share) {
  if (!Number.isFinite(share)) return NONE;
  if (share > 0 && share < 0.001) return "< 0.1%";
  return `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)}%`;
}

function plural(count, noun) {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}
