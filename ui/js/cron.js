// What a pattern of cron means, in words. One that needs many words has none: its next runs tell.

const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];

const NAMED = {
  "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
  "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
};

const two = (number) => String(number).padStart(2, "0");
const joined = (words) => (words.length < 2 ? words[0] : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`);

/** A field of numbers: `{ all }`, `{ step }`, `{ from, to }` or `{ list }`; null for what has no short wording. */
function fieldOf(text, names, first) {
  const number = (word) => {
    const named = names?.findIndex((name) => name.slice(0, 3).toUpperCase() === word.toUpperCase());
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
  const every = minute.all ? "every minute" : minute.step && 60 % minute.step === 0 ? `every ${minute.step} minutes` : null;
  if (at && hour.list && hour.list.length <= 4) return `at ${joined(hour.list.map((one) => `${two(one)}:${at}`))}`;
  if (at && hour.all) return `every hour at :${at}`;
  if (at && hour.step && 24 % hour.step === 0) return `every ${hour.step} hours at :${at}`;
  if (at && hour.to) return `every hour from ${two(hour.from)}:${at} to ${two(hour.to)}:${at}`;
  if (every && hour.all) return every;
  if (every && hour.to) return `${every} from ${two(hour.from)}:00 to ${two(hour.to)}:${two(minute.all ? 59 : 60 - minute.step)}`;
  return null;
}

/** On which days. */
function daysOf(day, month, weekday) {
  const months = month.all ? "" : month.to ? ` from ${MONTHS[month.from - 1]} to ${MONTHS[month.to - 1]}` : month.list ? ` in ${joined(month.list.map((one) => MONTHS[one - 1]))}` : null;
  // A day of the month beside a day of the week means either.
  if (months === null || !(day.all || weekday.all)) return null;
  // Not every month has a day 29.
  if (day.list?.some((one) => one > 28)) return null;
  if (day.list) return ` on day ${joined(day.list)}${months || " of every month"}`;
  if (!day.all) return null;
  if (weekday.all) return months ? ` every day${months}` : "";
  if (weekday.to) return `, ${DAYS[weekday.from]} to ${DAYS[weekday.to % 7]}${months}`;
  return weekday.list ? ` on ${joined(weekday.list.map((one) => DAYS[one % 7]))}${months}` : null;
}

/** The words for a pattern of five fields or a name such as `@daily`; null if there are none. */
export function words(pattern) {
  const name = pattern.trim().toLowerCase();
  const fields = (Object.hasOwn(NAMED, name) ? NAMED[name] : pattern).trim().split(/\s+/);
  if (fields.length !== 5) return null;
  const parsed = [[], [], [], [MONTHS, 1], [DAYS, 0]].map((names, n) => fieldOf(fields[n], ...names));
  if (parsed.includes(null)) return null;
  const [minute, hour, day, month, weekday] = parsed;
  const [times, days] = [timesOf(minute, hour), daysOf(day, month, weekday)];
  if (times === null || days === null || /undefined|NaN/.test(times + days)) return null;
  return days || !times.startsWith("at ") ? times + days : `${times} every day`;
}
