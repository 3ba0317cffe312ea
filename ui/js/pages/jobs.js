// Jobs: a list by a filter, which is in the address.
import { html, useEffect, useId, useObservable, useRef, useState } from "../lib.js";
import { changed, goDead, query, queryText, setQuery } from "../address.js";
import { get, rights } from "../api.js";
import { useAddJob, useQuestion } from "../asking.js";
import { Lacking, useMay } from "../changes.js";
import { useNow } from "../clock.js";
import { filterOf } from "../filter.js";
import { count, edgeOf, localText, zoneName } from "../format.js";
import { JobList, useCounts } from "../joblist.js";
import { useKeys } from "../keys.js";
import { t } from "../language.js";
import { Field, Mark, STATES, stateName } from "../parts.js";
import { preferences } from "../preferences.js";
import { ChooseTopic } from "../topicchoice.js";

/** A field of the filter. What is typed stays while the page shows new figures, until the address has another value. */
function Part({ name, value = "", onInput, children, ...more }) {
  const [draft, setDraft] = useState(null);
  useEffect(() => setDraft(null), [value]);
  return html`<div><${Field} value=${draft ?? value} onInput=${(event) => (setDraft(event.target.value), onInput?.(event))}
    onChange=${(event) => setQuery({ [name]: event.target.value.trim() })} ...${more} />${children}</div>`;
}

/** The topic, with those that begin as the text does. */
function TopicPart({ value }) {
  const list = useId();
  const [names, setNames] = useState([]);
  const turn = useRef(0);
  const suggest = async (text) => {
    const mine = (turn.current += 1);
    try {
      const { topics } = await get(`topics${queryText({ prefix: text.trim(), limit: 20 })}`);
      if (turn.current === mine) setNames(topics.map(({ topic }) => topic));
    } catch {
      // Without suggestions, such as for a text that no topic begins with, the field is one as any other.
      if (turn.current === mine) setNames([]);
    }
  };
  const entered = ({ inputType, target: { value } }) => (inputType === "insertReplacementText" ? setQuery({ topic: value }) : suggest(value));
  return html`<${Part} name="topic" label=${t`Topic`} value=${value} maxlength="128" list=${list} placeholder=${t`all topics`}
    onFocus=${(event) => suggest(event.target.value)} onInput=${entered}>
    <datalist id=${list}>${names.map((name) => html`<option key=${name} value=${name} />`)}</datalist><//>`;
}

/** Whether the year of a moment is complete: a browser reports each digit that is typed. */
const isWhole = (text) => text === "" || text >= "1970";

const States = ({ state, counts: { data, stale } }) => html`<nav class=${`segments states ${stale}`} aria-label=${t`State`}>
  ${STATES.map((name) => html`<a key=${name} href=${changed({ state: name, reason_prefix: null, reserved_by: null })} aria-current=${name === state ? "true" : undefined}>
    <${Mark} state=${name} />${stateName(name)}${data && html` <strong>${count(data.counts[name])}</strong>`}</a>`)}</nav>`;

function Filter({ filter, counts }) {
  const { zone } = useObservable(preferences);
  const time = (name, label) => html`<${Part} label=${label} type="datetime-local" step="1" value=${filter[name] ? localText(filter[name], zone) : ""}
    onChange=${({ target: { value } }) => isWhole(value) && setQuery({ [name]: edgeOf(value, zone, name === "to") })} />`;
  const now = useNow();
  return html`<section class="card" aria-label=${t`Filter`}>
    <${States} state=${filter.state} counts=${counts} />
    <form class="filters" onSubmit=${(event) => event.preventDefault()}>
      <${TopicPart} value=${filter.topic} />
      ${time("from", t`From`)}${time("to", t`Before`)}
      <${Part} name="id_prefix" label=${t`Id begins with`} value=${filter.id_prefix} maxlength="255" />
      ${filter.state === "dead" && html`<${Part} name="reason_prefix" label=${t`Reason begins with`} value=${filter.reason_prefix} />`}
      ${filter.state === "reserved" && html`<${Part} name="reserved_by" label=${t`Worker`} value=${filter.reserved_by} maxlength="64" />`}
    </form>
    <p class="small zone">${t`Time zone: ${zoneName(zone, now)}`}</p>
  </section>`;
}

export function Jobs() {
  const filter = filterOf(useObservable(query));
  const counts = useCounts(filter.topic);
  const { ask, question } = useQuestion();
  const { topics } = useObservable(rights) ?? {};
  const [adding, may] = [useAddJob(), useMay(filter.topic)];
  useKeys({ r: counts.refresh, "g d": () => goDead(filter.topic) });
  return html`<div class="heading"><h1 tabindex="-1">${t`Jobs`}</h1>
      ${may("add") && html`<button type="button" onClick=${() => adding.ask({ topic: filter.topic ?? "", done: counts.refresh })}>${t`Add a job …`}</button>`}</div>
    <${Filter} filter=${filter} counts=${counts} />
    ${topics && !filter.topic
      ? html`<${ChooseTopic} topics=${topics} />`
      : html`<${JobList} key=${JSON.stringify(filter)} filter=${filter} counts=${counts} ask=${ask} />
          <${Lacking} topic=${filter.topic} scopes=${["add", "admin"]} />`}
    ${question}${adding.question}`;
}
