// The timeline: a chart of the delayed jobs by due time, its readout, and how one moves through it.
import { html, useEffect, useLayoutEffect, useObservable, useRef, useState } from "./lib.js";
import { changed, href, query, queryText, setQuery } from "./address.js";
import { useQuestion } from "./asking.js";
import { useMay } from "./changes.js";
import { serverNow } from "./clock.js";
import { Drawing, Legend, placesOf } from "./drawing.js";
import { zoneName } from "./format.js";
import { useKeys } from "./keys.js";
import { t } from "./language.js";
import { Unloaded } from "./parts.js";
import { usePoll } from "./poll.js";
import { preferences } from "./preferences.js";
import { beginning, figuresOf, inWords, isSteep, pastOf, RANGES, stacksOf, summary, viewOf, widerThan } from "./timeline.js";
import { ByTopic, Table } from "./timetables.js";

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

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

/**
 * The marked bars, from the cursor to where a selection began. Moments are kept, so that both stay where they are while time
 * goes on: -Infinity is what is overdue, Infinity what lies outside. One bar of the past can be marked, and bars to come selected.
 * A mark that is fixed does not follow the mouse.
 */
function useMark(figures, key) {
  const [moments, setMoments] = useState(null);
  const clear = () => setMoments(null);
  useEffect(clear, [key]);
  if (!figures) return {};
  const { bars, past, from, step, counts: { length } } = figures;
  const first = -past.length - 1;
  const within = (n) => Math.min(Math.max(n, 0), length - 1);
  const pastBarOf = (at) => Math.min(Math.max(Math.floor((at - past.at(-1).to) / step), first + 1), -1);
  const barOf = ({ at, isPast }) => {
    if (!Number.isFinite(at)) return at < 0 ? first : length;
    return isPast && past.length > 0 ? pastBarOf(at) : within(Math.floor((at - from) / step));
  };
  const momentOf = (n) => {
    if (n > first && n < 0) return { at: past.at(n).to - step / 2, isPast: true };
    return { at: n < 0 ? -Infinity : (bars[n]?.from ?? Infinity) };
  };
  const cursor = moments && barOf(moments.cursor);
  const anchor = moments?.anchor !== undefined ? barOf(moments.anchor) : null;
  return {
    cursor,
    anchor,
    selects: anchor !== null,
    isFixed: Boolean(moments?.isFixed),
    bars: cursor === null ? null : [Math.min(cursor, anchor ?? cursor), Math.max(cursor, anchor ?? cursor)],
    clear,
    put: (n, isFixed) => setMoments({ cursor: momentOf(Math.min(Math.max(n, first), length)), isFixed }),
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
    Home: () => move(-figures.past.length - 1),
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

function filterOf({ bars, past, to: end }, view, mark, topic) {
  if (mark.cursor !== null && mark.cursor < -past.length) return { state: "ready", topic };
  if (mark.cursor === bars.length && view.from === null) return { state: "delayed", topic, from: new Date(end).toISOString() };
  const [first, last] = mark.bars?.map((n) => bars[n]) ?? [];
  const [from, to] = [first?.from, last?.to].map((at) => at && new Date(at).toISOString());
  return to ? { state: "delayed", topic, from, to } : null;
}

const LATE_MS = 60_000;

/** `oldest` is when the ready job that waits longest was due, and `stats` are the figures by the minute. */
export function Timeline({ topic, oldest, stats }) {
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
  if (poll.data) {
    const toCome = figuresOf(poll.data);
    const figures = { ...toCome, past: pastOf(stats, toCome, view) };
    latest.current = { figures, shown: view, stacks: stacksOf(figures, latest.current.stacks) };
  }
  const { figures, shown, stacks } = latest.current;
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
      tabindex: 0, role: "slider", "aria-label": t`Timeline`, "aria-valuemin": -figures.past.length - 1, "aria-valuemax": figures.counts.length,
      "aria-valuenow": mark.cursor ?? -figures.past.length - 1, "aria-valuetext": [name, text].filter(Boolean).join(" "),
      onKeyDown: (event) => onKey(event, figures, mark, views), ...pointer,
    }}>${figures
      ? html`<${Drawing} figures=${figures} stacks=${stacks} places=${places} view=${shown} width=${width} zone=${zone} isLog=${isLog} mark=${mark} isLate=${isLate} />`
      : html`<${Unloaded} poll=${poll} what=${t`the timeline`} />`}</div>
    ${figures && html`<${Legend} stacks=${stacks} past=${figures.past} />`}
    ${poll.error && figures && html`<p class="problem" role="alert">${poll.error.detail}</p>`}
    ${asked.topics && !topic && figures && html`<${ByTopic} figures=${figures} />`}
    ${asked.table && figures && html`<${Table} figures=${figures} view=${shown} zone=${zone} />`}
    ${question}
  </section>`;
}
