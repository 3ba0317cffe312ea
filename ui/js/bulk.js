// The question before a change of many jobs: what they are, how many, and the first of them.
import { html, useEffect, useObservable, useState } from "./lib.js";
import { go, path } from "./address.js";
import { ApiError, change, get, newId } from "./api.js";
import { announce, Question } from "./dialog.js";
import { serverNow } from "./clock.js";
import { shiftOf, useDue } from "./due.js";
import { inWords } from "./filter.js";
import { count, counted } from "./format.js";
import { t } from "./language.js";
import { Failure, stateName, Text } from "./parts.js";
import { preferences } from "./preferences.js";

/** Above this many jobs a change has to be confirmed by their number. */
const MANY = 100;

export const NAMES = { delete: t`Delete`, reschedule: t`Reschedule`, requeue: t`Replay`, revoke: t`Take back` };

/** What was done with `changed` of some jobs, for the announcement of single calls. */
const DONE = {
  delete: (changed, jobs) => t`Deleted ${changed} of ${jobs}`,
  reschedule: (changed, jobs) => t`Rescheduled ${changed} of ${jobs}`,
  requeue: (changed, jobs) => t`Replayed ${changed} of ${jobs}`,
  revoke: (changed, jobs) => t`Took back ${changed} of ${jobs}`,
};

/** The question whether to change one job, or several. */
const TITLES = {
  delete: (isOne) => (isOne ? t`Delete this job?` : t`Delete these jobs?`),
  reschedule: (isOne) => (isOne ? t`Reschedule this job?` : t`Reschedule these jobs?`),
  requeue: (isOne) => (isOne ? t`Replay this job?` : t`Replay these jobs?`),
  revoke: (isOne) => (isOne ? t`Take back this job?` : t`Take back these jobs?`),
};

/** Why a count ended early. */
const COUNTS = { stopped: t`The count was stopped.`, failed: t`The count failed.`, abandoned: t`The count was abandoned.` };

const post = (body) => change("POST", "bulk", body);

/** A filter as `POST /bulk` wants it. */
const bodyOf = (filter) =>
  Object.fromEntries(Object.entries({ ...filter, order: null, all_topics: filter.topic ? null : true }).filter(([, value]) => value));

/** Counts what a change would meet. A long count is an operation of its own, which `signal` ends. */
async function dryRun(action, filter, signal) {
  const due = action === "reschedule" ? { delay: 0 } : {};
  let result = await post({ action, filter: bodyOf(filter), ...due });
  const stop = () => result.state === "running" && change("POST", path("bulk", result.id, "stop")).catch(() => {});
  if (signal.aborted) stop();
  else signal.addEventListener("abort", stop);
  for (let wait = 500; result.state === "running"; ) {
    await new Promise((resolve) => setTimeout(resolve, wait));
    signal.throwIfAborted();
    try {
      result = await get(path("bulk", result.id), signal);
      wait = 500;
    } catch (error) {
      if (!error.passes) throw error;
      wait = 2_000;
    }
  }
  if (result.state && result.state !== "done") throw new Error(result.error ?? COUNTS[result.state] ?? result.state);
  return result;
}

/** Deletes a job, but none that was replaced, replayed or reserved since it was listed. */
async function deleteListed({ id, state, created_at, revision, dead_at }) {
  const now = await get(path("jobs", id));
  const isReplaced = now.created_at !== created_at || now.revision !== revision;
  if (isReplaced || now.dead_at !== dead_at) {
    const detail = isReplaced ? t`${id} was replaced by another one.` : t`${id} is ${stateName(now.state)} now.`;
    throw new ApiError({ status: 409, code: "job_changed", title: t`The job has changed`, detail });
  }
  return change("DELETE", `${path("jobs", id)}${state === "reserved" ? "" : "?unless_reserved=true"}`);
}

/** What is said of a change before it is made. */
const SAID = {
  delete: () => t`This cannot be undone.`,
  requeue: ({ spread }) => (spread ? t`They become ready over this time, and their attempts start again.` : t`They become ready at once, and their attempts start again.`),
  revoke: ({ spread }, isOne) =>
    isOne ? t`It is ready for another worker at once; on its last attempt it becomes a dead letter. A worker that still lives is not told, and may do the work, too.`
    : spread ? t`They become ready for other workers over this time; on its last attempt a job becomes a dead letter. A worker that still lives is not told, and may do the work, too.`
    : t`They are ready for other workers at once; on its last attempt a job becomes a dead letter. A worker that still lives is not told, and may do the work, too.`,
};

/** A single job is moved from where it is now, or was at an earlier try: `targets` are the times of those. */
async function shifted(id, by, targets) {
  const key = `${id} ${by}`;
  if (!targets.has(key)) {
    const { due_at: at } = await get(path("jobs", id));
    targets.set(key, new Date(Date.parse(at) + shiftOf(by) * 1000).toISOString());
  }
  return { at: targets.get(key) };
}

/** `changed` are the ids of those that an earlier try changed, `targets` the times that it moved jobs to. */
async function changeEach(action, jobs, due, changed, targets) {
  let failed = null;
  const calls = {
    delete: deleteListed,
    reschedule: async ({ id }) => change("PATCH", path("jobs", id), due.shift ? await shifted(id, due.shift, targets) : due),
    requeue: ({ id }) => change("POST", path("jobs", id, "requeue")),
    // Of the attempt that was seen: another worker may have the job by now.
    revoke: ({ id, attempts }) => change("POST", path("jobs", id, "revoke"), attempts > 0 ? { attempt: attempts } : {}),
  };
  const what = () => DONE[action](count(changed.size), counted(jobs.length, "job"));
  for (const job of jobs.filter(({ id }) => !changed.has(id))) {
    try {
      await calls[action](job);
      changed.add(job.id);
    } catch (error) {
      // A job may have changed meanwhile, so go on. Stop if no call can work.
      if (error.passes || error.status === 403) throw jobs.length > 1 ? Object.assign(error, { title: t`${what()}, then: ${error.title}` }) : error;
      failed = jobs.length > 1 && !error.detail.includes(job.id) ? Object.assign(error, { detail: `${job.id}: ${error.detail}` }) : error;
    }
  }
  if (failed && jobs.length === 1) throw failed;
  announce(t`${what()}.`, failed);
}

/** Asks before jobs are changed: the given ones, or all that match the filter. If `listed` is given, so many were shown. With a
 * `limit` only that many are changed; `begun` then gets the operation and those jobs. */
export function ChangeJobs({ action, filter, jobs, listed, limit, begun, close, done }) {
  const { zone } = useObservable(preferences);
  const [found, setFound] = useState(jobs ? { matched: jobs.length, jobs } : null);
  const [error, setError] = useState(null);
  const [id] = useState(() => `ui-${newId()}`);
  const [changed] = useState(new Set());
  const [targets] = useState(new Map());
  useEffect(() => {
    const closed = new AbortController();
    if (!jobs) dryRun(action, filter, closed.signal).then(setFound, setError);
    return () => closed.abort();
  }, []);
  const matched = found?.matched ?? 0;
  const number = Math.min(matched, limit ?? matched);
  const { due, fields } = useDue(action, jobs, !jobs && !limit, matched);
  const single = jobs?.length === 1;
  const act = async () => {
    if (jobs) await changeEach(action, jobs, due, changed, targets);
    else {
      const operation = await post({ action, filter: bodyOf(filter), ...due, dry_run: false, limit: number, id });
      if (begun) begun(operation, found.jobs.slice(0, number));
      else go("bulk", operation.id);
    }
    done?.();
  };
  const differs = listed && found && matched !== listed;
  const isReady = matched > 0 && due !== null;
  const all = !jobs && inWords(filter, serverNow(), zone);
  const what = html`<${Text} text=${jobs ? counted(matched, "job") : limit ? t`The first ${limit} of all ${all}` : t`All ${all}`} />`;
  return html`<${Question} title=${TITLES[action](single)} label=${t`${NAMES[action]} ${counted(number, "job")}`} act=${act} close=${close}
      kind=${action === "delete" ? "danger" : "primary"} ready=${isReady} complete=${found !== null}
      type=${matched > 0 && !single && (action === "delete" || number > MANY || differs) ? String(number) : undefined}>
    <p>${found && !jobs ? t`${what}: ${html`<strong>${counted(matched, "job")}</strong>`}.` : t`${what}.`}${" "}
      ${SAID[action]?.(due, single)}</p>
    ${differs && html`<p class="problem" role="alert">${t`This reason was listed with ${counted(listed, "job")}.`}${" "}
      ${matched > listed && t`Other reasons may begin in the same way.`}</p>`}
    ${error ? html`<${Failure} error=${error} />` : !found && html`<p role="status">${t`Counting …`}</p>`}
    ${found && html`<ul class="first-jobs">${found.jobs.slice(0, 10).map((job) => html`<li key=${job.id} class="mono">${job.id}</li>`)}
      ${number > 10 && html`<li>${t`and ${count(number - 10)} more`}</li>`}</ul>`}
    ${fields}
  <//>`;
}
