// Why the jobs of a topic wait, in words: the server has found it out.
import { html } from "./lib.js";
import { counted, duration } from "./format.js";
import { Distance, Elapsed, Moment, Text } from "./parts.js";

/** What is known of a pause: since when, by whom, until when, why. */
export const PauseDetails = ({ pause: { since, by, until, reason } }) => html`<span class="small">${since && html` for <${Elapsed} at=${since} />`}${
  by && html` by <bdi class="mono"><${Text} text=${by} /></bdi>`}${until && html`, until <${Moment} at=${until} />`}${
  reason && html`: <${Text} text=${reason} />`}</span>`;

/** A count of a minute as a rate. */
const perSecond = (number) => `${(number / 60).toFixed(1)}/s`;

const WORDS = {
  delivery_paused: (pause) => html`delivery is paused<${PauseDetails} pause=${pause} />`,
  intake_paused: (pause) => html`intake is paused<${PauseDetails} pause=${pause} />`,
  callback_fails: ({ host, answer, at, resting_until: until }) => html`callback fails: <code><${Text} text=${answer} /></code> from <code class="id"><${
    Text} text=${host} /></code> <${Distance} at=${at} />${until && html`, next call <${Distance} at=${until} />`}`,
  no_worker: () => "no worker has polled for a minute",
  workers_busy: ({ reserved }) => `all workers are busy with ${counted(reserved, "job")}`,
  workers_silent: ({ reserved, since }) => html`workers have ${counted(reserved, "job")}, and have said nothing for ${
    since ? html`<${Elapsed} at=${since} />` : "a day"}`,
  backlog: ({ added, finished, empty_in: left }) => `more jobs than are done${
    added === undefined ? "" : `: ${perSecond(added)} in, ${perSecond(finished)} out`}${left === undefined ? "" : `, done in about ${duration(left)}`}`,
};

/** The cause of a topic in words, those of `linger topic show`. */
export const Cause = ({ cause }) => html`<span class="cause">${WORDS[cause?.kind]?.(cause) ?? "jobs wait"}</span>`;

/** Whether jobs wait for something that does not pass by itself. */
export const isFault = (cause) => Boolean(cause) && cause.kind !== "backlog";
