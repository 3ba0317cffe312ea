// The changes that pages make. Each announces what came of it, and hides what the token does not allow.
import { html, useObservable } from "./lib.js";
import { path } from "./address.js";
import { change, lacking } from "./api.js";
import { announce, perform, Question } from "./dialog.js";
import { count, counted } from "./format.js";

/** Whether a token is not known to lack a scope for a topic. */
export function useMay(topic) {
  const lacks = useObservable(lacking);
  return (scope) => !lacks.has(`${scope} ${topic}`);
}

/** Says what a token was seen to lack, in place of the buttons that are not there. */
export function Lacking({ topic, scopes }) {
  const may = useMay(topic);
  const missing = scopes.filter((scope) => !may(scope));
  if (missing.length === 0) return null;
  return html`<p class="small">This token lacks the scope ${missing.map((scope, n) => html`${n > 0 && " and "}<code>${scope}</code>`)}
    for this topic.</p>`;
}

export const setPause = (topic, part, pauses) =>
  perform(pauses ? "Not paused." : "Not resumed.", async () => {
    const target = path("topics", topic, pauses ? "pause" : "resume");
    await change("POST", target, { body: { [part]: true }, scope: "admin", topic });
    const what = part === "delivery" ? "Delivery" : "Intake";
    return `${what} of ${topic} is ${pauses ? "paused" : "running again"}.`;
  });

export const reschedule = (job, due, done) =>
  perform("Not rescheduled.", async () => {
    await change("PATCH", path("jobs", job.id), { body: due, scope: "add", topic: job.topic });
    return done;
  });

export const replay = (job) =>
  perform("Not replayed.", async () => {
    await change("POST", path("jobs", job.id, "requeue"), { scope: "admin", topic: job.topic });
    return `${job.id} is ready again.`;
  });

export const setStop = ({ id, filter: { topic } }) =>
  perform("Not stopped.", async () => {
    const { changed } = await change("POST", path("bulk", id, "stop"), { scope: "admin", topic });
    return `Stopped after ${counted(changed, "job")}.`;
  });

export const DeleteJob = ({ job, close, done }) => html`<${Question} title="Delete this job?" label="Delete 1 job" close=${close}
    act=${async () => {
      await change("DELETE", path("jobs", job.id), { scope: "add", topic: job.topic });
      announce(`${job.id} is deleted.`);
      done?.();
    }}>
  <p><code class="id">${job.id}</code> of <code class="id">${job.topic}</code> is ${job.state}. It is deleted at once and cannot be
    brought back${job.state === "reserved" ? ", also while a worker holds it" : ""}.</p>
<//>`;

export function Purge({ topic, counts, close, done }) {
  const all = Object.values(counts).reduce((sum, number) => sum + number, 0);
  const act = async () => {
    const target = `${path("topics", topic)}?confirm=${encodeURIComponent(topic)}`;
    const { deleted } = await change("DELETE", target, { scope: "admin", topic });
    announce(`${counted(deleted, "job")} of ${topic} deleted.`);
    done();
  };
  return html`<${Question} title="Purge this topic?" label=${`Delete ${counted(all, "job")}`} type=${topic} act=${act} close=${close}>
    <p>Every job of <code class="id">${topic}</code> in every state is deleted and cannot be brought back:
      ${Object.entries(counts).map(([state, number], n) => html`${n > 0 ? ", " : " "}${count(number)} ${state}`)}. Settings and
      pauses stay.</p>
  <//>`;
}
