// Why the jobs of a topic wait, in words: the server has found it out.
import { html } from "./lib.js";
import { counted, duration, rate } from "./format.js";
import { t } from "./language.js";
import { Distance, Elapsed, Moment, Text } from "./parts.js";

/** What is known of a pause: since when, by whom, until when, why. */
export const PauseDetails = ({ pause: { since, by, until, reason } }) => html`<span class="small">${since && t` for ${html`<${Elapsed} at=${since} />`}`}${
  by && t` by ${html`<bdi class="mono"><${Text} text=${by} /></bdi>`}`}${until && t`, until ${html`<${Moment} at=${until} />`}`}${
  reason && t`: ${html`<${Text} text=${reason} />`}`}</span>`;

/** How a call failed, by the word of the API. */
const FAILURES = {
  address_refused: t`address forbidden by a setting`, bad_answer: t`answer that Linger cannot read`, connect: t`no connection`, connect_timeout: t`no connection in time`,
  dns: t`name not found`, reset: t`connection lost before the answer`, timeout: t`no answer in time`, tls: t`no connection with TLS`,
};

/** The failure in words; a status, and a word that this page does not know, as it is. */
export const CallFailure = ({ word }) => FAILURES[word] ?? html`<code><${Text} text=${word} /></code>`;

const WORDS = {
  delivery_paused: (pause) => html`${t`delivery is paused`}<${PauseDetails} pause=${pause} />`,
  intake_paused: (pause) => html`${t`intake is paused`}<${PauseDetails} pause=${pause} />`,
  callback_fails: ({ host, answer, at, resting_until: until }) => {
    const [what, when, to] = [html`<${CallFailure} word=${answer} />`, html`<${Distance} at=${at} />`, html`<code class="id"><${Text} text=${host} /></code>`];
    return until ? t`calls to ${to} fail: ${what} ${when}, next call ${html`<${Distance} at=${until} />`}` : t`calls to ${to} fail: ${what} ${when}`;
  },
  no_worker: () => t`no worker has polled for a minute`,
  workers_busy: ({ reserved, since }) => {
    const jobs = counted(reserved, "job");
    return since ? t`all workers are busy with ${jobs}, last heard from ${html`<${Distance} at=${since} />`}` : t`all workers are busy with ${jobs}`;
  },
  workers_silent: ({ reserved, since }) => t`workers have ${counted(reserved, "job")}, and have said nothing for ${
    since ? html`<${Elapsed} at=${since} />` : t`a day`}`,
  backlog: ({ added, finished, empty_in: left }) => {
    const text = added === undefined ? t`a backlog` : t`a backlog: ${rate(added)} in, ${rate(finished)} out`;
    return left === undefined ? text : t`${text}, done in about ${duration(left)}`;
  },
};

/** The cause of a topic in words, those of `linger topic show`. */
export const Cause = ({ cause }) => html`<span class="cause">${WORDS[cause?.kind]?.(cause) ?? t`jobs wait`}</span>`;

/** Whether jobs wait for something that does not pass by itself. */
export const isFault = (cause) => Boolean(cause) && cause.kind !== "backlog";
