// The fields for a new due time.
import { html, useObservable, useState } from "./lib.js";
import { instant } from "./format.js";
import { Field } from "./parts.js";
import { preferences } from "./preferences.js";

const KINDS = [["delay", "From now"], ["at", "At a time"], ["shift", "Earlier or later"]];

/** What an action needs beside its jobs, as the API wants it, null while it is not complete; and its fields. `many` jobs can
 * be shifted and spread too. */
export function useDue(action, many) {
  const { zone } = useObservable(preferences);
  const [kind, setKind] = useState("delay");
  const [values, setValues] = useState({ delay: "30m", at: "", shift: "-15m", spread: "" });
  const field = (name, label, more) => html`<${Field} key=${name} label=${label} value=${values[name]} ...${more}
    onInput=${(event) => setValues({ ...values, [name]: event.target.value })} />`;
  const value = kind === "at" ? instant(values.at, zone) : values[kind].trim();
  const spreads = many && kind !== "shift";
  const spread = spreads && values.spread.trim() ? { spread: values.spread.trim() } : {};
  const spreadField = spreads && field("spread", "Spread over", { class: "short", placeholder: "no time" });
  if (action === "delete") return { due: {}, fields: null };
  if (action === "requeue") return { due: spread, fields: spreadField };
  const fields = html`<fieldset class="choice"><legend>New due time</legend><div class="segments">
      ${KINDS.slice(0, many ? 3 : 2).map(([name, label]) => html`<label key=${name}>
        <input type="radio" name="kind" checked=${kind === name} onChange=${() => setKind(name)} /><span>${label}</span></label>`)}
    </div></fieldset>
    ${kind === "at" ? field("at", "At", { type: "datetime-local", step: 1 }) : field(kind, kind === "delay" ? "In" : "By", { class: "short" })}
    ${spreadField}`;
  return { due: value ? { [kind]: value, ...spread } : null, fields };
}
