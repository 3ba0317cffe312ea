// Bulk: the changes of many jobs, one with its progress.
import { html, useObservable } from "../lib.js";
import { href, path } from "../address.js";
import { NAMES } from "../bulk.js";
import { setStop, useMay } from "../changes.js";
import { useNow } from "../clock.js";
import { inWords } from "../filter.js";
import { count, duration } from "../format.js";
import { useKeys } from "../keys.js";
import { AsOf, Facts, Text, Unloaded, When } from "../parts.js";
import { usePoll } from "../poll.js";
import { preferences } from "../preferences.js";

function Words({ operation: { action, filter } }) {
  const { zone } = useObservable(preferences);
  return html`<${Text} text=${`${NAMES[action]} ${inWords(filter, useNow(), zone)}`} />`;
}

const STATES = { running: "running", done: "done", stopped: "stopped", failed: "failed", abandoned: "ended with its server" };
const figures = ({ changed, limit, skipped }) =>
  `${count(changed)}${limit ? ` of ${count(limit)}` : ""} changed${skipped > 0 ? `, ${count(skipped)} skipped` : ""}`;

function Operation({ id }) {
  const poll = usePoll(path("bulk", id), 1_000);
  const operation = poll.data;
  const may = useMay(operation?.filter.topic);
  useKeys({ r: poll.refresh });
  if (!operation) return html`<${Unloaded} poll=${poll} what="the operation" />`;
  const { state, limit = 0, changed, skipped, delay, shift, spread } = operation;
  return html`<${AsOf} poll=${poll} /><section class=${`card ${poll.stale ? "stale" : ""}`}>
    <p class="headline"><strong><${Words} operation=${operation} /></strong></p>
    ${limit > 0 && html`<progress aria-label="Progress" max=${limit} value=${state === "done" ? limit : changed + skipped} />`}
    <p role="status">${STATES[state] ?? state}: ${figures(operation)}</p>
    ${state === "running" && may("admin") && html`<div class="actions">
      <button type="button" onClick=${() => setStop(operation).then(poll.refresh)}>Stop</button></div>`}
    <${Facts} facts=${[
      ["New due time", operation.at ? html`<${When} at=${operation.at} />` : shift ?? (delay > 0 && `in ${duration(delay)}`)],
      ["Spread over", spread && duration(spread)],
      ["By", operation.by], ["Started", html`<${When} at=${operation.started_at} />`],
      ["Ended", operation.ended_at && html`<${When} at=${operation.ended_at} />`],
      ["Error", operation.error],
    ]} />
  </section>`;
}

function Operations() {
  const poll = usePoll("bulk", 2_000);
  useKeys({ r: poll.refresh });
  if (!poll.data) return html`<${Unloaded} poll=${poll} what="the operations" />`;
  const { operations } = poll.data;
  return html`<${AsOf} poll=${poll} /><section class="card">
    ${operations.length === 0 && html`<p class="empty">No job was changed in bulk since the server started. Choose jobs on the page <a href=${href("jobs")}>Jobs</a>.</p>`}
    <ul class="jobs">${operations.map((operation) => html`<li key=${operation.id} class="job operation" data-row>
      <div><a href=${href("bulk", operation.id)}><${Words} operation=${operation} /></a></div>
      <span class="small">${STATES[operation.state] ?? operation.state}: ${figures(operation)}, <${When} at=${operation.started_at} /></span></li>`)}</ul>
  </section>`;
}

export const Bulk = ({ id }) => html`${id && html`<nav class="crumbs" aria-label="Path"><a href=${href("bulk")}>Bulk</a></nav>`}
  <h1 tabindex="-1" class=${id ? "mono" : ""}>${id ?? "Bulk"}</h1>
  ${id ? html`<${Operation} id=${id} />` : html`<${Operations} />`}`;
