// Filters of jobs, as addresses, the API and people write them.
import { moment } from "./format.js";

/** The moment that a state is listed by, the heading of its column, and what happens then to several jobs. */
export const MOMENTS = {
  delayed: ["due_at", "Due", "due"],
  ready: ["due_at", "Due", "due"],
  reserved: ["reserved_until", "Reserved until", "whose reservations end"],
  dead: ["dead_at", "Died", "that died"],
};

/** A filter and an order. The server has ready jobs in one order only. Without a bound that is no time it would mean more jobs. */
export function filterOf({ state, topic, from, to, id_prefix, reason_prefix, reserved_by, order }) {
  const wrong = [from, to].find((text) => text && Number.isNaN(Date.parse(text)));
  if (wrong) throw new Error(`“${wrong}” in the address is no time.`);
  const known = Object.hasOwn(MOMENTS, state ?? "") ? state : "delayed";
  return {
    state: known, topic, from, to, id_prefix,
    reason_prefix: known === "dead" ? reason_prefix : undefined,
    reserved_by: known === "reserved" ? reserved_by : undefined,
    order: order === "desc" && known !== "ready" ? order : undefined,
  };
}

/** Whether not all jobs of the state and topic are meant, whose number the server knows. */
export const isPart = ({ from, to, id_prefix, reason_prefix, reserved_by }) => Boolean(from || to || id_prefix || reason_prefix || reserved_by);

export function inWords(filter, now, zone) {
  const at = (text) => moment(Date.parse(text), now, zone);
  const parts = [`${filter.state} jobs of ${filter.topic || "all topics"}`];
  if (filter.from || filter.to) parts.push(MOMENTS[filter.state][2]);
  if (filter.from) parts.push(`from ${at(filter.from)}`);
  if (filter.to) parts.push(`before ${at(filter.to)}`);
  if (filter.id_prefix) parts.push(`whose ids begin with “${filter.id_prefix}”`);
  if (filter.reason_prefix) parts.push(`whose reasons begin with “${filter.reason_prefix}”`);
  if (filter.reserved_by) parts.push(`that “${filter.reserved_by}” has`);
  return parts.join(" ");
}
