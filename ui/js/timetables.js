// The figures of the timeline as tables.
import { html } from "./lib.js";
import { href } from "./address.js";
import { serverNow } from "./clock.js";
import { count, spanText } from "./format.js";
import { t } from "./language.js";
import { outsideOf } from "./timeline.js";

export function Table({ figures, view, zone }) {
  const due = figures.bars.filter((bar) => bar.jobs > 0).map(({ from, to, jobs }) => [spanText(from, to, serverNow(), zone), jobs]);
  const past = figures.past.map(({ from, to, due, delivered, isKnown }) => [spanText(from, to, serverNow(), zone), isKnown ? due : null, isKnown ? delivered : null]);
  const rows = [[t`Overdue`, figures.ready], ...past, ...due, [outsideOf(view), figures.outside]];
  const hasPast = past.length > 0;
  return html`<div class="scrolls" tabindex="0" role="region" aria-label=${t`Table of the timeline`}><table>
    <thead><tr><th>${t`Due`}</th><th class="number">${t`Jobs`}</th>${hasPast && html`<th class="number">${t`Delivered`}</th>`}</tr></thead>
    <tbody>${rows.map(([name, jobs, delivered]) => html`<tr><th scope="row">${name}</th><td class="number">${jobs === null ? "?" : count(jobs)}</td>${
      hasPast && html`<td class="number">${delivered === undefined ? "" : delivered === null ? "?" : count(delivered)}</td>`}</tr>`)}</tbody>
  </table></div>`;
}

/** The topics with most delayed jobs, and all the others. */
export function ByTopic({ figures }) {
  const rows = figures.topics.map(({ topic, ...one }) => [html`<a class="mono" href=${href("topics", topic)}>${topic}</a>`, ...columnsOf(one)]);
  const others = columnsOf(figures).map((jobs, n) => jobs - rows.reduce((sum, row) => sum + row[n + 1], 0));
  if (others.some((jobs) => jobs > 0)) rows.push([t`others`, ...others]);
  return html`<div class="scrolls" tabindex="0" role="region" aria-label=${t`The timeline by topic`}><table>
    <thead><tr><th>${t`Topic`}</th>${[t`Shown`, t`Outside`, t`Overdue`].map((name) => html`<th class="number">${name}</th>`)}</tr></thead>
    <tbody>${rows.map(([name, ...row]) => html`<tr><th scope="row">${name}</th>${row.map((jobs) => html`<td class="number">${count(jobs)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

const columnsOf = ({ counts, outside, ready }) => [counts.reduce((sum, jobs) => sum + jobs, 0), outside, ready];
