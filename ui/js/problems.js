// What went wrong with a call, in words for people: the one place that makes them of the problems of the API.

const TITLES = {
  0: "The server does not answer",
  403: "This is not allowed",
  404: "Not found",
  408: "The call took too long",
  409: "Not possible in this state",
  412: "It was changed meanwhile",
  413: "This is too large",
  429: "There are too many calls",
  507: "The store is full",
};

const titleOf = (status) => TITLES[status] ?? (status >= 500 ? "The server cannot do this now" : "This is not accepted");

const TOO_BUSY = "The server is busy. Try again in a moment.";

/** By the code of a problem, where the text of the server is for programs. */
const DETAILS = {
  busy: TOO_BUSY,
  draining: "The server is shutting down. The page asks again by itself.",
  not_begun: TOO_BUSY,
  overloaded: TOO_BUSY,
  too_many_waiting: TOO_BUSY,
};

/** What people read in place of a text of the server. */
const TEXTS = {
  "the store does not answer": "Linger cannot reach its store. It tries again by itself; repeat a change once it is back.",
  "this token is for some topics only; name one of them in the parameter topic": "This token is for some topics only: choose one of them.",
};

/** The fields of calls by their names in the API, where those are not words. */
const FIELDS = {
  at: "time", id_prefix: "beginning of the id", max_attempts: "number of attempts", on_expiry: "choice at the expiry", expire: "expiry",
  prefix: "beginning of the name", reason_prefix: "beginning of the reason", retry: "list after which to retry", ttr: "TTR", url: "URL",
};

const sentence = (text) => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;

/** A fault of one field. */
function faultOf({ pointer, parameter, detail }) {
  const parts = (pointer?.slice(1) ?? parameter ?? "").split("/").filter((part) => !/^\d*$/.test(part));
  const name = parts.map((part) => FIELDS[part] ?? part.replaceAll("_", " ").replaceAll("~0", "~")).join(" ");
  return sentence(`the ${name || "body"} ${detail}`);
}

/** The title and the text of a problem, and its faults if it has some. */
export function inWords({ status, code, detail, errors }) {
  const faults = errors?.map(faultOf);
  // It says that the call can be sent again, which the button next to it does.
  const own = detail.replace(/; send this again.*$/s, "");
  return { title: titleOf(status), detail: DETAILS[code] ?? faults?.[0] ?? TEXTS[own] ?? sentence(own), faults };
}
