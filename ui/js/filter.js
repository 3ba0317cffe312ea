// Filters of jobs, as addresses, the API and people write them.
import { moment } from "./format.js";
import { t } from "./language.js";
import { stateName } from "./parts.js";

const due = (jobs, range) => t`${jobs} due ${range}`;

/** The moment that a state is listed by, the heading of its column, and the words for jobs with moments in a range. */
export const MOMENTS = {
  delayed: ["due_at", t`Due`, due],
  ready: ["due_at", t`Due`, due],
  reserved: ["reserved_until", t`Reserved until`, (jobs, range) => t`${jobs} whose reservations end ${range}`],
  dead: ["dead_at", t`Died`, (jobs, range) => t`${jobs} that died ${range}`],
};

/** A filter and an order. The server has ready jobs in one order only. Without a bound that is no time it would mean more jobs. */
export function filterOf({ state, topic, from, to, id_prefix, reason_prefix, reserved_by, order }) {
  const wrong = [from, to].find((text) => text && Number.isNaN(Date.parse(text)));
  if (wrong) throw new Error(t`“${wrong}” in the address is no time.`);
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
  const { state, topic, from, to } = filter;
  let words = topic ? t`${stateName(state)} jobs of ${topic}` : t`${stateName(state)} jobs of all topics`;
  if (from || to) words = MOMENTS[state][2](words, !to ? t`from ${at(from)}` : from ? t`from ${at(from)} before ${at(to)}` : t`before ${at(to)}`);
  if (filter.id_prefix) words = t`${words} whose ids begin with “${filter.id_prefix}”`;
  if (filter.reason_prefix) words = t`${words} whose reasons begin with “${filter.reason_prefix}”`;
  if (filter.reserved_by) words = t`${words} that “${filter.reserved_by}” has`;
  return words;
}
