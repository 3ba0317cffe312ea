// What the page of a job says will happen next, and the line of its life.
import assert from "node:assert/strict";
import { once } from "node:events";
import http from "node:http";
import { inBrowser, onEveryEngine } from "./harness.mjs";

const at = (time) => `2100-01-01T${time}Z`;
/** How a time of that day is shown. */
const shown = (time) => `1 Jan 2100, ${time}`;

const JOB = { id: "one", topic: "t", state: "delayed", created_at: "2026-01-01T00:00:00Z", due_at: at("12:00:00"), ttr: 60, attempts: 0, max_attempts: 16, body: "1" };
const VIEW = { topic: "t", paused: { delivery: false, intake: false }, cause: null, settings: {} };
const CALLED = { ...VIEW, settings: { callback: { url: "https://shop.example/paid" } } };
const PAUSED = { ...VIEW, paused: { delivery: true }, pauses: { delivery: { since: "2026-01-01T00:00:00Z" } } };
const RESERVED = { ...JOB, state: "reserved", attempts: 1, due_at: "2026-01-01T00:00:00Z", reserved_at: "2026-01-01T00:00:00Z", reserved_until: at("12:00:00") };
/** Reserved for a call, whose timeout is 30 seconds. */
const CALLING = { ...RESERVED, reserved_at: at("11:59:20"), reserved_by: "shop.example" };
const READY = { ...JOB, state: "ready", due_at: "2026-01-01T00:00:00Z" };
const DEAD = { ...JOB, state: "dead", attempts: 16, dead_at: at("12:00:00") };
const EXPIRES = { expires_at: at("12:30:00"), on_expiry: "dead" };
const pausedUntil = (time) => ({ ...PAUSED, pauses: { delivery: { since: "2026-01-01T00:00:00Z", until: at(time) } } });
const resting = (host) => ({ ...CALLED, cause: { kind: "callback_fails", host, answer: "http_503", at: "2026-01-01T00:00:00Z", resting_until: at("12:10:00") } });

const DELAYED = `At ${shown("13:00:00")} it becomes ready for attempt 1 of 16.`;
const UNLESS = `Unless its worker finishes, touches, releases or buries it by ${shown("13:00:00")}, it`;

/** Jobs, what else the page knows, and the sentences that follow. */
const CASES = [
  [JOB, {}, DELAYED],
  [{ ...JOB, attempts: 2, max_attempts: 3 }, {}, `At ${shown("13:00:00")} it becomes ready for attempt 3 of 3. If that attempt fails, it becomes a dead letter.`],
  [{ ...JOB, attempts: 20, max_attempts: 0 }, {}, `At ${shown("13:00:00")} it becomes ready for attempt 21.`],
  [{ ...JOB, ...EXPIRES }, {}, `${DELAYED} If attempt 1 of 16 has not begun by ${shown("13:30:00")}, it expires and becomes a dead letter.`],
  [{ ...JOB, ...EXPIRES, on_expiry: "delete" }, {}, `${DELAYED} If attempt 1 of 16 has not begun by ${shown("13:30:00")}, it expires and is deleted.`],
  [{ ...JOB, ...EXPIRES, due_at: at("12:30:00") }, {}, `It expires at ${shown("13:30:00")}, before it is due: it becomes a dead letter then.`],
  [{ ...JOB, ...EXPIRES, on_expiry: "delete", due_at: at("13:00:00") }, {}, `It expires at ${shown("13:30:00")}, before it is due: it is deleted then.`],
  [JOB, { view: CALLED }, `At ${shown("13:00:00")} it becomes ready and is called: attempt 1 of 16.`],
  [JOB, { view: { ...VIEW, settings: { callback: { rate: 5 } } } }, DELAYED],
  [JOB, { view: PAUSED }, `At ${shown("13:00:00")} it becomes ready for attempt 1 of 16, and waits until delivery of its topic is resumed.`],
  [JOB, { view: pausedUntil("12:05:00") }, `At ${shown("13:00:00")} it becomes ready for attempt 1 of 16, and waits until delivery resumes at ${shown("13:05:00")}.`],
  [JOB, { view: pausedUntil("12:00:00") }, DELAYED],
  [READY, {}, "It waits for a worker: attempt 1 of 16 is next."],
  [{ ...READY, attempts: 15, ...EXPIRES }, {}, `It waits for a worker: attempt 16 of 16 is next. If that attempt fails, it becomes a dead letter. If attempt 16 of 16 has not begun by ${shown("13:30:00")}, it expires and becomes a dead letter.`],
  [READY, { view: PAUSED }, "It waits until delivery of its topic is resumed; then comes attempt 1 of 16."],
  [READY, { view: pausedUntil("12:05:00") }, `It waits until delivery resumes at ${shown("13:05:00")}; then comes attempt 1 of 16.`],
  [READY, { view: CALLED }, "It is called as soon as the limits of its callback allow it: attempt 1 of 16."],
  [READY, { view: resting("https://shop.example:443") }, `It is called at ${shown("13:10:00")} at the earliest, because its endpoint rests: attempt 1 of 16.`],
  [READY, { view: resting("https://other.example:443") }, "It is called as soon as the limits of its callback allow it: attempt 1 of 16."],
  [{ ...READY, callback: { url: "http://other.example:81/x" } }, {}, "It is called as soon as the limits of its callback allow it: attempt 1 of 16."],
  [RESERVED, {}, `${UNLESS} is ready again at once for attempt 2 of 16.`],
  [{ ...RESERVED, retry: [15, 180], attempts: 5 }, {}, `${UNLESS} comes back after 3 min for attempt 6 of 16.`],
  [{ ...RESERVED, retry: [15, 180], max_attempts: 0 }, {}, `${UNLESS} comes back after 15 s for attempt 2.`],
  [{ ...RESERVED, retry: [3600], ...EXPIRES }, {}, `${UNLESS} expires at ${shown("13:30:00")} and becomes a dead letter.`],
  [{ ...RESERVED, ...EXPIRES, expires_at: at("11:00:00"), on_expiry: "delete" }, {}, `${UNLESS} expires at ${shown("13:00:00")} and is deleted.`],
  [{ ...RESERVED, retry: [15], ...EXPIRES }, {}, `${UNLESS} comes back after 15 s for attempt 2 of 16.`],
  [{ ...RESERVED, attempts: 16, ...EXPIRES, expires_at: at("11:00:00") }, {}, `Unless its worker finishes or touches it by ${shown("13:00:00")}, it becomes a dead letter.`],
  [{ ...CALLING, retry: [15] }, { view: CALLED }, "If attempt 1 of 16 fails, attempt 2 of 16 follows after 15 s or up to a tenth more, unless its endpoint says otherwise."],
  [{ ...CALLING, attempts: 4 }, { view: CALLED }, "If attempt 4 of 16 fails, attempt 5 of 16 follows after 8 s or up to a tenth more, unless its endpoint says otherwise."],
  [{ ...CALLING, attempts: 11 }, { view: CALLED }, "If attempt 11 of 16 fails, attempt 12 of 16 follows after 10 min or up to a tenth more, unless its endpoint says otherwise."],
  [{ ...CALLING, retry: [3600], ...EXPIRES }, { view: CALLED }, `If attempt 1 of 16 fails, attempt 2 of 16 follows after 1 h or up to a tenth more, unless its endpoint says otherwise. If attempt 2 of 16 has not begun by ${shown("13:30:00")}, it expires and becomes a dead letter.`],
  [{ ...CALLING, attempts: 16 }, { view: CALLED }, "If attempt 16 of 16 fails, it becomes a dead letter."],
  [{ ...CALLING, attempts: 16, reserved_by: "w-7" }, { view: CALLED }, `Unless its worker finishes or touches it by ${shown("13:00:00")}, it becomes a dead letter.`],
  [{ ...CALLING, retry: [15], reserved_at: at("11:00:00") }, { view: CALLED }, `${UNLESS.replace("worker", "endpoint")} comes back after 15 s for attempt 2 of 16.`],
  [{ ...RESERVED, attempts: 0 }, {}, `It becomes ready for attempt 1 of 16 when the older version is given back, at ${shown("13:00:00")} at the latest.`],
  [{ ...RESERVED, attempts: 0, due_at: at("11:00:00") }, {}, `It becomes ready for attempt 1 of 16 when the older version is given back, between ${shown("12:00:00")} and ${shown("13:00:00")}.`],
  [{ ...RESERVED, attempts: 0, due_at: at("13:00:00") }, {}, `At ${shown("14:00:00")} it becomes ready for attempt 1 of 16.`],
  [DEAD, { limits: { queue: {} } }, "It stays a dead letter until it is replayed or deleted."],
  [DEAD, { limits: { queue: { dead_retention: 600 } } }, `It stays a dead letter until ${shown("13:10:00")}, when the server deletes it, unless it is replayed before.`],
  // What is not known yet is not guessed.
  [DEAD, {}, ""],
  [JOB, { view: null }, ""],
  [{ ...READY, callback: { url: "http://other.example:81/x" } }, { view: null }, ""],
  [{ ...JOB, state: "of a later version" }, {}, ""],
];

inBrowser("what happens next follows from the job, its topic and the server", {}, async ({ tab, page }) => {
  await tab.go();
  await tab.sees("Overview");
  const given = CASES.map(([job, known]) => ({ view: VIEW, ...known, job }));
  const texts = await page.evaluate(async (given) => {
    const [{ html, render }, { Next }] = [await import("./js/lib.js"), await import("./js/next.js")];
    return given.map((known) => {
      const place = document.createElement("div");
      render(html`<${Next} ...${known} />`, place);
      return place.textContent.trim();
    });
  }, given);
  assert.deepEqual(texts, CASES.map(([, , text]) => text));
});

inBrowser("a job does not come due after its end", {}, async ({ tab, page }) => {
  await tab.go();
  await tab.sees("Overview");
  const job = { ...JOB, attempts: 1, created_at: "2026-01-01T00:00:00Z", due_at: "2026-01-01T01:00:00Z" };
  const end = "2026-01-01T00:10:00Z";
  const kinds = await page.evaluate(async ({ job, end }) => {
    const { pointsOf } = await import("./js/life.js");
    const all = [[{ ...job, state: "dead", dead_at: end }], [job, { how: "deleted", at: end }], [{ ...job, state: "ready" }]];
    return all.map(([job, ended]) => pointsOf(job, { ended, now: Date.now() }).map(({ kind }) => kind).join(" "));
  }, { job, end });
  assert.deepEqual(kinds, ["added dead unknown now", "added unknown dead", "added due unknown now attempt"]);
});

const pop = (server, topic) => server.call("POST", `topics/${topic}/pop?worker=w-1`);
const next = (page) => page.locator(".next");

onEveryEngine("a reservation that ends has the outcome that the page announced", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", id: "one", ttr: "1s", retry: ["1h"], max_attempts: 2 });
  await tab.go("jobs/one");
  await next(page).getByText("It waits for a worker: attempt 1 of 2 is next.").waitFor();
  const { reserved_until: until } = await pop(server, "mail");
  await next(page).getByText(/^At \d.* it becomes ready for attempt 2 of 2\./).waitFor();
  const { due_at: due } = await server.job("one");
  assert.ok(Date.parse(due) - Date.parse(until) >= 3_600_000, `${due} is an hour after ${until}`);
  assert.match(await next(page).innerText(), /If that attempt fails, it becomes a dead letter\.$/);
  await server.call("PATCH", "jobs/one", { delay: 0 });
  await pop(server, "mail");
  await next(page).getByText("It stays a dead letter until it is replayed or deleted.").waitFor();
  await server.add({ topic: "mail", id: "two", ttr: "1s", retry: ["1h"], expire: "12s", on_expiry: "delete" });
  await tab.go("jobs/two");
  await pop(server, "mail");
  await tab.sees("This job is gone:");
  await page.locator(".life").getByText("expired").waitFor();
  assert.equal(await next(page).count(), 0);
});

onEveryEngine("a long reservation, an older version and a dead letter that the server deletes say what follows", { settings: { QUEUE__DEAD_RETENTION: "1h" } }, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", id: "one", ttr: "1h", retry: ["15s"], max_attempts: 5 });
  const { receipt } = await pop(server, "mail");
  await tab.go("jobs/one");
  await next(page).getByText(/^Unless its worker finishes, touches, releases or buries it by .*, it comes back after 15 s for attempt 2 of 5\.$/).waitFor();
  await server.add({ topic: "mail", id: "one", max_attempts: 1, if_exists: "replace" });
  await next(page).getByText(/^It becomes ready for attempt 1 of 1 when the older version is given back, at .* at the latest\./).waitFor();
  await assert.rejects(server.call("POST", "jobs/one/release", { receipt }), /job_replaced/);
  await next(page).getByText("It waits for a worker: attempt 1 of 1 is next.").waitFor();
  await server.call("POST", "topics/mail/pause", { delivery: true });
  await next(page).getByText("It waits until delivery of its topic is resumed; then comes attempt 1 of 1.").waitFor();
  await server.call("POST", "topics/mail/resume");
  const second = await pop(server, "mail");
  await next(page).getByText(/^Unless its worker finishes or touches it by .*, it becomes a dead letter\.$/).waitFor();
  await server.call("POST", "jobs/one/release", { receipt: second.receipt });
  await next(page).getByText(/^It stays a dead letter until .*, when the server deletes it, unless it is replayed before\.$/).waitFor();
  await page.locator(".life .to-come").getByText("deleted").waitFor();
  assert.equal((await server.job("one")).state, "dead");
});

onEveryEngine("a job that is called says when it is called again", {}, async ({ server, tab, page }) => {
  // The server itself answers with 404.
  await server.add({ topic: "calls", id: "one", retry: ["10m"], callback: { url: `${server.url}nowhere` } });
  await tab.go("jobs/one");
  await next(page).getByText(/^At .* it becomes ready and is called: attempt 2 of 2\.$/).waitFor();
  const { due_at: due, history: [{ at: began, took }] } = await server.job("one");
  const wait = (Date.parse(due) - Date.parse(began)) / 1_000 - took;
  assert.ok(wait > 599.9 && wait < 661, `it waits for ${wait} s`);
});

onEveryEngine("a job that is being called and one that its endpoint holds say what follows", {}, async ({ server, tab, page }) => {
  const endpoint = http.createServer();
  await once(endpoint.listen(0, "127.0.0.1"), "listening");
  // Longer than a busy machine needs to show the call.
  const callback = { url: `http://127.0.0.1:${endpoint.address().port}/`, timeout: "5m" };
  try {
    await server.call("PUT", "topics/of-topic", { callback });
    for (const job of [{ topic: "of-topic", id: "one" }, { topic: "of-job", id: "two", callback }]) {
      const call = once(endpoint, "request");
      await server.add({ ...job, max_attempts: 1 });
      await tab.go(`jobs/${job.id}`);
      await next(page).getByText("If attempt 1 of 1 fails, it becomes a dead letter.").waitFor();
      const [, response] = await call;
      response.writeHead(202, { "linger-hold": "10m" }).end();
      await next(page).getByText(/^Unless its endpoint finishes or touches it by .*, it becomes a dead letter\.$/).waitFor();
    }
  } finally {
    endpoint.close();
    endpoint.closeAllConnections();
  }
});

const points = (page) => page.locator(".life li").evaluateAll((all) => all.map((item) => item.querySelector("strong").textContent));

onEveryEngine("the line of a job has what is remembered, the present and what comes next", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", id: "one", max_attempts: 0, expire: "3h" });
  for (let n = 0; n < 12; n += 1) {
    const { receipt } = await pop(server, "mail");
    await server.call("POST", "jobs/one/release", { receipt, delay: 0 });
  }
  await server.call("PATCH", "jobs/one", { delay: "2h" });
  await tab.go("jobs/one");
  const attempts = Array.from({ length: 9 }, (_, n) => `attempt ${n + 4}`);
  await page.locator(".life li").nth(14).waitFor();
  assert.deepEqual(await points(page), ["added", "attempts 1 to 3", ...attempts, "rescheduled", "now", "due", "expires"]);
  assert.match(await page.locator(".life .unknown").innerText(), /not remembered/);
  await tab.sees("earlier ones may be missing");
  assert.match(await page.locator(".life .now .span").innerText(), /^1 h 59 min$|^2 h$/);
  assert.match(await page.locator(".life .due .span").last().innerText(), /^3 h$/, "the expiry moved with the due time");
  await server.call("PATCH", "jobs/one", { delay: 0 });
  const last = await pop(server, "mail");
  await page.locator(".life").getByText("reservation ends").waitFor();
  assert.deepEqual((await points(page)).slice(-5), ["attempt 13", "now", "reservation ends", "attempt 14", "expires"]);
  assert.match(await page.locator(".life li").filter({ hasText: "attempt 13" }).innerText(), /taken\nw-1/);
  await server.call("POST", `jobs/one/finish?receipt=${last.receipt}`);
  await page.locator(".life .done").getByText("finished").waitFor();
  assert.deepEqual((await points(page)).slice(-2), ["attempt 13", "finished"]);
});

inBrowser("the line is told in words, too, and fits small windows", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", id: "one", ttr: "1h", retry: ["15s"], expire: "1d" });
  const { receipt } = await server.call("POST", `topics/mail/pop?worker=${"w".repeat(64)}`);
  await server.call("POST", "jobs/one/release", { receipt, delay: 0 });
  await pop(server, "mail");
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    for (const width of [1440, 1024, 390]) {
      await page.setViewportSize({ width, height: 900 });
      await tab.go("jobs/one");
      await page.locator(".life").getByText("reservation ends").waitFor();
      await tab.check(`the page of a job at ${width}, ${colorScheme}`);
    }
  }
  assert.equal(await page.locator(".life").getAttribute("aria-hidden"), "true");
  await tab.sees("Attempt 1 was released after");
});
