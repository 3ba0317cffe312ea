// The fields for a new due time.
import { html, useObservable, useState } from "./lib.js";
import { useNow } from "./clock.js";
import { instants, isDuration, offsetOf } from "./format.js";
import { Distance, Field } from "./parts.js";
import { preferences } from "./preferences.js";

/** Above this many jobs, a spread is proposed: all at once would be too much for most workers. */
const MANY = 500;
const SPREAD = "5m";

const KINDS = [["delay", "From now"], ["at", "At a time"], ["shift", "Earlier or later"]];

/** A choice of one of some values, `[value, label]`. */
const Choice = ({ name, legend, choices, chosen, choose }) => html`<fieldset class="choice"><legend>${legend}</legend>
  <div class="segments">${choices.map(([value, label]) => html`<label key=${value}>
    <input type="radio" name=${name} checked=${chosen === value} onChange=${() => choose(value)} /><span>${label}</span></label>`)}
  </div></fieldset>`;

/** Says which moment a local time is. */
function Meaning({ moments, at, zone, choose }) {
  const now = useNow();
  if (moments === null) return null;
  if (moments.length === 0) return html`<p class="problem" role="alert">There is no such time: clocks are set forward over it.</p>`;
  const label = (moment) => offsetOf(Date.parse(moment), zone);
  return html`${moments.length > 1 && html`<p class="problem" role="alert">This time comes twice, because clocks are set back.</p>
      <${Choice} name="offset" legend="Which one" chosen=${at} choose=${choose} choices=${moments.map((moment) => [moment, label(moment)])} />`}
    ${at && html`<p role="status">That is <strong>${at.replace("T", " ").replace(".000Z", "")} UTC</strong>, <${Distance} at=${at} />.</p>`}
    ${at && Date.parse(at) < now && html`<p class="problem" role="alert">This moment has passed: what waits becomes ready at once.</p>`}`;
}

/** What an action needs beside its jobs, as the API wants it, null while it is not complete; and its fields. `many` jobs can
 * be shifted and spread too; `number` of them are known. */
export function useDue(action, many, number) {
  const { zone } = useObservable(preferences);
  const [kind, setKind] = useState("delay");
  const [entered, setValues] = useState({ delay: "30m", at: "", shift: "-15m" });
  const values = { spread: number > MANY ? SPREAD : "", ...entered };
  const [chosen, setChosen] = useState(null);
  const field = (name, label, more) => html`<${Field} key=${name} label=${label} value=${values[name]} ...${more}
    onInput=${(event) => setValues({ ...entered, [name]: event.target.value })} />`;
  const moments = instants(values.at, zone);
  const at = moments?.length === 1 ? moments[0] : moments?.find((moment) => moment === chosen);
  const value = kind === "at" ? at : values[kind].trim();
  const isWrong = kind !== "at" && value !== "" && !isDuration(value.replace(/^[+-]/, kind === "shift" ? "" : "$&"));
  const spreads = many && kind !== "shift";
  const spread = spreads && values.spread.trim() ? { spread: values.spread.trim() } : {};
  const spreadField = spreads && field("spread", "Spread over", { class: "short", placeholder: "no time" });
  if (action === "delete" || action === "revoke") return { due: {}, fields: null };
  if (action === "requeue") return { due: spread, fields: spreadField };
  const fields = html`<${Choice} name="kind" legend="New due time" choices=${KINDS.slice(0, many ? 3 : 2)} chosen=${kind} choose=${setKind} />
    ${kind === "at" ? field("at", "At", { type: "datetime-local", step: 1 }) : field(kind, kind === "delay" ? "In" : "By", { class: "short" })}
    ${isWrong && html`<p class="problem" role="alert">A time looks like 30m, 1h30m or 2d${kind === "shift" ? ", with - for earlier" : ""}.</p>`}
    ${kind === "at" && html`<${Meaning} moments=${moments} at=${at} zone=${zone} choose=${setChosen} />`}
    ${spreadField}`;
  return { due: value && !isWrong ? { [kind]: value, ...spread } : null, fields };
}
