// Job: what is known of one job; run now, reschedule, replay, delete; its body as it came.
import { html, useObservable, useState } from "../lib.js";
import { goDead, href, path, queryText } from "../address.js";
import { rights } from "../api.js";
import { useAddJob, useQuestion } from "../asking.js";
import { Cause } from "../cause.js";
import { Lacking, replay, runNow, useMay } from "../changes.js";
import { serverNow, useNow } from "../clock.js";
import { curl, jobJson } from "../curl.js";
import { countdown, counted, duration, enumerated } from "../format.js";
import { Ended, History } from "../history.js";
import { useKeys } from "../keys.js";
import { t } from "../language.js";
import { Life } from "../life.js";
import { Next } from "../next.js";
import { AsOf, Body, Copy, Distance, Elapsed, Facts, Gone, STATES, stateName, StateName, Text, Unloaded, When } from "../parts.js";
import { usePoll } from "../poll.js";

/** Why a ready job waits. */
function WhyReady({ job, view }) {
  const topic = html`<a class="mono" href=${href("topics", job.topic)}>${job.topic}</a>`;
  // What is said of workers does not hold for a job that is called.
  const isCalled = job.callback && !["delivery_paused", "callback_fails"].includes(view?.cause?.kind);
  if (isCalled) return t`: not called yet, see ${topic}`;
  return view?.cause ? t`. In ${topic}, ${html`<${Cause} cause=${view.cause} />`}` : t`, not taken yet`;
}

/** An expiry that is nearer than this is counted down. */
const NEAR_SECONDS = 3_600;

/** What happens at the expiry of a job, which may be reserved. */
const AT_EXPIRY = {
  dead: (isReserved) => (isReserved ? t`It becomes a dead letter then, unless its worker finishes it.` : t`It becomes a dead letter then.`),
  delete: (isReserved) => (isReserved ? t`It is deleted then, unless its worker finishes it.` : t`It is deleted then.`),
};

const isOver = (job, now) => job.state === "dead" && job.expires_at && Date.parse(job.expires_at) <= now;

function ExpiresSoon({ job }) {
  const left = (Date.parse(job.expires_at) - useNow()) / 1000;
  const isNear = ["delayed", "ready"].includes(job.state) && left < NEAR_SECONDS;
  return isNear && html`<span class="tag">${t`expires in ${html`<span class="countdown">${countdown(left)}</span>`}`}</span>`;
}

const expiryOf = (job, isPast) => html`<${When} at=${job.expires_at} copies /> <span class="small">${
  job.state !== "dead" ? AT_EXPIRY[job.on_expiry]?.(job.state === "reserved") : isPast && t`A replay removes the expiry.`}</span>`;

function Waits({ job, view }) {
  const now = useNow();
  const left = (text) => (Date.parse(text) - now) / 1000;
  if (job.state === "delayed") return t`due in ${html`<strong class="countdown">${countdown(left(job.due_at))}</strong>`}`;
  if (job.state === "ready") return html`${t`for ${html`<${Elapsed} at=${job.due_at} />`}`}<${WhyReady} job=${job} view=${view} />`;
  if (job.state === "reserved") {
    const worker = job.reserved_by ? html`<bdi class="mono"><${Text} text=${job.reserved_by} /></bdi>` : t`a worker`;
    const text = t`${worker} has it for another ${html`<strong class="countdown">${countdown(left(job.reserved_until))}</strong>`}`;
    return job.attempts === 0 ? t`an older version is still out: ${text}` : text;
  }
  if (job.state === "dead") return t`after ${counted(job.attempts, "attempt")}`;
  return null;
}

/** What a worker said of its progress. The next attempt gets it, too. */
const NoteOf = ({ job: { note, noted_at: at } }) => note && html`<p class="next">${
  t`Note of a worker, ${html`<${Distance} at=${at} />`}: ${html`<strong class="reason"><${Text} text=${note} /></strong>`}`}</p>`;

const CallbackOf = ({ callback: { method = "POST", url }, children }) => html`<code class="id"><${Text} text=${`${method} ${url}`} /></code>${children}`;

const factsOf = (job, view, now) => [
  [t`Topic`, html`<a class="mono" href=${href("topics", job.topic)}>${job.topic}</a>`],
  [t`Due`, html`<${When} at=${job.due_at} copies />`],
  [isOver(job, now) ? t`Expired` : t`Expires`, job.expires_at && expiryOf(job, isOver(job, now))],
  [t`Reserved until`, job.reserved_until && html`<${When} at=${job.reserved_until} copies />`],
  [t`Died`, job.dead_at && html`<${When} at=${job.dead_at} copies />`],
  [t`Reason`, job.reason && html`<span class="reason"><${Text} text=${job.reason} /></span>`],
  [t`Attempts`, t`${job.attempts} of ${job.max_attempts === 0 ? t`any number` : job.max_attempts}`],
  [t`Retry after`, job.retry && job.retry.map(duration).join(", ")],
  ["TTR", duration(job.ttr)],
  [t`Added`, html`<${When} at=${job.created_at} copies />`],
  [t`Revision`, job.revision],
  [t`Trace`, job.traceparent && html`<code class="id">${job.traceparent.split("-")[1]}</code>`],
  [t`Callback`, job.callback
    ? html`<${CallbackOf} callback=${job.callback} />`
    : view?.settings.callback?.url && html`<${CallbackOf} callback=${view.settings.callback}> <span class="small">${t`of the topic`}</span><//>`],
];

const JobFacts = ({ job, view }) => html`<${Facts} facts=${factsOf(job, view, useNow())} />`;

/** The dialogs stay when the job has gone, with what was entered. */
function Actions({ job, refresh, isGone }) {
  const may = useMay(job.topic);
  const { ask, question } = useQuestion();
  const copying = useAddJob();
  const [busy, setBusy] = useState(false);
  const run = async (change) => {
    setBusy(true);
    await change();
    setBusy(false);
    refresh();
  };
  const asks = (action) => () => ask({ action, jobs: [job], done: refresh });
  const waits = job.state === "delayed" || job.state === "ready";
  const isExpired = isOver(job, useNow());
  return html`${!isGone && html`<div class="actions">
      ${job.state === "delayed" && may("add") && html`<button class="primary" disabled=${busy} onClick=${() => run(() => runNow(job))}>${t`Run now`}</button>`}
      ${waits && may("add") && html`<button onClick=${asks("reschedule")}>${t`Reschedule …`}</button>`}
      ${job.state === "reserved" && may("admin") && html`<button onClick=${asks("revoke")}>${t`Take back …`}</button>`}
      ${job.state === "dead" && may("admin") && html`<button class="primary" disabled=${busy} onClick=${() => run(() => replay(job, isExpired))}>${isExpired ? t`Replay without expiry` : t`Replay`}</button>`}
      ${may("add") && html`<button onClick=${() => copying.ask({ job })}>${t`Duplicate …`}</button>
        <button class="danger quiet" onClick=${asks("delete")}>${t`Delete …`}</button>`}
      <${Lacking} topic=${job.topic} scopes=${["add", "admin"]} />
    </div>`}
    ${question}${copying.question}`;
}

/** A command that adds the same job: what is undefined is left out. */
function curlOf({ id, topic, state, due_at: at, ttr, max_attempts, retry, callback, revision, expires_at: expire, on_expiry, body }) {
  const expiry = Date.parse(expire) > serverNow() ? { expire, on_expiry } : {};
  return curl(jobJson({ topic, id, at: state === "delayed" ? at : undefined, ttr, max_attempts, retry, ...expiry, revision, callback }, body));
}

export function Job({ id, hidesBodies }) {
  const { topics } = useObservable(rights) ?? {};
  const poll = usePoll(path("jobs", id), 2_000);
  const job = poll.data;
  const { data: view } = usePoll(useMay(job?.topic)("read") && job ? path("topics", job.topic) : null, 5_000);
  const { data: version } = usePoll(job?.state === "dead" ? "version" : null, 60_000);
  const limits = version?.limits;
  useKeys({ r: poll.refresh, "g d": () => goDead(job?.topic) });
  const isGone = poll.error?.status === 404;
  const ended = poll.error?.ended;
  const heading = html`<nav class="crumbs" aria-label=${t`Path`}><a href=${href()}>${t`Overview`}</a>
      ${job && html`<a class="mono" href=${href("topics", job.topic)}>${job.topic}</a>`}</nav>
    <div class="job-id"><h1 tabindex="-1" class="mono">${id}</h1><${Copy} text=${id} what=${t`Copy the id`} /></div>`;
  if (!job && poll.error?.status === 400) {
    return html`${heading}<section class="card"><h2>${t`No job has such an id`}</h2><p><${Text} text=${poll.error.detail} /></p></section>`;
  }
  if (!job && isGone) {
    return html`${heading}<section class="card"><h2>${t`There is no such job`}</h2>
      <p>${ended ? t`This job is gone: ${html`<${Ended} ended=${ended} />`}` : t`It was never added, or it is finished or deleted. The server remembers only how recent jobs ended.`}${topics && html` ${t`A job of a topic that this token is not for looks the same.`}`}</p>
      <p>${t`Jobs whose ids begin with this text: ${
        enumerated(STATES.map((state) => html`<a href=${`${href("jobs")}${queryText({ state, id_prefix: id })}`}>${stateName(state)}</a>`))}.`}</p></section>`;
  }
  if (!job) return html`${heading}<${Unloaded} poll=${poll} what=${t`the job`} />`;
  const remembers = ["finished", "finished_late"].includes(ended?.how) && view?.settings.dedup;
  return html`${heading}
    ${isGone
      ? html`<${Gone} what=${t`This job is gone:`} poll=${poll}>${ended ? html`<${Ended} ended=${ended} />` : t`it was finished or deleted.`}${
          remembers && html` ${t`Its topic remembers ids for ${duration(remembers)}: until then, the same add does not make it again.`}`}<//>`
      : html`<${AsOf} poll=${poll} />`}
    <section class="card ${poll.stale}">
      <p class="headline"><${StateName} state=${job.state} />${!isGone && html` <span><${Waits} job=${job} view=${view} /></span><${ExpiresSoon} job=${job} />`}</p>
      ${!isGone && html`<${Next} job=${job} view=${view} limits=${limits} /><${NoteOf} job=${job} />`}
      <${Actions} job=${job} refresh=${poll.refresh} isGone=${isGone} />
      <${Life} job=${job} view=${view} limits=${limits} ended=${ended} isGone=${isGone} />
    </section>
    <div class="columns wide-left">
      <section class="card ${poll.stale}">
        <${JobFacts} job=${job} view=${view} />
        <${History} job=${job} />
      </section>
      <section class="card">
        <h2>${t`Body`}</h2>
        <${Body} key=${hidesBodies} raw=${job.body} hidden=${hidesBodies}><${Copy} text=${curlOf(job)} label=${t`Copy as curl`} /><//>
        ${job.callback?.headers && html`<p class="small">${t`The values of the callback's headers are secret: put them into the copied command in place of ${html`<code>[hidden]</code>`}.`}</p>`}
      </section>
    </div>`;
}
