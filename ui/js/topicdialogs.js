// The dialogs of a topic: why a part of it is paused, and the purge.
import { html, useState } from "./lib.js";
import { path } from "./address.js";
import { change } from "./api.js";
import { announce, perform, Question } from "./dialog.js";
import { useWhen } from "./due.js";
import { count, counted, enumerated } from "./format.js";
import { t } from "./language.js";
import { Field, stateName } from "./parts.js";

/** Asks why a part of a topic is paused, and until when. */
export function SayWhy({ topic, part, pause, close, done }) {
  const [reason, setReason] = useState(pause.reason ?? "");
  const { due, fields } = useWhen({
    legend: t`Ends by itself`, kinds: ["delay", "at"], names: { delay: t`After a time`, at: t`At a time` }, first: pause.until ? "at" : "delay", start: { delay: "", at: pause.until }, none: {},
    never: t`never`, past: t`This moment has passed.`,
  });
  const act = async () => {
    // A field has whole seconds: the end that the pause has stays unless the field is changed.
    const isSame = due.at && Date.parse(due.at) === Math.floor(Date.parse(pause.until) / 1000) * 1000;
    const until = isSame ? pause.until : (due.at ?? due.delay);
    await change("POST", path("topics", topic, "pause"), { [part]: true, ...(reason.trim() && { reason: reason.trim() }), ...(until && { until }) });
    announce(until ? t`The pause of ${topic} ends by itself.` : t`The pause of ${topic} lasts until you resume it.`);
    done();
  };
  return html`<${Question} title=${part === "delivery" ? t`Why is the delivery paused?` : t`Why is the intake paused?`} label=${t`Save`} kind="primary" act=${act} close=${close} ready=${due !== null}>
    <${Field} label=${t`Reason, for everybody who looks`} value=${reason} onInput=${(event) => setReason(event.target.value)} />
    ${fields}
  <//>`;
}

/** After this time the page no longer waits for a purge. */
const LONG_MS = 2_000;

export function Purge({ topic, counts, close, done }) {
  const all = Object.values(counts).reduce((sum, number) => sum + number, 0);
  const states = enumerated(Object.entries(counts).map(([state, number]) => `${count(number)} ${stateName(state)}`));
  const act = async () => {
    const target = `${path("topics", topic)}?confirm=${encodeURIComponent(topic)}`;
    const purge = change("DELETE", target, undefined, null).then(({ deleted }) => t`${counted(deleted, "job")} of ${topic} deleted.`);
    const text = await Promise.race([purge, new Promise((resolve) => setTimeout(resolve, LONG_MS))]);
    announce(text ?? t`The purge of ${topic} goes on, also without this page.`);
    if (!text) perform(t`No answer to the purge of ${topic}. It goes on unless the server has ended it.`, () => purge).then(done);
    done();
  };
  return html`<${Question} title=${t`Purge this topic?`} label=${t`Delete ${counted(all, "job")}`} type=${topic} act=${act} close=${close}>
    <p>${t`Every job of ${html`<code class="id">${topic}</code>`} in every state is deleted and cannot be brought back: ${states}.`}${" "}
      ${t`Settings and pauses stay. Many jobs take minutes; the purge goes on without this page.`}</p>
  <//>`;
}
