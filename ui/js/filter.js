// Filters of jobs, as addresses, the API and people write them.
import { moment } from "./format.js";

/** The moment that a state is listed by, and what happens then: of one job, and of several. */
export const MOMENTS = {
  delayed: ["due_at", "due", "due"],
  ready: ["due_at", "due", "due"],
  reserved: ["reserved_until", "reservation ends", "whose reservations end"],
  dead: ["dead_at", "died", "that died"],
};

/** A filter and an order. The server has ready jobs in one order only. Without a bound that is no time it would mean more jobs. */
export function filterOf({ state, topic, from, to, id_prefix, reason_prefix, order }) {
  const wrong = [from, to].find((text) => text && Number.isNaN(Date.parse(text)));
  if (wrong) throw new Error(`“${wrong}” in the address is no time.`);
  const known = Object.hasOwn(MOMENTS, state ?? "") ? state : "delayed";
  return {
    state: known, topic, from, to, id_prefix,
    reason_prefix: known === "dead" ? reason_prefix : undefined,
    order: order === "desc" && known !== "ready" ? order : undefined,
  };
}

export function inWords(filter, now, zone) {
  const at = (text) => moment(Date.parse(text), now, zone);
  const parts = [`${filter.state} jobs of ${filter.topic || "all topics"}`];
  if (filter.from || filter.to) parts.push(MOMENTS[filter.state][2]);
  if (filter.from) parts.push(`from ${at(filter.from)}`);
  if (filter.to) parts.push(`before ${at(filter.to)}`);
  if (filter.id_prefix) parts.push(`whose ids begin with “${filter.id_prefix}”`);
  if (filter.reason_prefix) parts.push(`whose reasons begin with “${filter.reason_prefix}”`);
  return parts.join(" ");
}
