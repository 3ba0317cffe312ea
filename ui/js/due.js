// The fields for a new due time.
import { html, useId, useObservable, useState } from "./lib.js";
import { instant } from "./format.js";
import { preferences } from "./preferences.js";

const KINDS = [["delay", "From now"], ["at", "At a time"], ["shift", "Earlier or later"]];

const Labelled = ({ label, ...more }) => {
  const id = useId();
  return html`<label for=${id}>${label}</label><input id=${id} autocomplete="off" ...${more} />`;
};

/** The due time as the API wants it, null while there is none, and its fields. `many` jobs can be shifted and spread too. */
export function useDue(many) {
  const { zone } = useObservable(preferences);
  const [kind, setKind] = useState("delay");
  const [values, setValues] = useState({ delay: "30m", at: "", shift: "-15m", spread: "" });
  const field = (name, label, more) => html`<${Labelled} key=${name} label=${label} value=${values[name]} ...${more}
    onInput=${(event) => setValues({ ...values, [name]: event.target.value })} />`;
  const value = kind === "at" ? instant(values.at, zone) : values[kind].trim();
  const spread = many && kind !== "shift" && values.spread.trim();
  const fields = html`<fieldset class="choice"><legend>New due time</legend><div class="segments">
      ${KINDS.slice(0, many ? 3 : 2).map(([name, label]) => html`<label key=${name}>
        <input type="radio" name="kind" checked=${kind === name} onChange=${() => setKind(name)} /><span>${label}</span></label>`)}
    </div></fieldset>
    ${kind === "at" ? field("at", "At", { type: "datetime-local", step: 1 }) : field(kind, kind === "delay" ? "In" : "By", { class: "short" })}
    ${many && kind !== "shift" && field("spread", "Spread over", { class: "short", placeholder: "no time" })}`;
  return { due: value ? { [kind]: value, ...(spread ? { spread } : {}) } : null, fields };
}
