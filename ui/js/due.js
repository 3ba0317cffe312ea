// The fields for a due time: of a new job, or another one for jobs that are there.
import { html, useObservable, useState } from "./lib.js";
import { useNow } from "./clock.js";
import { instants, localText, offsetOf, secondsOf, zoneName } from "./format.js";
import { t } from "./language.js";
import { Distance, Field, Moment } from "./parts.js";
import { preferences } from "./preferences.js";

const KINDS = { delay: t`From now`, at: t`At a time`, shift: t`Earlier or later` };
const LABELS = { delay: t`In`, at: t`At`, shift: t`By` };
const EXAMPLES = { delay: ["5m", "30m", "1h"], shift: ["-1h", "-30m", "-5m", "5m", "30m", "1h"], spread: ["5m", "30m", "1h"] };

/** Above this many jobs, a spread is proposed: all at once would be too much for most workers. */
const MANY = 500;
const SPREAD = "5m";

/** A choice of one of some values, `[value, label]`. */
const Choice = ({ name, legend, choices, chosen, choose }) => html`<fieldset class="choice"><legend>${legend}</legend>
  <div class="segments">${choices.map(([value, label]) => html`<label key=${value}>
    <input type="radio" name=${name} checked=${chosen === value} onChange=${() => choose(value)} /><span>${label}</span></label>`)}
  </div></fieldset>`;

/** A field for a duration, with some to choose from. */
const DurationField = ({ label, kind, value, set, ...more }) => html`<div class="chosen-duration">
  <${Field} label=${label} class="short" value=${value} placeholder=${t`such as ${"1h30m"}`} ...${more} onInput=${(event) => set(event.target.value)} />
  ${EXAMPLES[kind].map((text) => html`<button key=${text} type="button" class="quiet" aria-pressed=${value === text} onClick=${() => set(text)}>${text}</button>`)}</div>`;

/** Says in which zone a local time is, and which moment that is. */
function Meaning({ moments, at, zone, choose, past }) {
  const now = useNow();
  const inZone = html`<p class="small">${t`Time zone: ${zoneName(zone, at ? Date.parse(at) : now)}`}</p>`;
  if (moments === null) return inZone;
  if (moments.length === 0) return html`${inZone}<p class="problem" role="alert">${t`There is no such time: clocks are set forward over it.`}</p>`;
  const label = (moment) => offsetOf(Date.parse(moment), zone);
  return html`${inZone}${moments.length > 1 && html`<p class="problem" role="alert">${t`This time comes twice, because clocks are set back.`}</p>
      <${Choice} name="offset" legend=${t`Which one`} chosen=${at} choose=${choose} choices=${moments.map((moment) => [moment, label(moment)])} />`}
    ${at && html`<p role="status">${t`That is ${html`<strong>${at.replace("T", " ").replace(".000Z", "")} UTC</strong>`}, ${html`<${Distance} at=${at} />`}.`}</p>`}
    ${at && Date.parse(at) < now && html`<p class="problem" role="alert">${past}</p>`}`;
}

/** By how many seconds a text moves a due time; null if it is no duration. */
export function shiftOf(text) {
  const seconds = secondsOf(text.replace(/^[+-]/, ""));
  return seconds === null || !text.startsWith("-") ? seconds : -seconds;
}

const DUE_AT_ONCE = t`This moment has passed: what waits becomes ready at once.`;

/** A moment of one of some kinds, the first at the beginning: `due` is what the API takes, null while that is wrong or not
 * complete. `names` are those of the kinds, `none` is what no text means, `never` the same in words, and `past` what a moment in the
 * past means. */
export function useWhen({ legend, kinds, names = KINDS, first = kinds[0], start = {}, none = null, never, past = DUE_AT_ONCE }) {
  const { zone } = useObservable(preferences);
  const [kind, setKind] = useState(first);
  const [values, setValues] = useState({ delay: "30m", shift: "-15m", ...start, at: start.at ? localText(start.at, zone) : "" });
  const [chosen, setChosen] = useState(null);
  const set = (value) => setValues({ ...values, [kind]: value });
  const moments = instants(values.at, zone);
  const at = moments?.length === 1 ? moments[0] : moments?.find((moment) => moment === chosen);
  const value = kind === "at" ? at : values[kind].trim();
  const isWrong = kind !== "at" && value !== "" && (kind === "shift" ? shiftOf : secondsOf)(value) === null;
  const fields = html`<${Choice} name="kind" legend=${legend} choices=${kinds.map((kind) => [kind, names[kind]])} chosen=${kind} choose=${setKind} />
    ${kind === "at"
      ? html`<${Field} key="at" label=${LABELS.at} type="datetime-local" step="1" value=${values.at} onInput=${(event) => set(event.target.value)} />
          <${Meaning} moments=${moments} at=${at} zone=${zone} choose=${setChosen} past=${past} />`
      : html`<${DurationField} key=${kind} kind=${kind} label=${LABELS[kind]} value=${values[kind]} set=${set} ...${never && { placeholder: never }} />`}
    ${isWrong && html`<p class="problem" role="alert">${kind === "shift" ? t`A time looks like 30m, 1h30m or 2d, with - for earlier.` : t`A time looks like 30m, 1h30m or 2d.`}</p>`}`;
  const isNone = kind === "delay" && value === "";
  return { kind, due: isNone ? none : value && !isWrong ? { [kind]: value } : null, fields };
}

/** The due time of a job before and after a change. */
function Change({ job, due }) {
  const now = useNow();
  const before = Date.parse(job.due_at);
  const after = due.at ? Date.parse(due.at) : due.shift ? before + shiftOf(due.shift) * 1000 : now + secondsOf(due.delay) * 1000;
  const change = html`<${Moment} at=${before} /> → <strong><${Moment} at=${after} /></strong>`;
  return html`<p role="status">${!due.at && after <= now ? t`Due ${change}: ready at once` : t`Due ${change}`}</p>`;
}

/** What an action needs beside its jobs, as the API wants it, null while it is not complete; and its fields. Without `jobs` it is
 * for all that match a filter. If the change `spreads`, it may be spread over a period; `number` jobs are known. */
export function useDue(action, jobs, spreads, number) {
  const single = jobs?.length === 1 ? jobs[0] : null;
  const { kind, due, fields } = useWhen({
    legend: t`New due time`, kinds: ["delay", "at", "shift"], first: single ? "delay" : "shift", start: { at: single?.due_at },
  });
  const [entered, setSpread] = useState(null);
  const text = entered ?? (number > MANY ? SPREAD : "");
  const hasNoTime = ["requeue", "revoke"].includes(action);
  const hasSpread = spreads && (hasNoTime || kind !== "shift");
  const spread = hasSpread && text.trim() ? { spread: text.trim() } : {};
  const spreadField = hasSpread && html`<${DurationField} kind="spread" label=${t`Spread over`} placeholder=${t`no time`} value=${text} set=${setSpread} />`;
  if (action === "delete") return { due: {}, fields: null };
  if (hasNoTime) return { due: spread, fields: spreadField };
  return { due: due && { ...due, ...spread }, fields: html`${fields}${single && due && html`<${Change} job=${single} due=${due} />`}${spreadField}` };
}
