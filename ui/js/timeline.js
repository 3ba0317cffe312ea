// The time to come and the last hour as figures: ranges and their steps, scales and labels, and what a bar is in words. It draws
// nothing.
import { clockOf, count, counted, enumerated, formatted, spanText, together } from "./format.js";
import { t } from "./language.js";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const MONTH = 30.5 * DAY;

export const RANGES = [
  ["1h", t`1 h`, HOUR, (jobs) => t`${jobs} in the next hour`],
  ["24h", t`24 h`, DAY, (jobs) => t`${jobs} in the next 24 hours`],
  ["7d", t`7 d`, 7 * DAY, (jobs) => t`${jobs} in the next 7 days`],
  ["30d", t`30 d`, 30 * DAY, (jobs) => t`${jobs} in the next 30 days`],
  ["1y", t`1 y`, 366 * DAY, (jobs) => t`${jobs} in the next year`],
  ["10y", t`10 y`, 3660 * DAY, (jobs) => t`${jobs} in the next 10 years`],
];

const LONGEST = 11 * 366 * DAY;
const STEPS = [
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
  ...[1, 2, 4, 7, 14, 31, 62].map((n) => n * DAY),
];

/** What the parameters of the address ask for, in at most `most` bars. `from` is null for a range that begins now. */
export function viewOf({ range, from, span }, most) {
  const start = Date.parse(from);
  const minutes = Math.round(Number.parseFloat(span));
  const isFixed = Number.isFinite(start) && minutes > 0 && minutes * MINUTE <= LONGEST;
  const [name, , length, words] = RANGES.find(([name]) => name === range) ?? RANGES[0];
  const spanMs = isFixed ? minutes * MINUTE : length;
  const step = STEPS.find((step) => spanMs / step <= most) ?? STEPS.at(-1);
  return isFixed
    ? { from: Math.floor(start / MINUTE) * MINUTE, span: spanMs, step, name: null, words: (jobs) => t`${jobs} in this time` }
    : { from: null, span: spanMs, step, name, words };
}

export const widerThan = (view) => RANGES.find(([, , length]) => length > view.span)?.[0] ?? null;

/** Where a view begins at this moment: at an edge of its steps, or of the days, in the zone. */
export function beginning(view, now, zone) {
  if (view.from !== null) return view.from;
  const unit = Math.min(view.step, DAY);
  return now - (clockOf(now, zone) % unit);
}

export function figuresOf(timeline) {
  const [from, step] = [Date.parse(timeline.from), timeline.step * 1000];
  const bars = timeline.counts.map((jobs, n) => ({ from: from + n * step, to: from + (n + 1) * step, jobs, n }));
  return { topics: [], past: [], ...timeline, from, to: bars.at(-1).to, step, bars };
}

/** Since when the servers count: the oldest of them knows no more. */
export const countsSince = ({ processes }) => Math.min(...processes.map(({ started_at: at }) => Date.parse(at)));

/**
 * What came due and what was delivered in the steps until now, the oldest first: a sixth of the chart, as far as the servers
 * remember. There are none if a step is longer than that, or if the chart does not begin now. Their places count from -1 back.
 */
export function pastOf(stats, { step, bars }, view) {
  const { from: first, due, delivered } = stats?.minutes ?? {};
  if (!due || view.from !== null) return [];
  const [each, since] = [step / MINUTE, countsSince(stats)];
  const steps = Math.min(Math.round(bars.length / 5), Math.floor(due.length / each));
  return Array.from({ length: steps }, (_, place) => {
    const n = place - steps;
    const [begin, end] = [due.length + n * each, due.length + (n + 1) * each];
    const [from, to] = [begin, end].map((minutes) => Date.parse(first) + minutes * MINUTE);
    return { n, from, to, due: total(due.slice(begin, end)), delivered: total(delivered.slice(begin, end)), isKnown: to > since };
  });
}

/** All numbers that the chart has the height for. */
export const heightsOf = ({ counts, past }) => [...counts, ...past.flatMap((step) => [step.due, step.delivered])];

/** The colours of topics. */
const NAMES = ["topic-1", "topic-2", "topic-3", "topic-4"];

/**
 * The topics with most jobs in the range, and all the others as one whose `topic` is null, each with the `name` of its colour. A topic
 * keeps the colour that it had among the stacks `before`.
 */
export function stacksOf({ counts, topics }, before = []) {
  const found = topics.map(({ topic, counts }) => ({ topic, counts, jobs: total(counts) })).filter(({ jobs }) => jobs > 0);
  const most = found.sort((a, b) => b.jobs - a.jobs).slice(0, NAMES.length);
  const kept = new Map(before.filter(({ topic }) => most.some((one) => one.topic === topic)).map(({ topic, name }) => [topic, name]));
  const free = NAMES.filter((name) => ![...kept.values()].includes(name));
  const stacks = most.map((one) => ({ ...one, name: kept.get(one.topic) ?? free.shift() })).sort((a, b) => (a.name < b.name ? -1 : 1));
  const others = counts.map((jobs, n) => jobs - total(most.map((one) => one.counts[n])));
  return most.length > 0 && total(others) > 0 ? [...stacks, { topic: null, counts: others, name: "others" }] : stacks;
}

/** Whether single bars are so high that the others would not be seen. */
export function isSteep(figures) {
  const jobs = heightsOf(figures).filter(Boolean).sort((a, b) => a - b);
  return jobs.length > 0 && jobs.at(-1) >= 50 * jobs[Math.floor(jobs.length / 2)];
}

/** How high a number is drawn, from 0 to 1, and the numbers at the lines of the grid. */
export function scaleOf(highest, isLog) {
  if (isLog) {
    const powers = Math.max(1, Math.ceil(Math.log10(Math.max(highest, 1))));
    const every = Math.ceil(powers / 3);
    const lines = [];
    for (let power = powers; power > 0; power -= every) lines.push(10 ** power);
    return { heightOf: (jobs) => Math.log10(1 + jobs) / Math.log10(1 + 10 ** powers), lines };
  }
  const magnitude = 10 ** Math.floor(Math.log10(Math.max(highest, 1)));
  const top = [1, 2, 4, 6, 8, 10].find((n) => n * magnitude >= highest) * magnitude;
  return { heightOf: (jobs) => jobs / top, lines: highest > 0 ? [top, top / 2].filter(Number.isInteger) : [] };
}

const MONTHS = [1, 2, 3, 6, 12, 24, 60];

/** The bars with a label, `[bar, label]`: so many that `most` would fit, at round times of the zone. */
export function labelsOf({ from, to, bars }, zone, most) {
  const span = to - from;
  const isMonths = span > 60 * DAY;
  const units = isMonths ? MONTHS : STEPS;
  const unit = units.find((unit) => span / (isMonths ? unit * MONTH : unit) <= most) ?? units.at(-1);
  const period = (at) => {
    const clock = clockOf(at, zone);
    const date = new Date(clock);
    return Math.floor((isMonths ? date.getUTCFullYear() * 12 + date.getUTCMonth() : clock) / unit);
  };
  const label = (at) => {
    if (isMonths) return formatted(at, zone, unit >= 12 ? { year: "numeric" } : { month: "short", year: "numeric" });
    const isDay = unit >= DAY || clockOf(at, zone) % DAY === 0;
    return formatted(at, zone, isDay ? { day: "numeric", month: "short" } : { hour: "2-digit", minute: "2-digit" });
  };
  return bars.filter((bar, n) => period(bar.from) !== period(bars[n - 1]?.from ?? bar.from - 1)).map((bar) => [bar, label(bar.from)]);
}

const total = (numbers) => numbers.reduce((all, jobs) => all + jobs, 0);

/** The name and the jobs of the bars from `first` to `last`, in words. Before those of the past is what is overdue, after the last what lies outside. */
export function inWords(figures, view, first, last, now, zone) {
  const { bars, topics, past } = figures;
  if (first < 0 && first >= -past.length) {
    const { from, to, due, delivered, isKnown } = past.at(first);
    return [spanText(from, to, now, zone), isKnown ? t`${counted(due, "job")} came due, ${count(delivered)} delivered` : t`not known: no server ran yet`];
  }
  const read = (one) => (first < 0 ? one.ready : first < bars.length ? total(one.counts.slice(first, last + 1)) : one.outside);
  const jobs = read(figures);
  const named = topics.map((one) => [one.topic, read(one)]).filter(([, jobs]) => jobs > 0).sort((a, b) => b[1] - a[1]).slice(0, 3);
  const others = jobs - total(named.map(([, jobs]) => jobs));
  const parts = named.map(([topic, jobs]) => `${topic} ${count(jobs)}`);
  if (parts.length > 0 && others > 0) parts.push(t`others ${count(others)}`);
  const name = first < 0 ? t`Overdue` : first < bars.length ? spanText(bars[first].from, bars[last].to, now, zone) : outsideOf(view);
  return [name, together([counted(jobs, "job"), ...(parts.length > 0 ? [enumerated(parts)] : [])])];
}

export const outsideOf = (view) => (view.from === null ? t`Later` : t`Before and after`);

/** All of it in words. Where nothing is due, it says what is near. */
export function summary({ counts, outside, ready }, view) {
  const all = total(counts);
  if (all + outside + ready === 0) return t`No job is delayed.`;
  const parts = [view.words(all > 0 ? count(all) : t`None`)];
  if (outside > 0) parts.push(view.from === null ? t`${count(outside)} later` : t`${count(outside)} before and after`);
  if (ready > 0) parts.push(t`${count(ready)} overdue`);
  return t`${together(parts)}.`;
}
