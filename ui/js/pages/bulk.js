// Bulk: the changes of many jobs, one with its progress.
import { html, useObservable } from "../lib.js";
import { href, path, queryText } from "../address.js";
import { NAMES } from "../bulk.js";
import { setStop, useMay } from "../changes.js";
import { useNow } from "../clock.js";
import { inWords } from "../filter.js";
import { count, duration } from "../format.js";
import { useKeys } from "../keys.js";
import { t } from "../language.js";
import { AsOf, Facts, Gone, Text, Unloaded, When } from "../parts.js";
import { usePoll } from "../poll.js";
import { preferences } from "../preferences.js";

function Words({ operation: { action, dry_run, filter } }) {
  const { zone } = useObservable(preferences);
  return html`<${Text} text=${t`${dry_run ? t`Count` : NAMES[action]} ${inWords(filter, useNow(), zone)}`} />`;
}

const figures = ({ dry_run, matched, changed, limit, skipped }) =>
  dry_run ? t`${count(matched)} counted`
    : skipped > 0 ? t`${count(changed)} of ${count(limit)} changed, ${count(skipped)} skipped`
    : t`${count(changed)} of ${count(limit)} changed`;

const STATES = { running: t`running`, done: t`done`, stopped: t`stopped`, failed: t`failed`, abandoned: t`abandoned` };

/** The state of an operation, with its figures. */
const progressOf = (operation) => t`${STATES[operation.state] ?? operation.state}: ${figures(operation)}`;

/** How fast a running operation is, and how long it takes at most at that rate. In its first two seconds that is not known. */
function Pace({ operation: { limit, changed, skipped, started_at: start }, at }) {
  const seconds = (at - Date.parse(start)) / 1000;
  const rate = (changed + skipped) / seconds;
  if (seconds < 2 || rate === 0) return null;
  return t`, ${rate < 1 ? t`less than 1` : count(Math.round(rate))} a second, at most ${duration(Math.ceil(Math.max(0, limit - changed - skipped) / rate))} left`;
}

/** By how much the due time moves, from the milliseconds that the API gives. */
function shifted(shift) {
  const by = duration(Math.abs(parseInt(shift, 10)) / 1000);
  return shift.startsWith("-") ? t`earlier by ${by}` : t`later by ${by}`;
}

function Operation({ id }) {
  const poll = usePoll(path("bulk", id), 1_000);
  const operation = poll.data;
  const may = useMay(operation?.filter.topic);
  useKeys({ r: poll.refresh });
  if (!operation) return html`<${Unloaded} poll=${poll} what=${t`the operation`} />`;
  const { state, limit = 0, changed, skipped, delay, shift, spread } = operation;
  const isLost = poll.error?.status === 404;
  return html`${isLost
      ? html`<${Gone} what=${t`This operation is no longer known:`} poll=${poll}>${t`its server was restarted, or forgot it after many others.`}<//>`
      : html`<${AsOf} poll=${poll} />`}
  <section class="card ${poll.stale}">
    <p class="headline"><strong><${Words} operation=${operation} /></strong></p>
    ${limit > 0 && html`<progress aria-label=${t`Progress`} max=${limit} value=${state === "done" ? limit : changed + skipped} />`}
    <p role="status">${isLost ? t`last seen ${progressOf(operation)}` : progressOf(operation)}${state === "running" && !isLost && limit > 0 && html`<${Pace} operation=${operation} at=${poll.at} />`}</p>
    ${(isLost || !["running", "done"].includes(state)) && html`<p><a href=${`${href("jobs")}${queryText(operation.filter)}`}>${t`The jobs that match now`}</a></p>`}
    ${shift && changed > 0 && (isLost || !["running", "done"].includes(state)) && html`<p>${t`Those that it has moved may match, too: the same change again would move them twice.`}</p>`}
    ${state === "abandoned" && html`<p>${t`The server of this operation no longer reports. Start it again for the jobs that are left.`}</p>`}
    ${state === "running" && !isLost && may("admin") && html`<div class="actions">
      <button onClick=${() => setStop(operation).then(poll.refresh)}>${t`Stop`}</button></div>`}
    <${Facts} facts=${[
      [t`New due time`, operation.at ? html`<${When} at=${operation.at} copies />` : shift ? shifted(shift) : delay > 0 && t`in ${duration(delay)}`],
      [t`Spread over`, spread && duration(spread)],
      [t`Started by`, operation.by], [t`Started`, html`<${When} at=${operation.started_at} copies />`],
      [t`Ended`, operation.ended_at && html`<${When} at=${operation.ended_at} copies />`],
      [t`Error`, operation.error],
    ]} />
  </section>`;
}

const begun = (operation) => t`${progressOf(operation)}, ${html`<${When} at=${operation.started_at} />`}`;

function Operations() {
  const poll = usePoll("bulk", 2_000);
  useKeys({ r: poll.refresh });
  if (!poll.data) return html`<${Unloaded} poll=${poll} what=${t`the operations`} />`;
  const { operations } = poll.data;
  return html`<${AsOf} poll=${poll} /><section class="card">
    ${operations.length === 0 && html`<p class="empty">${t`There are no bulk operations. Choose jobs on the page ${html`<a href=${href("jobs")}>${t`Jobs`}</a>`}.`}</p>`}
    <ul class="jobs">${operations.map((operation) => html`<li key=${operation.id} class="job operation" data-row>
      <div><a href=${href("bulk", operation.id)}><${Words} operation=${operation} /></a></div>
      <span class="small">${
        operation.by ? t`${begun(operation)} by ${html`<${Text} text=${operation.by} />`}` : begun(operation)}</span></li>`)}</ul>
  </section>`;
}

export const Bulk = ({ id }) => html`${id && html`<nav class="crumbs" aria-label=${t`Path`}><a href=${href("bulk")}>${t`Bulk`}</a></nav>`}
  <h1 tabindex="-1" class=${id ? "mono" : ""}>${id ?? t`Bulk`}</h1>
  ${id ? html`<${Operation} id=${id} />` : html`<${Operations} />`}`;
