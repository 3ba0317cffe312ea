// Audit: who asked for which change, when, and what came of it.
import { html, useObservable, useState } from "../lib.js";
import { href, query, queryText } from "../address.js";
import { useKeys } from "../keys.js";
import { AsOf, Moment, Text, Unloaded } from "../parts.js";
import { usePoll } from "../poll.js";
import { OnlyTopic } from "../topicchoice.js";

const FIRST = 50;
const MOST = 1000;

/** By method and path, in which a star stands for one part, what a call does. */
const DONE = {
  "POST jobs": "add a job",
  "PATCH jobs/*": "change a job",
  "DELETE jobs/*": "delete a job",
  "POST jobs/*/finish": "finish a job",
  "POST jobs/*/release": "release a job",
  "POST jobs/*/touch": "extend a reservation",
  "POST jobs/*/bury": "bury a job",
  "POST jobs/*/revoke": "take a job back",
  "POST jobs/*/requeue": "replay a dead letter",
  "POST batch/delete": "delete jobs",
  "POST bulk": "change many jobs",
  "POST bulk/*/stop": "stop a bulk operation",
  "PUT topics/*": "change the settings",
  "DELETE topics/*": "delete all jobs of a topic",
  "POST topics/*/pause": "pause a topic",
  "POST topics/*/resume": "resume a topic",
  "POST topics/*/secrets": "add a secret",
  "DELETE topics/*/secrets/*": "delete a secret",
  "DELETE topics/*/dead": "delete dead letters",
  "POST topics/*/dead/requeue": "replay dead letters",
  "PUT schedules/*": "save a schedule",
  "DELETE schedules/*": "delete a schedule",
  "POST schedules/*/pause": "pause a schedule",
  "POST schedules/*/resume": "resume a schedule",
  "POST schedules/*/run": "run a schedule now",
};

/** What a call does, in words; nothing for a call that this page does not know. */
export function inWords({ method, path }) {
  const parts = path.split("?")[0].split("/").slice(1);
  const matches = (pattern) => {
    const names = pattern.split("/");
    return names.length === parts.length && names.every((name, at) => name === "*" || name === parts[at]);
  };
  return Object.entries(DONE).find(([call]) => call.startsWith(`${method} `) && matches(call.slice(method.length + 1)))?.[1];
}

/** Below 400 the call was carried out. */
function Outcome({ status }) {
  if (status === undefined) return html`<span class="problem">not known</span>`;
  return status < 400 ? "done" : html`<span class="tag">refused, ${status}</span>`;
}

const Row = ({ call }) => html`<tr data-row>
  <th scope="row"><${Moment} at=${call.at} /></th>
  <td>${call.by ? html`<bdi class="mono"><${Text} text=${call.by} /></bdi>` : "not known"}
    ${call.address && call.address !== call.by && html`<div class="small mono">${call.address}</div>`}</td>
  <td>${inWords(call) ?? "other"}<div class="small"><code>${call.method} <${Text} text=${call.path} /></code></div>
    ${call.request && html`<details><summary class="small">What was asked for</summary><pre class="raw"><${Text} text=${
      typeof call.request === "string" ? call.request : JSON.stringify(call.request, null, 2)} /></pre></details>`}</td>
  <td>${call.topic ? html`<a class="mono" href=${href("topics", call.topic)}>${call.topic}</a>` : "–"}</td>
  <td>${call.from_browser ? "a page" : "a program"}</td>
  <td><${Outcome} status=${call.status} /></td>
</tr>`;

function List({ topic, by }) {
  const [limit, setLimit] = useState(FIRST);
  const poll = usePoll(`audit${queryText({ topic, by, limit })}`, 5_000);
  useKeys({ r: poll.refresh });
  if (!poll.data) return html`<${Unloaded} poll=${poll} what="the audit list" />`;
  const { calls, next_cursor: next } = poll.data;
  return html`<${AsOf} poll=${poll} />
    <section class="card ${poll.stale}" aria-label="Calls">
      ${calls.length > 0
        ? html`<div class="wide"><table>
            <thead><tr><th scope="col">When</th><th scope="col">Who</th><th scope="col">What</th><th scope="col">Topic</th>
              <th scope="col">From</th><th scope="col">Outcome</th></tr></thead>
            <tbody>${calls.map((call) => html`<${Row} key=${call.number} call=${call} />`)}</tbody></table></div>`
        : html`<p class="empty">No call was noted. Calls that need the scope admin are, and changes from this dashboard.</p>`}
      ${next && limit < MOST && html`<button type="button" onClick=${() => setLimit(Math.min(limit * 2, MOST))}>Show older calls</button>`}
      ${next && limit >= MOST && html`<p class="small">There are older calls: read them with <code>linger audit</code> or <code>GET /audit</code>.</p>`}
    </section>`;
}

export function Audit() {
  const { topic, by } = useObservable(query);
  return html`<h1 tabindex="-1">Audit</h1>
    ${by && html`<p>Only calls by <bdi class="mono">${by}</bdi>. <a href=${`${href("audit")}${queryText({ topic })}`}>Show all</a></p>`}
    <${OnlyTopic} topic=${topic}><${List} key=${`${topic} ${by}`} topic=${topic} by=${by} /><//>`;
}
