// The changes that pages make. Each announces what came of it, and hides what the token does not allow.
import { html, useObservable } from "./lib.js";
import { path } from "./address.js";
import { change, lacking } from "./api.js";
import { announce, perform, Question } from "./dialog.js";
import { count, counted } from "./format.js";

/** Most dead letters that one call replays. */
const MOST_REPLAYED = 1_000_000;

/** Above this many jobs a change has to be confirmed by their number. */
const MANY = 100;

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

export const DeleteJob = ({ job, close, done }) => html`<${Question} title="Delete this job?" label="Delete 1 job" close=${close}
    act=${async () => {
      await change("DELETE", path("jobs", job.id), { scope: "add", topic: job.topic });
      announce(`${job.id} is deleted.`);
      done?.();
    }}>
  <p><code class="id">${job.id}</code> of <code class="id">${job.topic}</code> is ${job.state}. It is deleted at once and cannot be
    brought back${job.state === "reserved" ? ", also while a worker holds it" : ""}.</p>
<//>`;

export function ReplayAll({ topic, dead, close, done }) {
  const limit = Math.min(dead, MOST_REPLAYED);
  const act = async () => {
    const target = path("topics", topic, "dead", "requeue");
    const { requeued } = await change("POST", target, { body: { limit }, scope: "admin", topic });
    announce(`${counted(requeued, "job")} of ${topic} ${requeued === 1 ? "is" : "are"} ready again.`);
    done();
  };
  return html`<${Question} title="Replay dead letters?" label=${`Replay ${counted(limit, "job")}`} act=${act} close=${close} kind="primary"
      type=${limit > MANY ? String(limit) : undefined}>
    <p>${counted(limit, "dead letter")} of <code class="id">${topic}</code>, the oldest first, ${limit === 1 ? "becomes" : "become"} ready
      at once. ${limit === 1 ? "Its" : "Their"} attempts start again.</p>
  <//>`;
}

export const DeleteAll = ({ topic, dead, close, done }) => html`<${Question} title="Delete all dead letters?"
    label=${`Delete ${counted(dead, "job")}`} type=${String(dead)} close=${close}
    act=${async () => {
      const { deleted } = await change("DELETE", path("topics", topic, "dead"), { scope: "admin", topic });
      announce(`${counted(deleted, "dead letter")} of ${topic} deleted.`);
      done();
    }}>
  <p>All ${counted(dead, "dead letter")} of <code class="id">${topic}</code> are deleted, and those that come meanwhile. They cannot
    be brought back.</p>
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
