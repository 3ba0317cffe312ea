// Numbers, durations, moments and bytes as text.

import { LOCALES, t, textOf } from "./language.js";

const grouped = new Intl.NumberFormat(LOCALES.numbers);

export const count = (number) => grouped.format(number);

/** A number of things, by the English word for one of them. */
export function counted(number, noun) {
  const text = textOf(`{0} ${noun}s`) ?? `{0} ${noun}${number === 1 ? "" : "s"}`;
  return text.replace("{0}", count(number));
}

const list = new Intl.ListFormat(LOCALES.dates);

/** Words as a list: "a, b and c". */
export const listed = (words) => list.format(words);

/** Parts of one sentence, of which there is at least one: "a, b". */
export const enumerated = (parts) => parts.reduce((all, part) => t`${all}, ${part}`);

/** Clauses of one sentence, of which there is at least one: "a; b". */
export const together = (parts) => parts.reduce((all, part) => t`${all}; ${part}`);

const UNITS = [
  [31_557_600, (number) => t`${number} y`],
  [86_400, (number) => t`${number} d`],
  [3_600, (number) => t`${number} h`],
  [60, (number) => t`${number} min`],
];

/** A duration for people, with its two largest units: "3 d 4 h", "1 min 5 s", "0.25 s". */
export function duration(seconds) {
  if (seconds < 10 && !Number.isInteger(seconds)) return t`${Math.round(seconds * 1000) / 1000} s`;
  let rest = Math.round(seconds);
  const parts = [];
  for (const [size, text] of UNITS) {
    if (rest >= size) parts.push(text(count(Math.floor(rest / size))));
    rest %= size;
  }
  if (rest > 0 || parts.length === 0) parts.push(t`${rest} s`);
  return parts.slice(0, 2).join(" ");
}

/** What happened in a minute as a rate: "0", "24/min", "1.5/s", "240/s". */
export function rate(perMinute) {
  if (perMinute < 60) return perMinute === 0 ? "0" : t`${count(perMinute)}/min`;
  return t`${perMinute < 600 ? (perMinute / 60).toFixed(1) : count(Math.round(perMinute / 60))}/s`;
}

const SECONDS = { ms: 0.001, s: 1, m: 60, h: 3_600, d: 86_400, w: 604_800 };

/** The seconds of a duration as the API takes it: "90", "1h30m", "PT15M"; null for another text. */
export function secondsOf(text) {
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text);
  const plain = text.replace(/^P((?:[\d.]+[WD])*)(?:T((?:[\d.]+[HMS])+))?$/, (_, days, time = "") => (days + time).toLowerCase());
  const parts = [...plain.matchAll(/(\d+(?:\.\d+)?)(ms|[smhdw])/g)];
  if (parts.length === 0 || parts.map(([part]) => part).join("") !== plain) return null;
  return parts.reduce((sum, [, number, unit]) => sum + number * SECONDS[unit], 0);
}

export const isDuration = (text) => secondsOf(text) !== null;

export function countdown(seconds) {
  const whole = Math.max(0, Math.ceil(seconds));
  if (whole >= 86_400) return duration(whole);
  const two = (number) => String(number).padStart(2, "0");
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

export function distance(at, now) {
  const seconds = Math.round((at - now) / 1000);
  if (seconds === 0) return t`now`;
  return seconds > 0 ? t`in ${duration(seconds)}` : t`${duration(-seconds)} ago`;
}

const timeZone = (zone) => (zone === "utc" ? "UTC" : undefined);

export const compact = (number) => new Intl.NumberFormat(LOCALES.numbers, { notation: "compact" }).format(number);

/** Those that were made: to make one takes longer than to use it. */
const formats = new Map();

function formatOf(zone, options) {
  const key = JSON.stringify([zone, options]);
  if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat(LOCALES.dates, { timeZone: timeZone(zone), hourCycle: "h23", ...options }));
  return formats.get(key);
}

export const formatted = (at, zone, options) => formatOf(zone, options).format(at);

/** The clock of a zone at a moment, as milliseconds that are divisible by a day at its midnights. */
export const clockOf = (at, zone) => (zone === "utc" ? at : at - new Date(at).getTimezoneOffset() * 60_000);

const DAY = 86_400_000;

/** A moment as an input for a date and a time has it. */
export const localText = (at, zone) => new Date(clockOf(Date.parse(at), zone)).toISOString().slice(0, 19);

/** The moments at which the clock of a zone shows what such an input has, as RFC 3339. There is none when clocks are set forward
 * over it, and there are two when they are set back over it; null if the text is no time. */
export function instants(text, zone) {
  const shown = Date.parse(`${text}Z`);
  if (Number.isNaN(shown)) return null;
  // Clocks are set at most once within two days.
  const offsets = [shown - DAY, shown + DAY].map((at) => clockOf(at, zone) - at);
  const moments = [...new Set(offsets.map((offset) => shown - offset))].sort((one, other) => one - other);
  return moments.filter((at) => clockOf(at, zone) === shown).map((at) => new Date(at).toISOString());
}

/** The edge of a span of time that such an input has: of two moments the one that makes the span longer, for none the time that
 * clocks are set to. */
export function edgeOf(text, zone, isEnd) {
  const moments = instants(text, zone);
  if (moments === null) return null;
  return (isEnd ? moments.at(-1) : moments[0]) ?? new Date(text).toISOString();
}

const shownOffset = (at, zone) => formatOf(zone, { timeZoneName: "shortOffset" }).formatToParts(at).find(({ type }) => type === "timeZoneName").value;

/** How far a zone is ahead of UTC at a moment: "GMT+1". */
export const offsetOf = (at, zone) => (zone === "utc" ? "UTC" : shownOffset(at, zone));

/** The options that show the offset of these moments, unless it is the present one, which the foot of the page has. */
function offsetOptions(moments, now, zone) {
  const present = clockOf(now, zone) - now;
  return moments.every((at) => clockOf(at, zone) - at === present) ? {} : { timeZoneName: "shortOffset" };
}

/** A span of time: "Sun 22 Nov, 09:00–09:15", "22–25 Nov 2026". */
export function spanText(from, to, now, zone) {
  const isDays = [from, to].every((edge) => clockOf(edge, zone) % DAY === 0);
  const options = { day: "numeric", month: "short" };
  if (isDays || to - from > 2 * DAY) options.year = "numeric";
  else options.weekday = "short";
  if (!isDays) Object.assign(options, { hour: "2-digit", minute: "2-digit" }, offsetOptions([from, to], now, zone));
  return formatOf(zone, options).formatRange(from, isDays ? to - 1 : to);
}

const TIME = { hour: "2-digit", minute: "2-digit", second: "2-digit" };

export function moment(at, now, zone) {
  const [day, today] = [at, now].map((ms) => new Date(clockOf(ms, zone)).toISOString().split("T")[0]);
  const options = { ...TIME, ...offsetOptions([at], now, zone) };
  if (day !== today) Object.assign(options, { month: "short", day: "numeric" });
  if (day.slice(0, -6) !== today.slice(0, -6)) options.year = "numeric";
  return formatted(at, zone, options);
}

/** A moment with its date and its zone, for the pointer. */
export const exactly = (at, zone) => `${formatted(at, zone, { year: "numeric", month: "short", day: "numeric", ...TIME })} ${zoneName(zone, at)}`;

/** A zone and its offset at a moment: "America/New_York (GMT-5)". */
export function zoneName(zone, at) {
  if (zone === "utc") return "UTC";
  return `${formatOf(zone, {}).resolvedOptions().timeZone} (${offsetOf(at, zone)})`;
}

const SIZES = ["KiB", "MiB", "GiB", "TiB"];

export function bytes(number) {
  if (number < 1024) return counted(number, "byte");
  let [size, unit] = [number / 1024, 0];
  // What would be shown as 1,024 is 1 of the next unit.
  while (size >= 1023.95 && unit < SIZES.length - 1) [size, unit] = [size / 1024, unit + 1];
  return `${count(Number(size.toFixed(1)))} ${SIZES[unit]}`;
}

export const byteLength = (text) => new TextEncoder().encode(text).length;

export const shellQuote = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// Characters that are invisible, or that change the order in which their neighbours are shown.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** Splits a text so that hidden characters become visible: strings, and `{ code }` for each of those. */
export function revealed(text) {
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (found.index > from) parts.push(text.slice(from, found.index));
    parts.push({ code: `U+${found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}` });
    from = found.index + found[0].length;
  }
  if (from < text.length) parts.push(text.slice(from));
  return parts;
}
