// The life of a job as a line: what happened to it, the present, and what comes next, evenly spaced with the time between.
import { html } from "./lib.js";
import { useNow } from "./clock.js";
import { duration } from "./format.js";
import { t } from "./language.js";
import { afterTimeout, attemptText, deletedAt, holderOf, isLast } from "./next.js";
import { Moment, Text } from "./parts.js";

/** Moments that differ by less are one: the server rounds some up and others down. */
const SAME_MS = 2;

const ENDS = { released: t`released`, timed_out: t`timed out`, buried: t`buried`, revoked: t`taken back` };
const KINDS = { requeued: t`requeued`, rescheduled: t`rescheduled`, replaced: t`replaced` };
const ENDINGS = { expired: t`expired`, finished_late: t`finished`, finished: t`finished`, deleted: t`deleted` };

function eventOf({ kind, n, at, took = 0, ended, by }) {
  const start = Date.parse(at);
  // Attempts count anew after a requeue or a replacement.
  if (kind !== "attempt") return { at: start, kind: "change", title: KINDS[kind] ?? kind, by, isNewCount: kind !== "rescheduled" };
  const end = start + 1_000 * took;
  return { at: start, end, kind: ended === "buried" ? "attempt dead" : "attempt", n, title: t`attempt ${n}`, detail: t`${ENDS[ended] ?? ended} after ${duration(took)}`, by };
}

/** What is known to have happened, the oldest first. */
function past(job, until) {
  const events = (job.history ?? []).map(eventOf);
  if (!job.history?.some(({ kind }) => kind === "replaced")) events.push({ at: Date.parse(job.created_at), kind: "added", title: t`added` });
  if (job.reserved_at) {
    const n = job.attempts || undefined;
    events.push({ at: Date.parse(job.reserved_at), kind: "attempt", n, title: n ? t`attempt ${n}` : t`older version`, detail: t`taken`, by: job.reserved_by });
  }
  const due = Date.parse(job.due_at);
  const follows = events.some(({ at, end = at, kind }) => kind !== "change" && Math.abs(due - end) < SAME_MS);
  if (due <= (job.dead_at ? Date.parse(job.dead_at) : until) && !follows) events.push({ at: due, kind: "due", title: t`due` });
  if (job.dead_at) events.push({ at: Date.parse(job.dead_at), kind: "dead", title: t`dead letter` });
  return events.sort((one, other) => one.at - other.at);
}

/** The events, and between them the attempts that are known by their numbers only. */
function withGaps(events, job) {
  let last = 0;
  const all = [];
  const fill = (until) => {
    if (until <= last + 1) return;
    const title = until === last + 2 ? t`attempt ${last + 1}` : t`attempts ${last + 1} to ${until - 1}`;
    all.push({ kind: "unknown", title, detail: t`not remembered` });
  };
  for (const event of events) {
    if (event.n) fill(event.n);
    all.push(event);
    last = event.isNewCount ? 0 : event.n ?? last;
  }
  // Other events may have come after the last one.
  if (!job.reserved_at && job.attempts > last) fill(job.attempts + 1);
  return all;
}

/** What comes next, by the rules of the sentences beside it. */
function future(job, view, limits) {
  const [due, until, expiry] = [job.due_at, job.reserved_until, job.expires_at].map((text) => Date.parse(text));
  const next = { kind: "attempt", title: attemptText(job, job.attempts + 1) };
  const expires = (at) => expiry && [{ at, kind: "dead", title: t`expires`, detail: job.on_expiry === "delete" ? t`is deleted` : t`dead letter` }];
  if (job.state === "delayed") return expiry <= due ? expires(expiry) : [{ at: due, kind: "due", title: t`due`, detail: next.title }, expires(expiry)];
  if (job.state === "ready") return [next, expires(expiry)];
  if (job.state === "dead") return [{ at: deletedAt(job, limits?.queue.dead_retention), kind: "dead", title: t`deleted` }].filter(({ at }) => at);
  if (job.state !== "reserved") return [];
  const end = { at: until, kind: "due", title: t`reservation ends` };
  if (job.attempts === 0) return due > until ? [end, { at: due, kind: "due", title: t`due`, detail: next.title }, expires(Math.max(expiry, due))] : [{ ...end, detail: next.title }, expires(Math.max(expiry, until))];
  if (isLast(job, job.attempts)) return [{ ...end, kind: "dead", detail: t`dead letter` }];
  const back = until + 1_000 * afterTimeout(job, job.attempts);
  if (expiry <= back) return [end, expires(Math.max(expiry, until))];
  // When a call fails, and so when the next one follows, is not known before.
  return [end, holderOf(job, view) === "call" ? next : { ...next, at: back }, expires(expiry)];
}

/** The points of the line. One that is to come `isToCome`; one without a moment `at` has none that is known. */
export function pointsOf(job, { view, limits, ended, now }) {
  const known = withGaps(past(job, ended ? Date.parse(ended.at) : now), job);
  if (ended) return [...known, { at: Date.parse(ended.at), kind: ended.how.startsWith("finished") ? "done" : "dead", title: ENDINGS[ended.how] ?? ended.how, by: ended.by }];
  const next = future(job, view, limits).flat().filter(Boolean).map((point) => ({ ...point, isToCome: true }));
  return [...known, { at: now, kind: "now", title: t`now` }, ...next];
}

/** The time from one point to the next, if both moments are known. */
function spanText(point, next) {
  const ms = next?.at - (point.end ?? point.at);
  if (point.kind === "now" || next?.kind === "now") return ms >= 500 ? duration(Math.round(ms / 1000)) : "";
  return ms >= SAME_MS ? duration(ms < 10_000 ? Math.round(ms) / 1000 : ms / 1000) : "";
}

const Point = ({ point: { at, kind, title, detail, by, isToCome }, span, isOpen }) => html`<li class="${kind} ${isToCome ? "to-come" : ""} ${isOpen ? "open" : ""}">
  <span class="span">${span}</span><strong>${title}</strong>
  ${detail && html`<span>${detail}</span>`}
  ${by && html`<bdi class="mono"><${Text} text=${by} /></bdi>`}
  ${at && kind !== "now" && html`<${Moment} at=${at} />`}
</li>`;

/** The line. What it shows is said in words by the history and by what comes next, so that it is for the eyes only. */
export function Life({ job, view, limits, ended, isGone }) {
  const now = useNow();
  // How it ended may be unknown; then the line ends where the page last saw the job.
  const points = pointsOf(job, { view, limits, ended, now });
  const shown = isGone && !ended ? points.filter(({ kind, isToCome }) => kind !== "now" && !isToCome) : points;
  return html`<ol class="life" aria-hidden="true">${shown.map((point, n) => html`<${Point} key=${n} point=${point} span=${spanText(point, shown[n + 1])}
    isOpen=${point.kind === "now" || shown[n + 1]?.kind === "unknown"} />`)}</ol>`;
}
