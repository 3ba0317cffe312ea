// Topic: its counts and settings; pause, add a job, purge.
import { html, useState } from "../lib.js";
import { href, path, queryText } from "../address.js";
import { useAddJob, usePurge, useSayWhy } from "../asking.js";
import { Timeline } from "../chart.js";
import { CallFailure, Cause, isFault, PauseDetails } from "../cause.js";
import { Lacking, setPause, useMay } from "../changes.js";
import { count, counted, duration, together } from "../format.js";
import { useKeys } from "../keys.js";
import { t } from "../language.js";
import { holding } from "../order.js";
import { AsOf, Bar, Distance, Elapsed, Facts, Mark, STATES, stateName, Text, Unloaded } from "../parts.js";
import { usePoll } from "../poll.js";

function Counts({ view, stale }) {
  const { counts, topic } = view;
  return html`<section class=${`card totals ${stale ? "stale" : ""}`} aria-labelledby="counts">
    <h2 id="counts" class="visually-hidden">${t`Jobs by state`}</h2>
    <dl>${STATES.map((state) => html`<div key=${state}>
      <dt><${Mark} state=${state} />${stateName(state)}</dt>
      <dd>${count(counts[state])}</dd>
      <dd class="small">
        ${state === "delayed" && (view.next_due_at ? t`next ${html`<${Distance} at=${view.next_due_at} />`}` : counts.delayed > 0 && t`next: not known`)}
        ${state === "ready" && view.oldest_overdue_at && t`oldest due ${html`<${Distance} at=${view.oldest_overdue_at} />`}`}
        ${state === "reserved" && view.polls !== null && t`${counted(view.polls, "poll")} in the last minute`}
        ${state === "dead" && counts.dead > 0 && html`<a href=${href("topics", topic, "dead")}>${t`Show dead letters`}</a>`}
      </dd>
    </div>`)}</dl>
    <${Bar} counts=${counts} />
  </section>`;
}

const PARTS = [
  ["delivery", t`Delivery`, { pause: t`Pause delivery`, resume: t`Resume delivery`, reason: t`Reason and end of the pause of delivery` }, t`Jobs are handed out`, t`No job is handed out`],
  ["intake", t`Intake`, { pause: t`Pause intake`, resume: t`Resume intake`, reason: t`Reason and end of the pause of intake` }, t`New jobs are accepted`, t`New jobs are refused`],
];

function Pauses({ view, refresh }) {
  const may = useMay(view.topic);
  const [busy, setBusy] = useState(null);
  const reason = useSayWhy();
  const toggle = async (part, pauses) => {
    setBusy(part);
    await setPause(view.topic, part, pauses);
    setBusy(null);
    refresh();
  };
  return html`<ul class="switches">${PARTS.map(([part, name, labels, running, paused]) => {
    const [isPaused, pause] = [view.paused[part], view.pauses?.[part]];
    return html`<li key=${part}>
      <span><strong>${name}</strong> <span class=${isPaused ? "tag" : "small"}>${isPaused ? paused : running}</span>
        ${pause && html`<${PauseDetails} pause=${pause} />`}</span>
      ${may("admin") && pause && html`<button type="button" aria-label=${labels.reason}
        onClick=${() => reason.ask({ topic: view.topic, part, pause, done: refresh })}>${t`Reason and end`}</button>`}
      ${may("admin") && html`<button type="button" disabled=${busy === part} aria-label=${isPaused ? labels.resume : labels.pause}
        onClick=${() => toggle(part, !isPaused)}>${isPaused ? t`Resume` : t`Pause`}</button>`}
    </li>`;
  })}</ul>
  ${reason.question}`;
}

const ENDS = { dead: t`dead letters`, delete: t`deleted` };

/** What applies to jobs that are added from now on. What is not set has the server's default. */
function settingsOf({ ttr, max_attempts: max, retry, require_receipt: receipt, late_finish: late, expire, on_expiry: end, dedup, callback }) {
  // For calls the server has a list of its own.
  const follows = retry ? retry.map(duration).join(", ") || t`at once` : callback?.url ? t`the server's list for callbacks` : t`at once`;
  const attempts = retry?.length > 0 ? retry.length + 1 : !retry && callback?.url ? t`one more than the list has` : 16;
  return [
    ["TTR", ttr === undefined ? t`${duration(60)} (default)` : duration(ttr)],
    [t`Most attempts`, max === undefined ? t`${attempts} (default)` : max === 0 ? t`no limit` : max],
    [t`Retry after`, retry ? follows : t`${follows} (default)`],
    [t`Expire`, expire !== undefined && t`${duration(expire)} after they are due: then ${ENDS[end ?? "dead"] ?? end}`],
    [t`At an expiry`, expire === undefined && end && (ENDS[end] ?? end)],
    [t`Ids remembered`, dedup !== undefined && t`for ${duration(dedup)} after a job is finished or deleted`],
    [t`Receipt`, receipt ? t`required to finish` : t`optional to finish`],
    [t`Late finish`, late === false && t`refused once the reservation has ended`],
  ];
}

function Callback({ view }) {
  const { callback } = view.settings;
  const poll = usePoll(path("topics", view.topic, "callbacks"), 5_000);
  const endpoints = poll.data?.endpoints ?? [];
  if (!callback && endpoints.length === 0) return null;
  return html`<section class="card">
    <h2>${t`Callback`}</h2>
    ${callback && html`<${Facts} facts=${[
      ["URL", callback.url && html`<code class="id"><${Text} text=${`${callback.method ?? "POST"} ${callback.url}`} /></code>`],
      [t`Headers`, callback.headers && Object.keys(callback.headers).join(", ")],
      [t`Timeout`, callback.timeout !== undefined && duration(callback.timeout)],
      [t`Rate`, callback.rate !== undefined && t`${callback.rate} calls a second`],
      [t`At once`, callback.concurrency !== undefined && t`${callback.concurrency} calls`],
    ]} />`}
    ${endpoints.length > 0 && html`<ul class=${`endpoints ${poll.stale ? "stale" : ""}`}>${endpoints.map((end) => html`<li key=${end.host}>
      <code class="id">${end.host}</code>
      <span class="small">${together([t`${count(end.in_flight)} of at most ${count(end.window)} calls in progress`,
        ...(end.minute ? [t`${counted(end.minute.calls, "call")} in the last minute`] : []),
        ...(end.minute?.calls > end.minute?.succeeded ? [t`${count(end.minute.calls - end.minute.succeeded)} failed`] : []),
        ...(end.resting_until ? [t`rests, next call ${html`<${Distance} at=${end.resting_until} />`}`] : []),
        ...(end.last_failure ? [t`last failure ${html`<${CallFailure} word=${end.last_failure.reason} />`} ${html`<${Distance} at=${end.last_failure.at} />`}`] : [])])}</span>
    </li>`)}</ul>`}
  </section>`;
}

/** A few jobs of a state. They stay where they are while the pointer or the focus is on them. */
function Few({ topic, state, title, most = 20, compare, note, children }) {
  const poll = usePoll(`jobs${queryText({ state, topic, limit: compare ? 200 : most })}`, 5_000);
  const [held, setHeld] = useState(null);
  const latest = poll.data ?? { jobs: [] };
  const { jobs, next_cursor: next } = held ?? latest;
  if (jobs.length === 0) return null;
  return html`<section class=${`card ${poll.stale ? "stale" : ""}`}>
    <div class="heading"><h2>${title}</h2><a href=${`${href("jobs")}${queryText({ state, topic })}`}>${t`All`}</a></div>
    ${compare && next && html`<p class="small">${t`Of the ${count(jobs.length)} whose reservations end first.`}</p>`}
    ${note}
    <ul class="jobs few" ...${holding((is) => setHeld((held) => (is ? (held ?? latest) : null)))}>${[...jobs].sort(compare ?? (() => 0)).slice(0, most).map((job) => html`<li key=${job.id} class="job" data-row>
      <div><a class="mono cut" title=${job.id} href=${href("jobs", job.id)}>${job.id}</a></div><span class="small">${children(job)}</span></li>`)}</ul>
  </section>`;
}

/** So many ready jobs the server sorts on Redis; of more it knows the order about. */
const MOST_SORTED = 1_000;

/** For how long a job has been reserved, and by which worker. */
function heldFor(topic, { reserved_at: at, reserved_by: worker }) {
  const time = html`<${Elapsed} at=${at} />`;
  if (!worker) return t`for ${time}`;
  const target = `${href("jobs")}${queryText({ state: "reserved", topic, reserved_by: worker })}`;
  return t`for ${time} by ${html`<a href=${target}><bdi class="mono"><${Text} text=${worker} /></bdi></a>`}`;
}

/** What comes next, what waits, and what is worked on. */
function Lists({ topic, counts }) {
  const isAbout = usePoll(counts.ready > MOST_SORTED ? "version" : null, 600_000).data?.engine === "redis";
  const note = isAbout && html`<p class="small">${t`About: Redis keeps many ready jobs in the order of their due times only roughly.`}</p>`;
  return html`<div class="columns lists">
    <${Few} key="next" topic=${topic} state="delayed" title=${t`Next due`}>${(job) => html`<${Distance} at=${job.due_at} />`}<//>
    <${Few} key="waiting" topic=${topic} state="ready" title=${t`Waiting longest`} note=${note}>${(job) => html`${t`for ${html`<${Elapsed} at=${job.due_at} />`}`}`}<//>
    <${Few} key="held" topic=${topic} state="reserved" title=${t`Reserved, longest first`} compare=${(a, b) => Date.parse(a.reserved_at) - Date.parse(b.reserved_at)}>${
      (job) => heldFor(topic, job)}<//>
  </div>`;
}

/** Whether jobs wait: a pause of delivery may have met none yet. */
const jobsWait = ({ cause, counts }) => cause.kind !== "delivery_paused" || counts.ready > 0;

/** What comes before the cause, where that is not that jobs wait. */
const LEADS = {
  intake_paused: () => t`No job is accepted:`,
  delivery_paused: (view) => (jobsWait(view) ? null : t`No job waits yet:`),
};

export function Topic({ topic }) {
  const poll = usePoll(path("topics", topic), 2_000);
  const may = useMay(topic);
  const adding = useAddJob();
  const purge = usePurge();
  useKeys({ r: poll.refresh });
  const heading = html`<nav class="crumbs" aria-label=${t`Path`}><a href=${href()}>${t`Overview`}</a></nav>
    <div class="heading"><h1 tabindex="-1" class="mono">${topic}</h1>
      ${may("add") && html`<button type="button" onClick=${() => adding.ask({ topic, done: poll.refresh })}>${t`Add a job …`}</button>`}</div>
    ${adding.question}`;
  const isGone = poll.error?.status === 404;
  if (!poll.data && !isGone) return html`${heading}<${Unloaded} poll=${poll} what=${t`the topic`} />`;
  const view = isGone ? null : poll.data;
  const holdsJobs = view && Object.values(view.counts).some((number) => number > 0);
  return html`${heading}
    ${view
      ? html`<${AsOf} poll=${poll} />
          ${view.cause && html`<p class=${isFault(view.cause) && jobsWait(view) ? "problem" : "small"}><strong>${LEADS[view.cause.kind]?.(view) ?? t`Jobs wait:`}</strong> <${Cause} cause=${view.cause} /></p>`}
          <${Counts} view=${view} stale=${poll.stale} />
          <${Timeline} topic=${topic} oldest=${view.oldest_overdue_at} />`
      : html`<section class="card"><h2>${t`There is no such topic`}</h2>
          <p>${t`A topic exists while it has jobs or settings. A new job makes it again.`}</p></section>`}
    ${view && html`<${Lists} topic=${topic} counts=${view.counts} />`}
    <div class="columns">
      ${view && html`<section class="card">
        <h2>${t`Running`}</h2>
        <${Pauses} view=${view} refresh=${poll.refresh} />
        <h2>${t`Settings`}</h2>
        <${Facts} facts=${settingsOf(view.settings)} />
      </section>`}
      ${view && html`<${Callback} view=${view} />`}
    </div>
    <div class="actions page-end">
      ${holdsJobs && may("admin") && html`<button type="button" class="danger quiet" onClick=${() => purge.ask({ topic, counts: view.counts, done: poll.refresh })}>${t`Purge …`}</button>`}
      <${Lacking} topic=${topic} scopes=${["add", "admin"]} />
    </div>
    ${purge.question}`;
}
