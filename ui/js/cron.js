// What a pattern of cron means, in words. One that needs many words has none: its next runs tell.
import { formatted, listed } from "./format.js";
import { t } from "./language.js";

const DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];

// The first day of 2023 was a Sunday.
const dayName = (number) => formatted(Date.UTC(2023, 0, 1 + number), "utc", { weekday: "long" });
const monthName = (number) => formatted(Date.UTC(2023, number - 1), "utc", { month: "long" });

const NAMED = {
  "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
  "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
};

const two = (number) => String(number).padStart(2, "0");

/** A field of numbers: `{ all }`, `{ step }`, `{ from, to }` or `{ list }`; null for what has no short wording. */
function fieldOf(text, names, first) {
  const number = (word) => {
    const named = names?.findIndex((name) => name === word.toUpperCase());
    return named >= 0 ? named + first : /^\d+$/.test(word) ? Number(word) : NaN;
  };
  if (["*", "?", "*/1"].includes(text)) return { all: true };
  const [, step] = text.match(/^\*\/(\d+)$/) ?? [];
  if (step) return { step: Number(step) };
  const [, from, to] = text.match(/^(\w+)-(\w+)$/) ?? [];
  if (from) return number(from) < number(to) ? { from: number(from), to: number(to) } : null;
  const list = text.split(",").map(number);
  return list.some(Number.isNaN) ? null : { list };
}

/** At which times of a day. */
function timesOf(minute, hour) {
  const at = minute.list?.length === 1 ? two(minute.list[0]) : null;
  const every = minute.all ? t`every minute` : minute.step && 60 % minute.step === 0 ? t`every ${minute.step} minutes` : null;
  if (at && hour.list && hour.list.length <= 4) return t`at ${listed(hour.list.map((one) => `${two(one)}:${at}`))}`;
  if (at && hour.all) return t`every hour at :${at}`;
  if (at && hour.step && 24 % hour.step === 0) return t`every ${hour.step} hours at :${at}`;
  if (at && hour.to) return t`every hour from ${two(hour.from)}:${at} to ${two(hour.to)}:${at}`;
  if (every && hour.all) return every;
  if (every && hour.to) return t`${every} from ${two(hour.from)}:00 to ${two(hour.to)}:${two(minute.all ? 59 : 60 - minute.step)}`;
  return null;
}

/** The times with the days and months; null if that needs many words. */
function withDays(times, isAt, day, month, weekday) {
  if (month.step) return null;
  const within = (text) => (month.to ? t`${text} from ${monthName(month.from)} to ${monthName(month.to)}` : month.list ? t`${text} in ${listed(month.list.map(monthName))}` : text);
  // A day of the month beside a day of the week means either.
  if (!(day.all || weekday.all)) return null;
  // Not every month has a day 29.
  if (day.list?.some((one) => one > 28)) return null;
  if (day.list) return month.all ? t`${times} on day ${listed(day.list.map(String))} of every month` : within(t`${times} on day ${listed(day.list.map(String))}`);
  if (!day.all || weekday.step) return null;
  if (weekday.all) return isAt || !month.all ? within(t`${times} every day`) : times;
  return within(weekday.to ? t`${times}, ${dayName(weekday.from)} to ${dayName(weekday.to)}` : t`${times} on ${listed(weekday.list.map(dayName))}`);
}

/** The words for a pattern of five fields or a name such as `@daily`; null if there are none. */
export function words(pattern) {
  const name = pattern.trim().toLowerCase();
  const fields = (Object.hasOwn(NAMED, name) ? NAMED[name] : pattern).trim().split(/\s+/);
  if (fields.length !== 5) return null;
  const parsed = [[], [], [], [MONTHS, 1], [DAYS, 0]].map((names, n) => fieldOf(fields[n], ...names));
  if (parsed.includes(null)) return null;
  const [minute, hour, day, month, weekday] = parsed;
  const isWithin = [[minute, 0, 59], [hour, 0, 23], [day, 1, 31], [month, 1, 12], [weekday, 0, 7]].every(([field, least, most]) =>
    [field.from, field.to, ...(field.list ?? [])].every((number) => number === undefined || (number >= least && number <= most)));
  const times = isWithin ? timesOf(minute, hour) : null;
  return times && withDays(times, Boolean(hour.list), day, month, weekday);
}
