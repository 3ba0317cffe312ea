// The changes that pages make. Each announces what came of it, and hides what the token does not allow.
import { html, useObservable } from "./lib.js";
import { path } from "./address.js";
import { change, rights } from "./api.js";
import { perform } from "./dialog.js";
import { counted } from "./format.js";

const covers = (pattern, topic) => (pattern.endsWith("*") ? topic?.startsWith(pattern.slice(0, -1)) : pattern === topic);

/** Whether the token has a scope for a topic, or for all. Until that is known it has none. */
export function useMay(topic) {
  const { scopes, topics } = useObservable(rights) ?? { scopes: [] };
  const isCovered = !topics || topics.some((pattern) => covers(pattern, topic));
  return (scope) => isCovered && (scopes.includes(scope) || scopes.includes("admin"));
}

export function Lacking({ topic, scopes }) {
  const may = useMay(topic);
  const missing = scopes.filter((scope) => !may(scope));
  if (!useObservable(rights) || missing.length === 0) return null;
  const names = missing.map((scope, n) => html`${n > 0 && " and "}<code>${scope}</code>`);
  return html`<p class="small">This token lacks the scope${missing.length > 1 && "s"} ${names} for this topic.</p>`;
}

export const setPause = (topic, part, pauses) =>
  perform(pauses ? "Not paused." : "Not resumed.", async () => {
    const target = path("topics", topic, pauses ? "pause" : "resume");
    await change("POST", target, { [part]: true });
    const what = part === "delivery" ? "Delivery" : "Intake";
    return `${what} of ${topic} is ${pauses ? "paused" : "running again"}.`;
  });

export const runNow = (job) =>
  perform("Not rescheduled.", async () => {
    await change("PATCH", path("jobs", job.id), { delay: 0 });
    return `${job.id} is ready.`;
  });

export const replay = (job, clearsExpiry) =>
  perform("Not replayed.", async () => {
    await change("POST", path("jobs", job.id, "requeue"), clearsExpiry ? { clear_expire: true } : undefined);
    return `${job.id} is ready again.`;
  });

/** The server waits ten seconds for another one. */
const STOP_MS = 15_000;

export const setStop = ({ id }) =>
  perform("Not stopped.", async () => {
    const { changed } = await change("POST", path("bulk", id, "stop"), undefined, STOP_MS);
    return `Stopped after ${counted(changed, "job")}.`;
  });
