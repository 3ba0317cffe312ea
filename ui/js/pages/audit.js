// Audit: who asked for which change, when, and what came of it.
import { html, useObservable, useState } from "../lib.js";
import { href, query, queryText } from "../address.js";
import { useKeys } from "../keys.js";
import { t } from "../language.js";
import { AsOf, Moment, Text, Unloaded } from "../parts.js";
import { usePoll } from "../poll.js";
import { Table } from "../table.js";
import { OnlyTopic } from "../topicchoice.js";

const FIRST = 50;
const MOST = 1000;
/** A list that is filtered may read the whole archive. */
const RARELY_MS = 30_000;

/** By method and path, in which a star stands for one part, what a call does. */
const DONE = {
  "POST jobs": t`add a job`,
  "PATCH jobs/*": t`change a job`,
  "DELETE jobs/*": t`delete a job`,
  "POST jobs/*/finish": t`finish a job`,
  "POST jobs/*/release": t`release a job`,
  "POST jobs/*/touch": t`extend a reservation`,
  "POST jobs/*/bury": t`bury a job`,
  "POST jobs/*/revoke": t`take a job back`,
  "POST jobs/*/requeue": t`replay a dead letter`,
  "POST batch/delete": t`delete jobs`,
  "POST bulk": t`change many jobs`,
  "POST bulk/*/stop": t`stop a bulk operation`,
  "PUT topics/*": t`change the settings`,
  "DELETE topics/*": t`delete all jobs of a topic`,
  "POST topics/*/pause": t`pause a topic`,
  "POST topics/*/resume": t`resume a topic`,
  "POST topics/*/callbacks/call": t`call endpoints now`,
  "POST topics/*/secrets": t`add a secret`,
  "DELETE topics/*/secrets/*": t`delete a secret`,
  "DELETE topics/*/dead": t`delete dead letters`,
  "POST topics/*/dead/requeue": t`replay dead letters`,
  "PUT schedules/*": t`save a schedule`,
  "DELETE schedules/*": t`delete a schedule`,
  "POST schedules/*/pause": t`pause a schedule`,
  "POST schedules/*/resume": t`resume a schedule`,
  "POST schedules/*/run": t`run a schedule now`,
};

/** What a change of many jobs does, by its action. */
const MANY = { delete: t`delete many jobs`, requeue: t`replay many dead letters`, reschedule: t`reschedule many jobs`, revoke: t`take many jobs back` };

/** What a call does, in words; nothing for a call that this page does not know. */
export function inWords({ method, path, request }) {
  const parts = path.split("?")[0].split("/").slice(1);
  if (method === "POST" && parts.join("/") === "bulk" && Object.hasOwn(MANY, request?.action)) return MANY[request.action];
  if (method === "PATCH" && parts[0] === "jobs" && request?.delay === 0) return t`run a job now`;
  const matches = (pattern) => {
    const names = pattern.split("/");
    return names.length === parts.length && names.every((name, at) => name === "*" || name === parts[at]);
  };
  return Object.entries(DONE).find(([call]) => call.startsWith(`${method} `) && matches(call.slice(method.length + 1)))?.[1];
}

/** The job in the path of a call, if there is one. */
function jobIn(path) {
  const [, id] = path.match(/^\/jobs\/([^/?]+)/) ?? [];
  try {
    return id && decodeURIComponent(id);
  } catch {
    // What was asked for was no id.
    return undefined;
  }
}

const JobLink = ({ id }) => id && html`<div><a class="mono" href=${href("jobs", id)}><${Text} text=${id} /></a></div>`;

/** Below 400 the call was carried out. After a failure of the server, but for a full store, it may have been. */
function Outcome({ status }) {
  if (status === undefined) return html`<span class="problem">${t`not known`}</span>`;
  if (status >= 500 && status !== 507) return html`<span class="problem">${t`not known, ${status}`}</span>`;
  return status < 400 ? t`done` : html`<span class="tag">${t`refused, ${status}`}</span>`;
}

const COLUMNS = [{ text: t`Time` }, { text: t`Who` }, { text: t`What` }, { text: t`Topic` }, { text: t`Source` }, { text: t`Outcome` }];

const rowOf = (call) => ({
  key: call.number,
  cells: [
    html`<${Moment} at=${call.at} />`,
    html`${call.by ? html`<bdi class="mono"><${Text} text=${call.by} /></bdi>` : t`not known`}
      ${call.address && call.address !== call.by && html`<div class="small mono">${call.address}</div>`}`,
    html`${inWords(call) ?? t`other`}<${JobLink} id=${jobIn(call.path)} /><div class="small"><code>${call.method} <${Text} text=${call.path} /></code></div>
      ${call.request && html`<details><summary class="small">${t`What was asked for`}</summary><pre class="raw"><${Text} text=${
        typeof call.request === "string" ? call.request : JSON.stringify(call.request, null, 2)} /></pre></details>`}`,
    call.topic ? html`<a class="mono" href=${href("topics", call.topic)}>${call.topic}</a>` : "–",
    call.from_browser ? t`a page` : t`a program`,
    html`<${Outcome} status=${call.status} />`,
  ],
});

function List({ topic, by }) {
  const [limit, setLimit] = useState(FIRST);
  const poll = usePoll(`audit${queryText({ topic, by, limit })}`, RARELY_MS);
  useKeys({ r: poll.refresh });
  if (!poll.data) return html`<${Unloaded} poll=${poll} what=${t`the audit list`} />`;
  const { calls, next_cursor: next } = poll.data;
  return html`<${AsOf} poll=${poll} />
    <section class="card ${poll.stale}" aria-label=${t`Calls`}>
      ${calls.length > 0
        ? html`<${Table} columns=${COLUMNS} rows=${calls.map(rowOf)} />`
        : html`<p class="empty">${t`No call was noted. Calls that need the scope ${html`<code>admin</code>`} are, and changes from this dashboard.`}</p>`}
      ${next && limit < MOST && html`<button type="button" onClick=${() => setLimit(Math.min(limit * 2, MOST))}>${t`Show older calls`}</button>`}
      ${next && limit >= MOST && html`<p class="small">${t`There are older calls: read them with ${html`<code>GET /audit</code>`}.`}</p>`}
    </section>`;
}

export function Audit() {
  const { topic, by } = useObservable(query);
  return html`<h1 tabindex="-1">${t`Audit`}</h1>
    ${by && html`<p>${t`Only calls by ${html`<bdi class="mono">${by}</bdi>`}.`} <a href=${`${href("audit")}${queryText({ topic })}`}>${t`Show all`}</a></p>`}
    <${OnlyTopic} topic=${topic}><${List} key=${`${topic} ${by}`} topic=${topic} by=${by} /><//>`;
}
