// What happened to a job, the newest first; it ends with the moment at which the job was added.
import { html } from "./lib.js";
import { duration } from "./format.js";
import { Text, Time, When } from "./parts.js";

const ENDS = { timed_out: "timed out", revoked: "was taken back" };

function titleOf({ kind, n, ended, took, from, to }) {
  if (kind === "attempt") return `Attempt ${n} ${ENDS[ended] ?? `was ${ended}`} after ${duration(took)}`;
  return html`It was ${kind}${from && html` from <${Time} at=${from} /> to <${Time} at=${to} />`}`;
}

const By = ({ name, from }) => name && html` ${from ? "from" : "by"} <bdi class="mono"><${Text} text=${name} /></bdi>`;

const Entry = ({ entry, title }) => html`<li class="job">
  <div>${title}<${By} name=${entry.by} from=${entry.ended === "revoked"} />
    ${entry.reason && html`<p class="reason"><${Text} text=${entry.reason} /></p>`}</div>
  <span class="small"><${When} at=${entry.at} /></span>
</li>`;

export function History({ job }) {
  const entries = (job.history ?? []).map((entry) => [entry, titleOf(entry)]);
  entries.unshift([{ at: job.created_at }, "It was added"]);
  // Without an attempt, the reservation is that of an older version.
  if (job.reserved_at && job.attempts > 0) entries.push([{ at: job.reserved_at, by: job.reserved_by }, `Attempt ${job.attempts} began`]);
  return html`<h2>History</h2>
    <ol class="jobs">${entries.reverse().map(([entry, title], n) => html`<${Entry} key=${n} entry=${entry} title=${title} />`)}</ol>`;
}

const endings = {
  expired: html`<strong>expired</strong> and was deleted`,
  finished_late: html`was <strong>finished</strong>, after its reservation had timed out,`,
};

/** How a job ended that is gone, if the server knows it. */
export const Ended = ({ ended }) => html`it ${endings[ended.how] ?? html`was <strong>${ended.how}</strong>`} <${When} at=${ended.at} /><${By} name=${ended.by} />.`;
