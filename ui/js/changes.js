// The changes that pages make. Each announces what came of it, and hides what the token does not allow.
import { html, useObservable } from "./lib.js";
import { path } from "./address.js";
import { change, lacking } from "./api.js";
import { announce, perform, Question } from "./dialog.js";
import { count, counted } from "./format.js";

export function useMay(topic) {
  const lacks = useObservable(lacking);
  return (scope) => !lacks.has(`${scope} ${topic}`);
}

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

export const runNow = (job) =>
  perform("Not rescheduled.", async () => {
    await change("PATCH", path("jobs", job.id), { body: { delay: 0 }, scope: "add", topic: job.topic });
    return `${job.id} is ready.`;
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
