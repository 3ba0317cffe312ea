// What happened to a job, the newest first; it ends with the moment at which the job was added.
import { html } from "./lib.js";
import { duration } from "./format.js";
import { t } from "./language.js";
import { Text, Time, When } from "./parts.js";

/** How an attempt ended. */
const ENDS = {
  released: (n, took) => t`Attempt ${n} was released after ${took}`,
  buried: (n, took) => t`Attempt ${n} was buried after ${took}`,
  timed_out: (n, took) => t`Attempt ${n} timed out after ${took}`,
  revoked: (n, took) => t`Attempt ${n} was taken back after ${took}`,
};

const KINDS = {
  requeued: () => t`It was requeued`,
  rescheduled: ({ from, to }) => (from ? t`It was rescheduled from ${html`<${Time} at=${from} />`} to ${html`<${Time} at=${to} />`}` : t`It was rescheduled`),
  replaced: () => t`It was replaced`,
};

function titleOf({ kind, n, ended, took, ...entry }) {
  if (kind === "attempt") return ENDS[ended]?.(n, duration(took)) ?? t`Attempt ${n} was ${ended} after ${duration(took)}`;
  return KINDS[kind]?.(entry) ?? t`It was ${kind}`;
}

const nameOf = (name) => html`<bdi class="mono"><${Text} text=${name} /></bdi>`;

/** A title, and which client or worker that was. */
const withName = (title, { by: name, ended }) => (!name ? title : ended === "revoked" ? t`${title} from ${nameOf(name)}` : t`${title} by ${nameOf(name)}`);

const Entry = ({ entry, title }) => html`<li class="job">
  <div>${withName(title, entry)}
    ${entry.reason && html`<p class="reason"><${Text} text=${entry.reason} /></p>`}</div>
  <span class="small"><${When} at=${entry.at} /></span>
</li>`;

/** How many events of a job the server remembers. */
const MOST_EVENTS = 10;

export function History({ job }) {
  const entries = (job.history ?? []).map((entry) => [entry, titleOf(entry)]);
  entries.unshift([{ at: job.created_at }, t`It was added`]);
  // Without an attempt, the reservation is that of an older version.
  if (job.reserved_at && job.attempts > 0) entries.push([{ at: job.reserved_at, by: job.reserved_by }, t`Attempt ${job.attempts} began`]);
  return html`<h2>${t`History`}</h2>
    <ol class="jobs">${entries.reverse().map(([entry, title], n) => html`<${Entry} key=${n} entry=${entry} title=${title} />`)}</ol>
    ${job.history?.length >= MOST_EVENTS && html`<p class="small">${t`The server remembers the last ten events of a job; earlier ones may be missing.`}</p>`}`;
}

const strong = (text) => html`<strong>${text}</strong>`;

const ENDINGS = {
  expired: t`it ${strong(t`expired`)} and was deleted`,
  finished_late: t`it was ${strong(t`finished`)}, after its reservation had timed out,`,
  finished: t`it was ${strong(t`finished`)}`,
  deleted: t`it was ${strong(t`deleted`)}`,
};

/** How a job ended that is gone, if the server knows it. */
export function Ended({ ended: { how, at, by } }) {
  const [what, when] = [ENDINGS[how] ?? t`it was ${strong(how)}`, html`<${When} at=${at} />`];
  return html`<span>${by ? t`${what} ${when} by ${nameOf(by)}.` : t`${what} ${when}.`}</span>`;
}
