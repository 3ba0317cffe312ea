// What went wrong with a call, in words for people: the one place that makes them of the problems of the API.
import { t } from "./language.js";

const TITLES = {
  0: t`The server does not answer`,
  403: t`This is not allowed`,
  404: t`Not found`,
  408: t`The call took too long`,
  409: t`Not possible in this state`,
  412: t`It was changed meanwhile`,
  413: t`This is too large`,
  429: t`There are too many calls`,
  507: t`The store is full`,
};

const titleOf = (status) => TITLES[status] ?? (status >= 500 ? t`The server cannot do this now` : t`This is not accepted`);

const TOO_BUSY = t`The server is busy. Try again in a moment.`;

/** By the code of a problem, where the text of the server is for programs. */
const DETAILS = {
  busy: TOO_BUSY,
  draining: t`The server is shutting down. The page asks again by itself.`,
  not_begun: TOO_BUSY,
  overloaded: TOO_BUSY,
  too_many_waiting: TOO_BUSY,
};

/** What people read in place of a text of the server. */
const TEXTS = {
  "the store does not answer": t`Linger cannot reach its store. It tries again by itself; repeat a change once it is back.`,
  "this token is not for this topic": t`This token is not for this topic.`,
  "this token is not known here": t`This token is not known here.`,
  "this token is for some topics only; name one of them in the parameter topic": t`This token is for some topics only: choose one of them.`,
};

/** The fields of calls by their names in the API, where those are not words. */
const FIELDS = {
  at: t`time`, id_prefix: t`beginning of the id`, max_attempts: t`number of attempts`, on_expiry: t`choice at the expiry`, expire: t`expiry`,
  prefix: t`beginning of the name`, reason_prefix: t`beginning of the reason`, retry: t`list after which to retry`, ttr: "TTR", url: "URL",
};

const sentence = (text) => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;

/** A fault of one field. */
function faultOf({ pointer, parameter, detail }) {
  const parts = (pointer?.slice(1) ?? parameter ?? "").split("/").filter((part) => !/^\d*$/.test(part));
  const name = parts.map((part) => FIELDS[part] ?? part.replaceAll("_", " ").replaceAll("~0", "~")).join(" ");
  return sentence(t`the ${name || t`body`} ${detail}`);
}

/** The title and the text of a problem, and its faults if it has some. */
export function inWords({ status, code, detail, errors }) {
  const faults = errors?.map(faultOf);
  // It says that the call can be sent again, which the button next to it does.
  const own = detail.replace(/; send this again.*$/s, "");
  return { title: titleOf(status), detail: DETAILS[code] ?? faults?.[0] ?? TEXTS[own] ?? sentence(own), faults };
}
