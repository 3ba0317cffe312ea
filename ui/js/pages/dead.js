// Dead letters of a topic: why they died, and the jobs; replay and delete those of a reason.
import { html, useObservable } from "../lib.js";
import { changed, href, path, query } from "../address.js";
import { useQuestion } from "../bulk.js";
import { Lacking, useMay } from "../changes.js";
import { filterOf } from "../filter.js";
import { count, counted } from "../format.js";
import { JobList } from "../joblist.js";
import { useKeys } from "../keys.js";
import { AsOf, Distance, Text, Unloaded } from "../parts.js";
import { usePoll } from "../poll.js";

function Reasons({ poll, chosen, actions }) {
  if (!poll.data) return html`<${Unloaded} poll=${poll} what="the reasons" />`;
  const { reasons, examined, complete } = poll.data;
  if (reasons.length === 0) {
    return html`<section class="card well"><span class="mark well" aria-hidden="true" />
      <p><strong>No dead letters.</strong> A job comes here when its attempts are used up, or when a worker buries it.</p></section>`;
  }
  return html`<${AsOf} poll=${poll} /><section class="card ${poll.stale}" aria-labelledby="reasons">
    <div class="heading"><h2 id="reasons">Reasons</h2>
      <span class="small">of ${complete ? counted(examined, "dead letter") : `the newest ${counted(examined, "dead letter")}`}</span></div>
    <ul class="jobs">${reasons.map((group) => html`<li key=${group.reason} class="job group">
      <strong>${count(group.count)}</strong>
      <div class="reason">${group.prefix
        ? html`<a href=${changed({ reason_prefix: group.prefix === chosen ? null : group.prefix })} aria-current=${group.prefix === chosen ? "true" : undefined}>
            <${Text} text=${group.reason} /></a>`
        : html`<${Text} text=${group.reason || "no reason given"} />`}
        <p class="small">first <${Distance} at=${group.first_dead_at} />, last <${Distance} at=${group.last_dead_at} /></p></div>
      ${group.prefix && html`<div class="actions">${actions(group)}</div>`}</li>`)}</ul>
  </section>`;
}

export function Dead({ topic }) {
  const filter = filterOf({ ...useObservable(query), state: "dead", topic });
  const reasons = usePoll(path("topics", topic, "dead", "reasons"), 5_000);
  const may = useMay(topic);
  const { ask, question } = useQuestion();
  useKeys({ r: reasons.refresh });
  const button = (action, name, group) => html`<button class=${action === "delete" ? "danger quiet" : ""}
    aria-label=${`${name} “${group.reason}”`}
    onClick=${() => ask({ action, filter: { state: "dead", topic, reason_prefix: group.prefix }, listed: group.count })}>${name} …</button>`;
  const actions = (group) => may("admin") && [button("requeue", "Replay", group), button("delete", "Delete", group)];
  return html`<nav class="crumbs" aria-label="Path"><a href=${href()}>Overview</a><a class="mono" href=${href("topics", topic)}>${topic}</a></nav>
    <h1 tabindex="-1">Dead letters</h1>
    <${Reasons} poll=${reasons} chosen=${filter.reason_prefix} actions=${actions} />
    ${filter.reason_prefix && html`<p class="chosen">Only those whose reason begins with <strong><${Text} text=${filter.reason_prefix} /></strong>.
      <a href=${changed({ reason_prefix: null })}>Show all</a></p>`}
    <${JobList} key=${JSON.stringify(filter)} filter=${filter} ask=${ask} />
    <${Lacking} topic=${topic} scopes=${["add", "admin"]} />
    ${question}`;
}
