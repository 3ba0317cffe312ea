// Workers: which workers poll for jobs and from where, which have reserved some, and since when.
import { html, useObservable } from "../lib.js";
import { href, query, queryText } from "../address.js";
import { rights } from "../api.js";
import { count } from "../format.js";
import { useKeys } from "../keys.js";
import { t } from "../language.js";
import { AsOf, Distance, Elapsed, Text, Unloaded } from "../parts.js";
import { usePoll } from "../poll.js";
import { Table } from "../table.js";
import { OnlyTopic } from "../topicchoice.js";

/** The jobs that a worker holds. */
const heldBy = ({ topic, worker }) => `${href("jobs")}${queryText({ state: "reserved", topic, reserved_by: worker })}`;

const nameOf = (row) => html`<bdi class="mono"><${Text} text=${row.worker} /></bdi>`;

const columnsOf = (withAddresses) => [
  { text: t`Worker` }, { text: t`Topic` }, { text: t`Polls that wait`, kind: "number" }, { text: t`Last poll` },
  { text: t`Reserved`, kind: "number" }, { text: t`Oldest for` }, ...(withAddresses ? [{ text: t`Addresses` }] : []),
];

const rowOf = (row, withAddresses) => ({
  key: `${row.topic} ${row.worker}`,
  cells: [
    !row.worker ? t`not known` : row.reserved > 0 ? html`<a href=${heldBy(row)}>${nameOf(row)}</a>` : nameOf(row),
    html`<a class="mono" href=${href("topics", row.topic)}>${row.topic}</a>`,
    count(row.waiting),
    row.polled_at ? html`<${Distance} at=${row.polled_at} />` : "–",
    row.reserved > 0 && row.worker ? html`<a href=${heldBy(row)}>${count(row.reserved)}</a>` : count(row.reserved),
    row.oldest_reserved_at ? html`<${Elapsed} at=${row.oldest_reserved_at} />` : "–",
    ...(withAddresses ? [html`<span class="mono small">${(row.addresses ?? []).join(", ")}</span>`] : []),
  ],
  below: row.notes && html`<ul aria-label=${t`Latest notes`}>${row.notes.map(({ id, note, noted_at: at }) => html`<li key=${id}>
    <a class="mono" href=${href("jobs", id)}>${id}</a> <${Text} text=${note} /> <span class="small"><${Distance} at=${at} /></span></li>`)}</ul>`,
});

function List({ topic }) {
  const poll = usePoll(`workers${queryText({ topic })}`, 5_000);
  const { scopes = [] } = useObservable(rights) ?? {};
  useKeys({ r: poll.refresh });
  if (!poll.data) return html`<${Unloaded} poll=${poll} what=${t`the workers`} />`;
  const { workers, complete } = poll.data;
  const withAddresses = scopes.includes("admin");
  return html`<${AsOf} poll=${poll} />
    <section class="card ${poll.stale}" aria-label=${t`Workers`}>
      ${workers.length > 0
        ? html`<${Table} columns=${columnsOf(withAddresses)} rows=${workers.map((row) => rowOf(row, withAddresses))} />`
        : html`<p class="empty">${complete ? t`No worker has polled in the last minute or has reserved a job.` : t`No worker is known yet.`}</p>`}
      ${!complete && html`<p class="small">${t`Some may be missing: there are too many, or another process has not published its workers yet.`}</p>`}
    </section>`;
}

export function Workers() {
  const { topic } = useObservable(query);
  return html`<h1 tabindex="-1">${t`Workers`}</h1><${OnlyTopic} topic=${topic}><${List} key=${topic} topic=${topic} /><//>`;
}
