// Pages about all topics, for tokens that may read some only: the topic in the address is shown, or asked for.
import { html, useEffect, useObservable } from "./lib.js";
import { changed, setQuery } from "./address.js";
import { rights } from "./api.js";
import { enumerated } from "./format.js";
import { t } from "./language.js";
import { Field, Loading } from "./parts.js";

/** Asks for a topic where the token is for some only. One alone is taken. */
export function ChooseTopic({ topics }) {
  const names = topics.filter((topic) => !topic.endsWith("*"));
  const only = topics.length === 1 ? names[0] : undefined;
  useEffect(() => void (only && setQuery({ topic: only }, true)), [only]);
  return html`<section class="card"><p class="empty">${names.length === 0 ? t`This token is for some topics only. Name one above.`
    : t`This token is for some topics only. Name one above: ${enumerated(names.map((topic) => html`<a class="mono" href=${changed({ topic })}>${topic}</a>`))}.`}</p></section>`;
}

/** The children, once the token may read what they show; before them, of which topic they are. */
export function OnlyTopic({ topic, children }) {
  const known = useObservable(rights);
  if (!known) return html`<${Loading} what=${t`the page`} />`;
  const field = known.topics && html`<form class="card filters" onSubmit=${(event) => event.preventDefault()}><div>
    <${Field} label=${t`Topic`} value=${topic ?? ""} maxlength="128" onChange=${(event) => setQuery({ topic: event.target.value.trim() || null })} /></div></form>`;
  if (known.topics && !topic) return html`${field}<${ChooseTopic} topics=${known.topics} />`;
  return html`${field}${topic && !known.topics && html`<p class="chosen">${t`Only topic ${html`<strong class="mono">${topic}</strong>`}.`}${" "}
    <a href=${changed({ topic: null })}>${t`Show all`}</a></p>`}${children}`;
}
