// The timeline: a chart of the delayed jobs by due time, its readout and table, and how one moves through it.
import { html, useEffect, useLayoutEffect, useObservable, useRef, useState } from "./lib.js";
import { changed, href, query, queryText, setQuery } from "./address.js";
import { useQuestion } from "./asking.js";
import { useMay } from "./changes.js";
import { serverNow } from "./clock.js";
import { compact, count, spanText, zoneName } from "./format.js";
import { useKeys } from "./keys.js";
import { t } from "./language.js";
import { Unloaded } from "./parts.js";
import { usePoll } from "./poll.js";
import { preferences } from "./preferences.js";
import { beginning, figuresOf, inWords, isSteep, labelsOf, outsideOf, RANGES, scaleOf, summary, viewOf, widerThan } from "./timeline.js";

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
/** Pixels: above the bars, of the bars, below them, at their left and right, and the width of what stands apart. */
const [TOP, HEIGHT, BELOW, LEFT, RIGHT, SIDE] = [8, 150, 40, 84, 58, 28];

function useWidth() {
  const frame = useRef(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    // A frame that is not shown has no width; the one before stays.
    const measure = () => setWidth((before) => frame.current.clientWidth || before);
    const observer = new ResizeObserver(measure);
    measure();
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  return [frame, width];
}

/** Where the bars lie. Bar -1 is what is overdue, the one after the last is what lies outside. */
function placesOf({ counts: { length } }, width) {
  const right = Math.max(width - RIGHT, LEFT + length);
  const each = (right - LEFT) / length;
  return {
    right,
    each,
    leftOf: (n) => (n < 0 ? 12 : n < length ? LEFT + n * each : right + 18),
    rightOf: (n) => (n < 0 ? 12 + SIDE : n < length ? LEFT + (n + 1) * each : right + 18 + SIDE),
    barAt: (x) => (x < LEFT - 24 ? -1 : x > right + 9 ? length : Math.min(Math.max(Math.floor((x - LEFT) / each), 0), length - 1)),
  };
}

/** A bar that stands apart. It has the scale of the others, and a torn end where it would be higher than they. */
function Side({ kind, x, jobs, label, heightOf }) {
  const height = jobs > 0 ? Math.max(Math.min(heightOf(jobs), 1) * HEIGHT, 2) : 0;
  const base = TOP + HEIGHT;
  return html`<rect class=${kind} x=${x} y=${base - height} width=${SIDE} height=${height} />
    ${heightOf(jobs) > 1 && html`<path class="torn" d=${`M${x - 2} ${TOP + 14}l8 -6 8 6 8 -6 8 6`} />`}
    <text x=${x + SIDE / 2} y=${base + 16} text-anchor="middle">${label}</text>
    <text x=${x + SIDE / 2} y=${base + 33} text-anchor="middle" class="figure">${compact(jobs)}</text>`;
}

function Drawing({ figures, places, view, width, zone, isLog, mark, isLate }) {
  const { right, each, leftOf, rightOf } = places;
  const { heightOf, lines } = scaleOf(Math.max(...figures.counts), isLog);
  const base = TOP + HEIGHT;
  const gap = each > 3 ? 1 : 0;
  return html`<svg width=${width} height=${base + BELOW} aria-hidden="true">
    ${lines.map((jobs, n) => {
      const y = base - heightOf(jobs) * HEIGHT;
      return html`<line key=${jobs} class=${n === 0 ? "axis" : "grid"} x1=${LEFT} x2=${right} y1=${y} y2=${y} />
        <text x=${LEFT - 6} y=${y + 4} text-anchor="end">${compact(jobs)}</text>`;
    })}
    ${isLog && html`<text x=${LEFT - 6} y=${base + 4} text-anchor="end">${t`log`}</text>`}
    ${mark.bars && html`<rect class=${mark.selects ? "cursor selected" : "cursor"} x=${leftOf(mark.bars[0])} y=${TOP - 6}
      width=${rightOf(mark.bars[1]) - leftOf(mark.bars[0])} height=${HEIGHT + 6} />`}
    ${figures.bars.filter((bar) => bar.jobs > 0).map(({ n, jobs }) => {
      const height = Math.max(heightOf(jobs) * HEIGHT, 2);
      return html`<rect key=${n} class="due" x=${leftOf(n) + gap / 2} y=${base - height} width=${each - gap} height=${height} />`;
    })}
    <line class="axis" x1=${LEFT} x2=${right} y1=${base} y2=${base} />
    ${labelsOf(figures, zone, (right - LEFT) / 72).map(([{ n }, label]) => html`<line class="axis" x1=${leftOf(n)} x2=${leftOf(n)} y1=${base} y2=${base + 5} />
      ${leftOf(n) < right - 24 && html`<text x=${leftOf(n)} y=${base + 18} text-anchor="middle">${label}</text>`}`)}
    <${Side} kind=${isLate ? "overdue late" : "overdue"} x=${leftOf(-1)} jobs=${figures.ready} label=${t`overdue`} heightOf=${heightOf} />
    <${Side} kind="outside" x=${right + 18} jobs=${figures.outside} label=${view.from === null ? t`later` : t`outside`} heightOf=${heightOf} />
  </svg>`;
}

function Table({ figures, view, zone }) {
  const due = figures.bars.filter((bar) => bar.jobs > 0).map(({ from, to, jobs }) => [spanText(from, to, serverNow(), zone), jobs]);
  const rows = [[t`Overdue`, figures.ready], ...due, [outsideOf(view), figures.outside]];
  return html`<div class="scrolls" tabindex="0" role="region" aria-label=${t`Table of the timeline`}><table>
    <thead><tr><th>${t`Due`}</th><th class="number">${t`Jobs`}</th></tr></thead>
    <tbody>${rows.map(([name, jobs]) => html`<tr><th scope="row">${name}</th><td class="number">${count(jobs)}</td></tr>`)}</tbody>
  </table></div>`;
}

/** The topics with most delayed jobs, and all the others. */
function ByTopic({ figures }) {
  const rows = figures.topics.map(({ topic, ...one }) => [html`<a class="mono" href=${href("topics", topic)}>${topic}</a>`, ...columnsOf(one)]);
  const others = columnsOf(figures).map((jobs, n) => jobs - rows.reduce((sum, row) => sum + row[n + 1], 0));
  if (others.some((jobs) => jobs > 0)) rows.push([t`others`, ...others]);
  return html`<div class="scrolls" tabindex="0" role="region" aria-label=${t`The timeline by topic`}><table>
    <thead><tr><th>${t`Topic`}</th>${[t`Shown`, t`Outside`, t`Overdue`].map((name) => html`<th class="number">${name}</th>`)}</tr></thead>
    <tbody>${rows.map(([name, ...row]) => html`<tr><th scope="row">${name}</th>${row.map((jobs) => html`<td class="number">${count(jobs)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

const columnsOf = ({ counts, outside, ready }) => [counts.reduce((sum, jobs) => sum + jobs, 0), outside, ready];

/**
 * The marked bars, from the cursor to where a selection began. Moments are kept, so that both stay where they are while time
 * goes on: -Infinity is what is overdue, Infinity what lies outside. A mark that is fixed does not follow the mouse.
 */
function useMark(figures, key) {
  const [moments, setMoments] = useState(null);
  const clear = () => setMoments(null);
  useEffect(clear, [key]);
  if (!figures) return {};
  const { bars, from, step, counts: { length } } = figures;
  const within = (n) => Math.min(Math.max(n, 0), length - 1);
  const barOf = (at) => (at === -Infinity ? -1 : at === Infinity ? length : within(Math.floor((at - from) / step)));
  const momentOf = (n) => (n < 0 ? -Infinity : (bars[n]?.from ?? Infinity));
  const cursor = moments && barOf(moments.cursor);
  const anchor = moments?.anchor !== undefined ? barOf(moments.anchor) : null;
  return {
    cursor,
    anchor,
    selects: anchor !== null,
    isFixed: Boolean(moments?.isFixed),
    bars: cursor === null ? null : [Math.min(cursor, anchor ?? cursor), Math.max(cursor, anchor ?? cursor)],
    clear,
    put: (n, isFixed) => setMoments({ cursor: momentOf(Math.min(Math.max(n, -1), length)), isFixed }),
    select: (begin, end) => setMoments({ cursor: momentOf(within(end)), anchor: momentOf(within(begin)), isFixed: true }),
  };
}

function useViews(view, mark, figures, jobs) {
  const trail = useRef([]);
  const show = (parameters) => {
    const { range, from, span } = query.get();
    trail.current.push({ range, from, span });
    setQuery({ range: null, from: null, span: null, ...parameters });
  };
  const wider = widerThan(view);
  const [first, last] = mark.bars?.map((n) => figures.bars[n]) ?? [];
  const narrows = Boolean(first && last) && last.to - first.from < view.span && (mark.selects || view.step > MINUTE);
  const widens = figures && mark.cursor === figures.counts.length && view.from === null && wider;
  const zoom = () => {
    if (widens) show({ range: wider });
    else if (narrows) show({ from: new Date(first.from).toISOString(), span: `${(last.to - first.from) / MINUTE}m` });
    else if (jobs) location.hash = jobs;
  };
  const goesBack = trail.current.length > 0 || view.from !== null;
  const back = () => setQuery({ range: goesBack ? null : wider, from: null, span: null, ...trail.current.pop() });
  return { zooms: narrows || widens, zoom, goesBack, back };
}

function onKey(event, figures, mark, views) {
  const move = (n) => {
    if (event.shiftKey && mark.cursor !== null) mark.select(mark.anchor ?? mark.cursor, n);
    else mark.put(n, true);
  };
  const step = (by) => move(mark.cursor === null ? Math.max(figures.bars.findIndex((bar) => bar.jobs > 0), 0) : mark.cursor + by);
  const actions = {
    ArrowLeft: () => step(-1),
    ArrowRight: () => step(1),
    Home: () => move(-1),
    End: () => move(figures.counts.length),
    Enter: views.zoom,
    Backspace: views.back,
    Escape: mark.clear,
  };
  if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  actions[event.key]();
}

function usePointer(frame, places, mark, views) {
  const pressed = useRef(null);
  const barOf = (event) => places.barAt(event.clientX - frame.current.getBoundingClientRect().left);
  const isMouse = ({ pointerType }) => pointerType === "mouse";
  return {
    onPointerDown(event) {
      if (event.button !== 0) return;
      pressed.current = { bar: barOf(event), drags: false };
      frame.current.setPointerCapture(event.pointerId);
    },
    onPointerMove(event) {
      const [bar, begin] = [barOf(event), pressed.current];
      if (!begin && isMouse(event) && !mark.selects) mark.put(bar);
      if (!begin || (bar === begin.bar && !begin.drags)) return;
      begin.drags = true;
      mark.select(begin.bar, bar);
    },
    onPointerUp(event) {
      const begin = pressed.current;
      pressed.current = null;
      if (!begin || begin.drags) return;
      const isMarked = mark.bars && begin.bar >= mark.bars[0] && begin.bar <= mark.bars[1];
      if (isMouse(event) && isMarked) views.zoom();
      else mark.put(begin.bar, true);
    },
    onPointerCancel: () => (pressed.current = null),
    onPointerLeave: (event) => isMouse(event) && !mark.selects && mark.clear(),
  };
}

function filterOf({ bars, to: end }, view, mark, topic) {
  if (mark.cursor === -1) return { state: "ready", topic };
  if (mark.cursor === bars.length && view.from === null) return { state: "delayed", topic, from: new Date(end).toISOString() };
  const [first, last] = mark.bars?.map((n) => bars[n]) ?? [];
  const [from, to] = [first?.from, last?.to].map((at) => at && new Date(at).toISOString());
  return to ? { state: "delayed", topic, from, to } : null;
}

const LATE_MS = 60_000;

/** `oldest` is when the ready job that waits longest was due. */
export function Timeline({ topic, oldest }) {
  const { zone } = useObservable(preferences);
  const asked = useObservable(query);
  const [frame, width] = useWidth();
  const view = viewOf(asked, width < 560 ? 60 : 120);
  const key = JSON.stringify([topic, view, zone]);
  const addressOf = () => {
    const from = new Date(beginning(view, serverNow(), zone)).toISOString();
    const [span, step] = [view.span, view.step].map((length) => `${length / MINUTE}m`);
    return `timeline${queryText({ topic, from, span, step, by: topic ? null : "topic" })}`;
  };
  const poll = usePoll(width > 0 ? key : null, view.span > DAY ? 30_000 : 2_000, addressOf);
  // While another view loads, the one before stays.
  const latest = useRef({});
  if (poll.data) latest.current = { figures: figuresOf(poll.data), shown: view };
  const { figures, shown } = latest.current;
  const mark = useMark(figures, key);
  const filter = figures && filterOf(figures, shown, mark, topic);
  const isLate = Boolean(oldest) && serverNow() - Date.parse(oldest) >= LATE_MS;
  const jobs = filter && `${href("jobs")}${queryText(filter)}`;
  const views = useViews(view, mark, figures, jobs);
  const may = useMay(topic);
  const { ask, question } = useQuestion();
  const places = figures && placesOf(figures, width);
  const pointer = usePointer(frame, places, mark, views);
  const isLog = asked.scale ? asked.scale === "log" : Boolean(figures) && isSteep(figures);
  const toggleTable = () => setQuery({ table: asked.table ? null : 1 }, true);
  useKeys({ r: poll.refresh, t: toggleTable });
  const [name, text] = !figures ? [] : mark.bars ? inWords(figures, shown, ...mark.bars, serverNow(), zone) : [null, summary(figures, shown)];
  return html`<section class="card timeline" aria-labelledby="due">
    <div class="heading"><h2 id="due">${t`Due`}</h2>
      <nav class="segments" aria-label=${t`Range`}>${RANGES.map(([name, label]) => html`<a key=${name} aria-current=${view.name === name ? "true" : undefined}
        href=${changed({ range: name, from: null, span: null })}>${label}</a>`)}</nav>
      <div class="actions">
        <button type="button" class="quiet" aria-pressed=${isLog} onClick=${() => setQuery({ scale: isLog ? "linear" : "log" }, true)}>${t`Log`}</button>
        ${!topic && html`<button type="button" class="quiet" aria-pressed=${Boolean(asked.topics)} onClick=${() => setQuery({ topics: asked.topics ? null : 1 }, true)}>${t`By topic`}</button>`}
        <button type="button" class="quiet" aria-pressed=${Boolean(asked.table)} onClick=${toggleTable}>${t`Table`}</button>
      </div></div>
    <div class="readout">
      <p>${name && html`<strong title=${zoneName(zone, serverNow())}>${name}</strong> `}${text}</p>
      <div class="actions">
        ${mark.isFixed && jobs && html`<a href=${jobs}>${t`Show jobs`}</a>`}
        ${mark.selects && html`${may("admin") && html`
            <button type="button" class="quiet" onClick=${() => ask({ action: "reschedule", filter })}>${t`Reschedule …`}</button>
            <button type="button" class="danger quiet" onClick=${() => ask({ action: "delete", filter })}>${t`Delete …`}</button>`}
          <button type="button" class="quiet" onClick=${mark.clear}>${t`Clear`}</button>`}
        <button type="button" disabled=${!views.zooms} onClick=${views.zoom}>${t`Zoom in`}</button>
        <button type="button" disabled=${!views.goesBack} onClick=${views.back}>${t`Back`}</button>
      </div>
    </div>
    <div ref=${frame} class=${`chart ${poll.stale || !poll.data ? "stale" : ""}`} ...${figures && {
      tabindex: 0, role: "slider", "aria-label": t`Timeline`, "aria-valuemin": -1, "aria-valuemax": figures.counts.length,
      "aria-valuenow": mark.cursor ?? -1, "aria-valuetext": [name, text].filter(Boolean).join(" "),
      onKeyDown: (event) => onKey(event, figures, mark, views), ...pointer,
    }}>${figures
      ? html`<${Drawing} figures=${figures} places=${places} view=${shown} width=${width} zone=${zone} isLog=${isLog} mark=${mark} isLate=${isLate} />`
      : html`<${Unloaded} poll=${poll} what=${t`the timeline`} />`}</div>
    ${poll.error && figures && html`<p class="problem" role="alert">${poll.error.detail}</p>`}
    ${asked.topics && !topic && figures && html`<${ByTopic} figures=${figures} />`}
    ${asked.table && figures && html`<${Table} figures=${figures} view=${shown} zone=${zone} />`}
    ${question}
  </section>`;
}
