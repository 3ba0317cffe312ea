// The question before a change of many jobs: what they are, how many, and the first of them.
import { html, useEffect, useObservable, useState } from "./lib.js";
import { go, path } from "./address.js";
import { change, get } from "./api.js";
import { announce, Question } from "./dialog.js";
import { serverNow } from "./clock.js";
import { useDue } from "./due.js";
import { inWords } from "./filter.js";
import { count, counted } from "./format.js";
import { Failure, Text } from "./parts.js";
import { preferences } from "./preferences.js";

/** Above this many jobs a change has to be confirmed by their number. */
const MANY = 100;

export const NAMES = { delete: "Delete", reschedule: "Reschedule", requeue: "Replay" };

/** What was done, for the announcement of single calls. */
const DONE = { delete: "Deleted", reschedule: "Rescheduled", requeue: "Replayed" };

const post = (body) => change("POST", "bulk", body);

/** A filter as `POST /bulk` wants it. */
const bodyOf = (filter) =>
  Object.fromEntries(Object.entries({ ...filter, all_topics: filter.topic ? null : true }).filter(([, value]) => value));

/** Counts what a change would meet. A long count is an operation of its own. */
async function dryRun(action, filter) {
  const due = action === "reschedule" ? { delay: 0 } : {};
  let result = await post({ action, filter: bodyOf(filter), ...due });
  while (result.state === "running") {
    await new Promise((resolve) => setTimeout(resolve, 500));
    result = await get(path("bulk", result.id));
  }
  if (result.state && result.state !== "done") throw new Error(result.error ?? `The count was ${result.state}.`);
  return result;
}

/** A name of the operation, so that a repeated call does not run it twice. */
const newId = () => `ui-${[...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;

async function changeEach(action, jobs, due) {
  let [changed, failed] = [0, null];
  const calls = {
    delete: (id) => change("DELETE", path("jobs", id)),
    reschedule: (id) => change("PATCH", path("jobs", id), due),
    requeue: (id) => change("POST", path("jobs", id, "requeue")),
  };
  for (const { id } of jobs) {
    try {
      await calls[action](id);
      changed += 1;
    } catch (error) {
      // A job may have changed meanwhile, so go on. Stop if no call can work.
      if (error.passes || error.status === 403) throw error;
      failed = error;
    }
  }
  if (failed && jobs.length === 1) throw failed;
  announce(`${DONE[action]} ${count(changed)} of ${counted(jobs.length, "job")}.`, failed);
}

/** Asks before jobs are changed: the given ones, or all that match the filter. */
export function ChangeJobs({ action, filter, jobs, close, done }) {
  const { zone } = useObservable(preferences);
  const [found, setFound] = useState(jobs ? { matched: jobs.length, jobs } : null);
  const [error, setError] = useState(null);
  const [id] = useState(newId);
  const { due, fields } = useDue(action, !jobs);
  useEffect(() => void (jobs || dryRun(action, filter).then(setFound, setError)), []);
  const matched = found?.matched ?? 0;
  const single = jobs?.length === 1;
  const act = async () => {
    if (jobs) await changeEach(action, jobs, due);
    else {
      const operation = await post({ action, filter: bodyOf(filter), ...due, dry_run: false, limit: matched, id });
      go("bulk", operation.id);
    }
    done?.();
  };
  const isReady = matched > 0 && due !== null;
  return html`<${Question} title=${`${NAMES[action]} ${single ? "this job" : "these jobs"}?`} label=${`${NAMES[action]} ${counted(matched, "job")}`} act=${act} close=${close}
      kind=${action === "delete" ? "danger" : "primary"} ready=${isReady}
      type=${matched > 0 && !single && (action === "delete" || matched > MANY) ? String(matched) : undefined}>
    <p><${Text} text=${jobs ? counted(matched, "job") : `All ${inWords(filter, serverNow(), zone)}`} />${
      found && !jobs && html`: <strong>${counted(matched, "job")}</strong>`}.
      ${action === "delete" ? " This cannot be undone." : action === "requeue" && ` They become ready ${due.spread ? "over this time" : "at once"}, and their attempts start again.`}</p>
    ${error ? html`<${Failure} error=${error} />` : !found && html`<p role="status">Counting …</p>`}
    ${found && html`<ul class="first-jobs">${found.jobs.slice(0, 10).map((job) => html`<li key=${job.id} class="mono">${job.id}</li>`)}
      ${matched > 10 && html`<li>and ${count(matched - 10)} more</li>`}</ul>`}
    ${fields}
  <//>`;
}

/** A question that is open: `ask` opens one, `question` is what to show. */
export function useQuestion() {
  const [asked, setAsked] = useState(null);
  return { ask: setAsked, question: asked && html`<${ChangeJobs} ...${asked} close=${() => setAsked(null)} />` };
}
