// What happens to a job next, in sentences: the rules by which the server ends reservations, calls again and expires jobs.
import { html } from "./lib.js";
import { useNow } from "./clock.js";
import { duration } from "./format.js";
import { t } from "./language.js";
import { Moment, Time } from "./parts.js";

/** The longest wait in seconds after a release, if the job has no retry list. */
const LONGEST_BACKOFF = 600;

const moment = (at) => html`<${Moment} at=${at} />`;
const time = (at) => html`<${Time} at=${at} />`;

export const isLast = (job, attempt) => job.max_attempts !== 0 && attempt >= job.max_attempts;

export const attemptText = ({ max_attempts: most }, n) => (most === 0 ? t`attempt ${n}` : t`attempt ${n} of ${most}`);

/** The step of the retry list after this attempt; none without a list. */
const stepAfter = ({ retry = [] }, attempt) => retry[Math.min(attempt, retry.length) - 1];

/** How many seconds a job waits once the reservation of this attempt has timed out. */
export const afterTimeout = (job, attempt) => stepAfter(job, attempt) ?? 0;

/** How many seconds it waits at least after a call that failed. */
const afterFailure = (job, attempt) => stepAfter(job, attempt) ?? Math.min(2 ** (attempt - 1), LONGEST_BACKOFF);

export const callbackOf = (job, view) => job.callback ?? (view?.settings.callback?.url ? view.settings.callback : null);

/** Scheme, host and port, as the server names an endpoint. */
function endpointOf(text) {
  const { protocol, hostname, port } = new URL(text);
  return `${protocol}//${hostname}:${port || (protocol === "https:" ? 443 : 80)}`;
}

/** The name of an endpoint that has a job: its host, and its port unless that is the default. */
const nameOf = (url) => new URL(url).host.slice(0, 64);

/** How many seconds a call may take if its callback does not say it, and how many more the job is reserved for. */
const [TIMEOUT, SETTLING] = [30, 10];

/** By how much a reservation seems to be longer or shorter, because the server rounds its moments. */
const ROUNDING_MS = 5;

/**
 * Who has a reserved job: a call that is not answered yet, the endpoint that has answered that it holds it, or a worker. It is told
 * by the name and the time that a call has, and so wrongly while the callback of the topic is changed during a call.
 */
export function holderOf(job, view) {
  const callback = callbackOf(job, view);
  if (!callback || (job.reserved_by && job.reserved_by !== nameOf(callback.url))) return "worker";
  const lasts = job.callback ? job.ttr : (callback.timeout ?? TIMEOUT) + SETTLING;
  const end = Date.parse(job.reserved_at) + 1_000 * lasts;
  return Math.abs(Date.parse(job.reserved_until) - end) < ROUNDING_MS ? "call" : "endpoint";
}

/** Until when no call goes out to the endpoint of a callback. */
const restOf = (callback, { kind, host, resting_until: until } = {}) => kind === "callback_fails" && until && host === endpointOf(callback.url) && until;

/** The pause of delivery that a job meets at this moment. */
function pauseAt(view, at) {
  if (!view?.paused.delivery) return null;
  const { until } = view.pauses?.delivery ?? {};
  return until && Date.parse(until) <= at ? null : { until };
}

/** What the expiry means for a job that may still wait for this attempt. */
function expiryNote(job, attempt) {
  const [what, at] = [attemptText(job, attempt), job.expires_at && time(job.expires_at)];
  if (!at) return null;
  return job.on_expiry === "delete" ? t`If ${what} has not begun by ${at}, it expires and is deleted.` : t`If ${what} has not begun by ${at}, it expires and becomes a dead letter.`;
}

/** What follows for a job that is delivered in this attempt, if that is all. */
const endNote = (job, attempt) => isLast(job, attempt) && t`If that attempt fails, it becomes a dead letter.`;

function delayed(job, view) {
  const [due, attempt] = [time(job.due_at), job.attempts + 1];
  if (Date.parse(job.expires_at) <= Date.parse(job.due_at)) {
    const at = time(job.expires_at);
    return [job.on_expiry === "delete" ? t`It expires at ${at}, before it is due: it is deleted then.` : t`It expires at ${at}, before it is due: it becomes a dead letter then.`];
  }
  const [what, pause] = [attemptText(job, attempt), pauseAt(view, Date.parse(job.due_at))];
  const first = pause?.until
    ? t`At ${due} it becomes ready for ${what}, and waits until delivery resumes at ${time(pause.until)}.`
    : pause ? t`At ${due} it becomes ready for ${what}, and waits until delivery of its topic is resumed.`
    : callbackOf(job, view) ? t`At ${due} it becomes ready and is called: ${what}.`
    : t`At ${due} it becomes ready for ${what}.`;
  return [first, endNote(job, attempt), expiryNote(job, attempt)];
}

function ready(job, view, now) {
  const [attempt, callback, pause] = [job.attempts + 1, callbackOf(job, view), pauseAt(view, now)];
  const what = attemptText(job, attempt);
  const rest = callback && restOf(callback, view?.cause ?? undefined);
  const first = pause?.until
    ? t`It waits until delivery resumes at ${time(pause.until)}; then comes ${what}.`
    : pause ? t`It waits until delivery of its topic is resumed; then comes ${what}.`
    : rest ? t`It is called at ${time(rest)} at the earliest, because its endpoint rests: ${what}.`
    : callback ? t`It is called as soon as the limits of its callback allow it: ${what}.`
    : t`It waits for a worker: ${what} is next.`;
  return [first, endNote(job, attempt), expiryNote(job, attempt)];
}

/** A reservation of an older version, which ends at its deadline at the latest: it cannot be touched. */
function behindOlder(job, now) {
  const [due, until, what] = [Date.parse(job.due_at), Date.parse(job.reserved_until), attemptText(job, 1)];
  const first = due > until
    ? t`At ${time(job.due_at)} it becomes ready for ${what}.`
    : due > now ? t`It becomes ready for ${what} when the older version is given back, between ${time(job.due_at)} and ${time(job.reserved_until)}.`
    : t`It becomes ready for ${what} when the older version is given back, at ${time(job.reserved_until)} at the latest.`;
  return [first, endNote(job, 1), expiryNote(job, 1)];
}

function called(job) {
  const [attempt, until] = [job.attempts, Date.parse(job.reserved_until)];
  const [what, then, wait] = [attemptText(job, attempt), attemptText(job, attempt + 1), afterFailure(job, attempt)];
  if (isLast(job, attempt)) return [t`If ${what} fails, it becomes a dead letter.`];
  const mayExpire = Date.parse(job.expires_at) <= until + 1_100 * wait;
  return [
    t`If ${what} fails, ${then} follows after ${duration(wait)} or up to a tenth more, unless its endpoint says otherwise.`,
    mayExpire && expiryNote(job, attempt + 1),
  ];
}

function held(job, who) {
  const [attempt, until, end] = [job.attempts, Date.parse(job.reserved_until), time(job.reserved_until)];
  const [then, wait] = [attemptText(job, attempt + 1), afterTimeout(job, attempt)];
  if (isLast(job, attempt)) return [t`Unless ${who} finishes or touches it by ${end}, it becomes a dead letter.`];
  if (Date.parse(job.expires_at) <= until + 1_000 * wait) {
    const at = moment(Math.max(until, Date.parse(job.expires_at)));
    return [job.on_expiry === "delete"
      ? t`Unless ${who} finishes, touches, releases or buries it by ${end}, it expires at ${at} and is deleted.`
      : t`Unless ${who} finishes, touches, releases or buries it by ${end}, it expires at ${at} and becomes a dead letter.`];
  }
  return [wait > 0
    ? t`Unless ${who} finishes, touches, releases or buries it by ${end}, it comes back after ${duration(wait)} for ${then}.`
    : t`Unless ${who} finishes, touches, releases or buries it by ${end}, it is ready again at once for ${then}.`];
}

/** When the server deletes a dead letter, which it keeps for so many seconds. */
export const deletedAt = (job, retention) => retention && Date.parse(job.dead_at) + 1_000 * retention;

const dead = (job, retention) => [retention
  ? t`It stays a dead letter until ${moment(deletedAt(job, retention))}, when the server deletes it, unless it is replayed before.`
  : t`It stays a dead letter until it is replayed or deleted.`];

/**
 * The sentences. `view` is that of its topic, and `limits` are those of the server, by which a dead letter may be deleted; without
 * them nothing is said that depends on them.
 */
export function nextOf(job, { view, limits, now }) {
  if (job.state === "dead") return limits ? dead(job, limits.queue.dead_retention) : [];
  if (job.state === "reserved" && job.attempts === 0) return behindOlder(job, now);
  if (!view) return [];
  if (job.state === "delayed") return delayed(job, view);
  if (job.state === "ready") return ready(job, view, now);
  if (job.state === "reserved") {
    const holder = holderOf(job, view);
    return holder === "call" ? called(job) : held(job, holder === "endpoint" ? t`its endpoint` : t`its worker`);
  }
  return [];
}

export function Next({ job, view, limits }) {
  const sentences = nextOf(job, { view, limits, now: useNow() }).filter(Boolean);
  return sentences.length > 0 && html`<p class="next">${sentences.map((sentence) => html`<span>${sentence}</span> `)}</p>`;
}
