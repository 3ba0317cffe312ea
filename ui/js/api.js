// Calls to the server. A failed call is an ApiError with what the server said.
import { observable } from "./lib.js";
import { ROOT } from "./address.js";
import { observeDate } from "./clock.js";
import { t } from "./language.js";
import { inWords } from "./problems.js";
import { parse } from "./rawjson.js";
import { refuse, session } from "./session.js";

const TIMEOUT_MS = 10_000;

export class ApiError extends Error {
  constructor(fields) {
    super(fields.detail);
    const { status } = fields;
    // Whether the same call may succeed later: the server cannot be reached, or says that it is not able to now.
    Object.assign(this, { passes: status === 0 || status >= 500 || status === 408 || status === 429 }, fields);
  }
}

const unreachable = (detail) => new ApiError({ status: 0, code: "unreachable", ...inWords({ status: 0, detail }) });

/** What the token may do, as `GET /whoami` says; null while that is not known. */
export const rights = observable(null);

/** What the figures of the whole queue said when a page last read them: dead letters, bulk operations that run, and topics whose
 * callbacks fail, at the process that knows most of them. Empty if no page read them. */
export const figures = observable({});

let retry = 0;

async function readRights(wait = 1_000) {
  clearTimeout(retry);
  const { token, required } = session.get();
  if (required && !token) return;
  try {
    const read = await send("GET", "whoami");
    if (session.get().token === token) rights.set(read);
  } catch {
    clearTimeout(retry);
    if (session.get().token === token) retry = setTimeout(readRights, wait, Math.min(wait * 2, 30_000));
  }
}

session.follow(() => {
  rights.set(null);
  figures.set({});
  readRights();
});

/** The entity tags of what was read, where the server gave one. */
const tags = new WeakMap();

async function send(method, path, { body, signal, known, revision, token = session.get().token, timeout = TIMEOUT_MS } = {}) {
  const headers = { accept: "application/json" };
  if (tags.has(known)) headers["if-none-match"] = tags.get(known);
  if (token) headers.authorization = `Bearer ${token}`;
  if (revision !== undefined) headers["if-match"] = `"${revision}"`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const signals = [timeout && AbortSignal.timeout(timeout), signal].filter(Boolean);
  const sent = Date.now();
  let response;
  let text;
  try {
    response = await fetch(new URL(path, ROOT), {
      method,
      headers,
      body,
      signal: AbortSignal.any(signals),
      cache: "no-store",
      redirect: "error",
    });
    observeDate(response.headers.get("date"), sent, Date.now());
    text = await response.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    const late = error.name === "TimeoutError";
    throw unreachable(late ? t`No response within ${timeout / 1000} seconds.` : t`The connection failed.`);
  }
  if (response.status === 304) return known;
  if (response.ok) return read(response, text);
  const problem = problemOf(response, text);
  // Forgets the token only if it is still the one in use.
  if (problem.status === 401) refuse(token, problem.detail);
  // The token may have other rights than before.
  if (problem.code === "forbidden" && path !== "whoami") readRights();
  throw problem;
}

function read(response, text) {
  if (response.status === 204 || text === "") return null;
  try {
    const data = parse(text);
    const tag = response.headers.get("etag");
    if (tag) tags.set(data, tag);
    return data;
  } catch {
    throw unreachable(t`The response is not from Linger. A proxy between may have replaced it.`);
  }
}

function problemOf(response, text) {
  const fields = { status: response.status, code: "unknown", detail: t`A program between here and Linger answered, with HTTP ${response.status}` };
  try {
    const { code, detail, request_id: requestId, errors, ended } = JSON.parse(text);
    if (typeof detail === "string") Object.assign(fields, { code, detail, requestId, errors, ended });
  } catch {
    // Not from Linger itself: the status alone says what happened.
  }
  return new ApiError({ ...fields, ...inWords(fields) });
}

/** Reads `path`. Where nothing has changed since an earlier call of the same path, it returns what that returned, `known`. */
export async function get(path, signal, known) {
  const { token } = session.get();
  const data = await send("GET", path, { signal, known });
  if (/^stats\b/.test(path) && session.get().token === token) figures.set(figuresOf(data));
  return data;
}

function figuresOf({ counts, processes }) {
  const all = (name) => processes.map((process) => process[name] ?? 0);
  return { dead: counts.dead, operations: all("operations").reduce((sum, number) => sum + number), failing: Math.max(...all("failing_topics")) };
}

/** Fails if the server does not know this token. */
export const check = (token) => send("GET", "whoami", { token });

export const settings = () => send("GET", "ui/settings.json");

/** Sends a change, and sends it again where the server says that it has not begun it, because it was paused. */
async function begin(method, path, options) {
  for (const end = Date.now() + TIMEOUT_MS; ; ) {
    try {
      return await send(method, path, options);
    } catch (error) {
      if (error.code !== "not_begun" || Date.now() > end) throw error;
      await new Promise((resolve) => setTimeout(resolve, 1_000));
    }
  }
}

/** A random id for what a call makes, so that a repeated call makes nothing twice. */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  // A UUID of version 4 (RFC 9562). `crypto.randomUUID` is missing without TLS.
  [bytes[6], bytes[8]] = [(bytes[6] & 15) | 64, (bytes[8] & 63) | 128];
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/** Changes something. With a `timeout` of null it waits for the answer as long as it takes. */
export const change = (method, path, body, timeout) => begin(method, path, { body: body === undefined ? undefined : JSON.stringify(body), timeout });

export const add = (json) => begin("POST", "jobs", { body: json });

/** Puts JSON in the place of what is at `path`. With a `revision` that must be there still; 0 means nothing. */
export const put = (path, json, revision) => begin("PUT", path, { body: json, revision });

readRights();
