// Jobs: a list by a filter, which is in the address.
import { html, useId, useObservable } from "../lib.js";
import { goDead, query, setQuery } from "../address.js";
import { rights } from "../api.js";
import { useQuestion } from "../bulk.js";
import { filterOf } from "../filter.js";
import { edgeOf, localText } from "../format.js";
import { JobList } from "../joblist.js";
import { useKeys } from "../keys.js";
import { Field, STATES } from "../parts.js";
import { preferences } from "../preferences.js";
import { ChooseTopic } from "../topicchoice.js";

const Part = ({ name, value = "", ...more }) => html`<div>
  <${Field} value=${value} onChange=${(event) => setQuery({ [name]: event.target.value })} ...${more} /></div>`;

/** Whether the year of a moment is complete: a browser reports each digit that is typed. */
const isWhole = (text) => text === "" || text >= "1970";

function Filter({ filter }) {
  const { zone } = useObservable(preferences);
  const state = useId();
  const time = (name, label) => html`<${Part} label=${label} type="datetime-local" step="1" value=${filter[name] ? localText(filter[name], zone) : ""}
    onChange=${({ target: { value } }) => isWhole(value) && setQuery({ [name]: edgeOf(value, zone, name === "to") })} />`;
  return html`<form class="card filters" onSubmit=${(event) => event.preventDefault()}>
    <div><label for=${state}>State</label>
      <select id=${state} value=${filter.state} onChange=${(event) => setQuery({ state: event.target.value, reason_prefix: null })}>
        ${STATES.map((state) => html`<option key=${state}>${state}</option>`)}</select></div>
    <${Part} name="topic" label="Topic" value=${filter.topic} maxlength="128" />
    ${time("from", "From")}${time("to", "Before")}
    <${Part} name="id_prefix" label="Id begins with" value=${filter.id_prefix} maxlength="255" />
    ${filter.state === "dead" && html`<${Part} name="reason_prefix" label="Reason begins with" value=${filter.reason_prefix} />`}
  </form>`;
}

export function Jobs() {
  const filter = filterOf(useObservable(query));
  const { ask, question } = useQuestion();
  const { topics } = useObservable(rights) ?? {};
  useKeys({ "g d": () => goDead(filter.topic) });
  return html`<h1 tabindex="-1">Jobs</h1>
    <${Filter} filter=${filter} />
    ${topics && !filter.topic
      ? html`<${ChooseTopic} topics=${topics} />`
      : html`<${JobList} key=${JSON.stringify(filter)} filter=${filter} ask=${ask} />`}
    ${question}`;
}
