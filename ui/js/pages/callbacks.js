// Callbacks: the endpoints that are called for each topic, how that goes, and which rest.
import { html, useObservable } from "../lib.js";
import { href, query, queryText } from "../address.js";
import { CallFailure } from "../cause.js";
import { callNow, Lacking, useMay } from "../changes.js";
import { count } from "../format.js";
import { useKeys } from "../keys.js";
import { t } from "../language.js";
import { AsOf, Distance, Unloaded } from "../parts.js";
import { usePoll } from "../poll.js";
import { Table } from "../table.js";
import { OnlyTopic } from "../topicchoice.js";

/** An endpoint that rests says when it is called next; all others, how many calls go on. */
const State = ({ end }) =>
  end.resting_until
    ? html`${t`next call ${html`<${Distance} at=${end.resting_until} />`}`} <span class="tag">${t`rests`}</span>`
    : end.in_flight > 0 ? t`is called` : t`is idle`;

/** How many of the calls of the last minute failed, if any did. */
const Failed = ({ minute: { calls, succeeded } }) => calls > succeeded && html` <span class="tag">${t`${count(calls - succeeded)} failed`}</span>`;

/** For an endpoint that rests, which an operator has mended. */
function CallNow({ end: { topic, host }, refresh }) {
  return useMay(topic)("admin") && html`<button onClick=${() => callNow(topic).then(refresh)}>${t`Call now`}<span class="visually-hidden"> ${host}</span></button>`;
}

const COLUMNS = [
  { text: t`Endpoint` }, { text: t`Topic` }, { text: t`State` }, { text: t`Calls in progress`, kind: "number" },
  { text: t`In the last minute`, kind: "number" }, { text: t`Last failure` }, { label: t`Jobs` },
];

const rowOf = (end, refresh) => ({
  key: `${end.topic} ${end.host}`,
  cells: [
    html`<code class="id">${end.host}</code>`,
    html`<a class="mono" href=${href("topics", end.topic)}>${end.topic}</a>`,
    html`<${State} end=${end} />`,
    t`${count(end.in_flight)} of ${count(end.window)}`,
    end.minute ? html`${count(end.minute.calls)}<${Failed} minute=${end.minute} />` : "–",
    end.last_failure ? html`<${CallFailure} word=${end.last_failure.reason} /> <${Distance} at=${end.last_failure.at} />` : "–",
    html`<a href=${`${href("jobs")}${queryText({ state: "delayed", topic: end.topic })}`}>${t`Jobs`}</a>
      ${end.resting_until && html` <${CallNow} end=${end} refresh=${refresh} />`}`,
  ],
});

/** What rests comes first, then what failed last. */
const byTrouble = (one, other) =>
  Boolean(other.resting_until) - Boolean(one.resting_until) ||
  (other.last_failure?.at ?? "").localeCompare(one.last_failure?.at ?? "") ||
  `${one.topic} ${one.host}`.localeCompare(`${other.topic} ${other.host}`);

function List({ topic }) {
  const poll = usePoll(`callbacks${queryText({ topic })}`, 2_000);
  useKeys({ r: poll.refresh });
  if (!poll.data) return html`<${Unloaded} poll=${poll} what=${t`the endpoints`} />`;
  const { endpoints, complete } = poll.data;
  const resting = endpoints.filter((end) => end.resting_until).length;
  return html`<${AsOf} poll=${poll} />
    <section class="card ${poll.stale}" aria-labelledby="endpoints">
      <div class="heading"><h2 id="endpoints">${t`Endpoints`}</h2>
        <span class=${resting > 0 ? "problem" : "small"}>${resting > 0 ? t`${count(resting)} of ${count(endpoints.length)} rest` : count(endpoints.length)}</span></div>
      ${endpoints.length > 0
        ? html`<${Table} columns=${COLUMNS} rows=${[...endpoints].sort(byTrouble).map((end) => rowOf(end, poll.refresh))} />`
        : html`<p class="empty">${t`No endpoint was called lately. Set the callback of a topic or of a job, and it is called when a job is due.`}</p>`}
      ${!complete && html`<p class="small">${t`Some may be missing: there are too many, or another process has not published its endpoints yet.`}</p>`}
      ${resting > 0 && html`<${Lacking} topic=${topic} scopes=${["admin"]} />`}
    </section>`;
}

export function Callbacks() {
  const { topic } = useObservable(query);
  return html`<h1 tabindex="-1">${t`Callbacks`}</h1><${OnlyTopic} topic=${topic}><${List} key=${topic} topic=${topic} /><//>`;
}
