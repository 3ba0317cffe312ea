// The changes that pages make. Each announces what came of it, and hides what the token does not allow.
import { html, useObservable } from "./lib.js";
import { path } from "./address.js";
import { change, rights } from "./api.js";
import { perform } from "./dialog.js";
import { counted } from "./format.js";
import { t } from "./language.js";

const covers = (pattern, topic) => (pattern.endsWith("*") ? topic?.startsWith(pattern.slice(0, -1)) : pattern === topic);

/** Whether the token has a scope for a topic, or for all. Until that is known it has none. */
export function useMay(topic) {
  const { scopes, topics } = useObservable(rights) ?? { scopes: [] };
  const isCovered = !topics || topics.some((pattern) => covers(pattern, topic));
  return (scope) => isCovered && (scopes.includes(scope) || scopes.includes("admin"));
}

/** Says which of the scopes the token lacks, for the topic or for all. */
export function Lacking({ topic, scopes }) {
  const may = useMay(topic);
  const missing = scopes.filter((scope) => !may(scope));
  if (!useObservable(rights) || missing.length === 0) return null;
  const [one, other] = missing.map((scope) => html`<code>${scope}</code>`);
  if (!topic) return html`<p class="small">${other ? t`This token lacks the scopes ${one} and ${other}.` : t`This token lacks the scope ${one}.`}</p>`;
  return html`<p class="small">${other ? t`This token lacks the scopes ${one} and ${other} for this topic.` : t`This token lacks the scope ${one} for this topic.`}</p>`;
}

const PAUSED = {
  delivery: (topic, pauses) => (pauses ? t`Delivery of ${topic} is paused.` : t`Delivery of ${topic} is running again.`),
  intake: (topic, pauses) => (pauses ? t`Intake of ${topic} is paused.` : t`Intake of ${topic} is running again.`),
};

export const setPause = (topic, part, pauses) =>
  perform(pauses ? t`Not paused.` : t`Not resumed.`, async () => {
    const target = path("topics", topic, pauses ? "pause" : "resume");
    await change("POST", target, { [part]: true });
    return PAUSED[part](topic, pauses);
  });

export const callNow = (topic) =>
  perform(t`Not called.`, async () => {
    await change("POST", path("topics", topic, "callbacks", "call"));
    return t`The endpoints of ${topic} are called now.`;
  });

export const runNow = (job) =>
  perform(t`Not rescheduled.`, async () => {
    await change("PATCH", path("jobs", job.id), { delay: 0 });
    return t`${job.id} is ready.`;
  });

export const replay = (job, clearsExpiry) =>
  perform(t`Not replayed.`, async () => {
    await change("POST", path("jobs", job.id, "requeue"), clearsExpiry ? { clear_expire: true } : undefined);
    return t`${job.id} is ready again.`;
  });

/** The server waits ten seconds for another one. */
const STOP_MS = 15_000;

export const setStop = ({ id }) =>
  perform(t`Not stopped.`, async () => {
    const { state, changed } = await change("POST", path("bulk", id, "stop"), undefined, STOP_MS);
    if (state === "running") return t`Its process was asked to stop it, and has not answered.`;
    return state === "stopped" ? t`Stopped after ${counted(changed, "job")}.` : t`It had ended after ${counted(changed, "job")}.`;
  });
