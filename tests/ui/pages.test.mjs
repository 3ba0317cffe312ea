// Every page and what can be done on it.
import assert from "node:assert/strict";
import { alter, inBrowser, onEveryEngine } from "./harness.mjs";

const row = (page, topic) => page.getByRole("row").filter({ has: page.getByRole("link", { name: topic, exact: true }) });
const card = (page, title) => page.locator(".card").filter({ has: page.getByRole("heading", { name: title, exact: true }) });
const totals = (page) => page.locator(".totals .figure").allInnerTexts();

onEveryEngine("the overview counts exactly and stays fresh", {}, async ({ server, tab, page }) => {
  await tab.go();
  await tab.sees("There is no job yet");
  await tab.sees(`curl '${server.url}jobs'`);
  for (let n = 0; n < 3; n += 1) await server.add({ topic: "mail", delay: "1h" });
  await server.add({ topic: "orders" });
  await server.add({ topic: "orders" });
  await server.call("POST", "topics/orders/pop");
  await server.bury("grave", "dead-1", "no such order");
  await tab.sees("1 dead letter");
  await tab.until(() => [...document.querySelectorAll(".totals .figure")].slice(0, 4).map((cell) => cell.innerText).join() === "3,1,1,1");
  // Its last answer sorts anew: a topic that is well by then would not be shown.
  const answered = ["topics?limit", "topics?sort=overdue"].map((part) => page.waitForResponse((response) => response.url().includes(part)));
  await page.keyboard.press("r");
  await Promise.all(answered);
  await row(page, "grave").waitFor();
  assert.deepEqual(await row(page, "mail").getByRole("cell").allInnerTexts().then((cells) => cells.slice(0, 4)), ["3", "0", "0", "0"]);
  await server.call("DELETE", "topics/grave/dead");
  await tab.sees("well again");
  assert.equal(await row(page, "grave").count(), 1, "a row stays where it is");
  await tab.sees("1 change, press");
  await page.keyboard.press("r");
  await tab.sees("All is well.");
  assert.equal(await row(page, "grave").count(), 0);
});

onEveryEngine("topics are sorted, filtered and opened", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "b.one", delay: "1h" });
  for (const id of ["x", "y"]) await server.add({ topic: "a.two", id, delay: "2h" });
  await tab.go();
  const names = () => page.locator("tbody th a").allInnerTexts();
  await row(page, "b.one").waitFor();
  assert.deepEqual(await names(), ["a.two", "b.one"]);
  await tab.button("Next due").click();
  if (server.redis === null) assert.deepEqual(await names(), ["b.one", "a.two"]);
  await tab.button("Delayed").click();
  assert.deepEqual(await names(), ["a.two", "b.one"]);
  await page.getByPlaceholder("begins with").fill("b.");
  assert.deepEqual(await names(), ["b.one"]);
  await page.getByPlaceholder("begins with").fill("none");
  await tab.sees("No topic here begins with");
  await page.getByPlaceholder("begins with").fill("");
  await page.getByRole("rowheader").getByRole("link", { name: "a.two", exact: true }).click();
  await tab.heading("a.two").waitFor();
  await tab.until((title) => document.title === title, "a.two · Linger");
});

inBrowser("the sums are those of all topics, also of more than a page has", {}, async ({ server, tab, page }) => {
  const jobs = Array.from({ length: 1_001 }, (_, n) => ({ topic: `t${String(n).padStart(4, "0")}`, delay: "1h" }));
  await server.call("POST", "batch/jobs", { jobs: jobs.slice(0, 1_000) });
  await server.call("POST", "batch/jobs", { jobs: jobs.slice(1_000) });
  await tab.go();
  await page.locator("[data-tile=in] .figure").getByText("17/s").waitFor();
  await tab.sees(/Since the start .* ago: 1,001 added, 0 finished, 0 died/);
  assert.equal((await totals(page))[0], "1,001");
  assert.equal(await page.locator("tbody tr").count(), 50);
  await tab.button("Show all 1,000").click();
  assert.equal(await page.locator("tbody tr").count(), 1_000);
  await tab.button("Next topics by name").click();
  await row(page, "t1000").waitFor();
  await tab.button("Earlier topics").click();
  await row(page, "t0000").waitFor();
});

onEveryEngine("the server sorts and searches more topics than a page has", {}, async ({ server, tab, page }) => {
  const jobs = Array.from({ length: 1_000 }, (_, n) => ({ topic: `a${n}`, delay: "1h" }));
  await server.call("POST", "batch/jobs", { jobs });
  for (const delay of ["1h", "2h"]) await server.add({ topic: "z.most", delay });
  await server.add({ topic: "z.late" });
  await page.route(/topics\?sort=overdue$/, (route) => alter(route, ({ topics: [first, ...others] }) => {
    assert.equal(first.topic, "z.late");
    return { topics: [{ ...first, oldest_overdue_at: "2026-01-01T00:00:00.000Z" }, ...others] };
  }));
  await server.bury("z.dead", "d", "no");
  await tab.go();
  const first = () => tab.until((name) => document.querySelector("tbody th a")?.innerText === name && !document.querySelector("table.stale"), name);
  let [button, name] = ["", "a0"];
  await first();
  const troubles = page.locator(".troubles a.mono");
  await troubles.nth(1).waitFor();
  assert.deepEqual(await troubles.allInnerTexts(), ["z.late", "z.dead"]);
  assert.equal(await tab.button("Reserved").isDisabled(), true, "the server has no such order");
  for ([button, name] of [["Delayed", "z.most"], ["Overdue", "z.late"], ["Dead", "z.dead"], ["Topic", "a0"]]) {
    await tab.button(button).click();
    await first();
    assert.equal(await tab.button("Next topics by name").count(), button === "Topic" ? 1 : 0, button);
  }
  await page.getByPlaceholder("begins with").fill("z.");
  name = "z.dead";
  await first();
  assert.deepEqual(await page.locator("tbody th a").allInnerTexts(), ["z.dead", "z.late", "z.most"]);
  await page.getByPlaceholder("begins with").fill("z z");
  await tab.sees("The beginning of the name may only hold");
  await page.getByPlaceholder("begins with").fill("none");
  await tab.sees("No topic here begins with");
});

onEveryEngine("the overview says what hurts first, and how much comes and goes", {}, async ({ server, tab, page }) => {
  const topics = ["a", "b", "c", "d", "e"].map((name) => `late.${name}`);
  await server.call("POST", "batch/jobs", { jobs: [...topics, "late.e", "work"].map((topic) => ({ topic })) });
  const { id, receipt } = await server.call("POST", "topics/work/pop");
  await server.call("POST", `jobs/${id}/finish`, { receipt });
  await server.add({ topic: "work", delay: "1h" });
  await server.bury("grave", "dead-1", "no such order");
  // They have waited since January, and nothing polls for them.
  const age = (view) => (topics.includes(view.topic) ? { ...view, oldest_overdue_at: "2026-01-01T00:00:00.000Z", cause: { kind: "no_worker" } } : view);
  await page.route(/topics\?/, (route) => alter(route, (list) => ({ ...list, topics: list.topics.map(age) })));
  await tab.go();
  await tab.sees(/5 topics are late, the worst is late\.e: 2 jobs\./);
  const names = () => page.locator(".troubles li > :nth-child(2)").allInnerTexts();
  assert.deepEqual(await names(), ["5 topics", "grave"], "topics with one cause are one row");
  await tab.sees(/overdue up to \d+ d/);
  await tab.button("5 topics").click();
  assert.deepEqual(await names(), ["5 topics", "late.e", "late.a", "late.b", "late.c", "late.d", "grave"]);
  assert.equal(await tab.button("5 topics").getAttribute("aria-expanded"), "true");
  await tab.button("5 topics").click();
  assert.deepEqual(await names(), ["5 topics", "grave"]);
  const figure = (tile) => page.locator(`[data-tile=${tile}] .figure`);
  await figure("in").getByText("9/min", { exact: true }).waitFor();
  assert.deepEqual([await figure("out").innerText(), await figure("dead").innerText()], ["1/min", "1"]);
  assert.match(await figure("oldest").innerText(), /^\d+ d/);
  assert.equal(await page.locator(".past.added .some").count() > 0, true);
  const flow = (topic) => row(page, topic).locator(".flow").allInnerTexts();
  await tab.until(() => document.querySelector(".topics .flow")?.innerText === "1/min");
  assert.deepEqual((await flow("late.e")).slice(0, 2), ["2/min", "0"]);
  assert.deepEqual((await flow("work")).slice(0, 2), ["2/min", "1/min"]);
  await row(page, "late.e").getByRole("link", { name: "2", exact: true }).click();
  await tab.heading("Jobs").waitFor();
  assert.match(page.url(), /jobs\?state=ready&topic=late\.e$/);
});

onEveryEngine("a topic is paused and resumed", {}, async ({ server, tab, page }) => {
  await server.call("PUT", "topics/mail", { ttr: "5m", max_attempts: 3, retry: ["15s", "3m"], require_receipt: true });
  await server.add({ topic: "mail", delay: "1h" });
  await tab.go("topics/mail");
  for (const shown of ["5 min", "15 s, 3 min", "required to finish"]) await tab.sees(shown, { exact: true });
  const paused = async () => (await server.call("GET", "topics/mail")).paused;
  await tab.button("Pause delivery").click();
  await tab.sees("Delivery of mail is paused.");
  assert.deepEqual(await paused(), { delivery: true, intake: false });
  await tab.button("Reason and end of the pause of delivery").click();
  const [reason, end] = [page.getByLabel("Reason, for everybody who looks"), page.getByRole("textbox", { name: "In", exact: true })];
  await reason.fill("the bank is down");
  await end.fill("0s");
  await tab.button("Save").click();
  await tab.sees("must be in the future");
  await end.fill("23:30");
  await tab.sees("A time looks like 30m");
  assert.equal(await tab.button("Save").isDisabled(), true);
  await page.getByLabel("At a time").check();
  await page.getByLabel("At", { exact: true }).fill("2020-01-01T00:00");
  await tab.sees("This moment has passed.");
  await page.getByLabel("After a time").check();
  await end.fill("2h");
  await tab.button("Save").click();
  await tab.sees("The pause of mail ends by itself.");
  await tab.sees(/No job waits yet: delivery is paused for .* by 127\.0\.0\.1, until .*: the bank is down/);
  const { until: earlier } = (await server.call("GET", "topics/mail")).pauses.delivery;
  await tab.button("Reason and end of the pause of delivery").click();
  await reason.fill("the bank is down");
  await tab.button("Save").click();
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  const { since, until, ...pause } = (await server.call("GET", "topics/mail")).pauses.delivery;
  assert.equal(until, earlier, "a change of the reason leaves the end");
  assert.deepEqual([pause, Date.parse(until) - Date.parse(since) >= 7_200_000], [{ by: "127.0.0.1", reason: "the bank is down" }, true]);
  await server.add({ topic: "mail" });
  await tab.sees(/Jobs wait: delivery is paused for/);
  await tab.button("Pause intake").click();
  await tab.sees("Intake of mail is paused.");
  await tab.button("Resume delivery").click();
  await tab.sees("Delivery of mail is running again.");
  assert.deepEqual(await paused(), { delivery: false, intake: true });
  await tab.go();
  await tab.sees("intake is paused for");
});

inBrowser("a purge asks for the topic first", {}, async ({ server, tab, page }) => {
  for (const id of ["a", "b"]) await server.add({ topic: "mail", id, delay: "1h" });
  await tab.go("topics/mail");
  const ask = async () => {
    await tab.button("Purge …").click();
    await page.getByRole("dialog", { name: "Purge this topic?" }).waitFor();
  };
  await ask();
  assert.equal(await page.evaluate(() => document.activeElement.innerText), "Cancel");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await tab.until(() => document.activeElement.innerText === "Purge …");
  await ask();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await ask();
  await tab.sees("2 delayed, 0 ready, 0 reserved, 0 dead");
  const purge = tab.button("Delete 2 jobs");
  assert.ok(await purge.isDisabled());
  await page.getByLabel("Enter mail to confirm").fill("mai");
  assert.ok(await purge.isDisabled());
  await page.getByLabel("Enter mail to confirm").fill("mail");
  await purge.click();
  await tab.sees("2 jobs of mail deleted.");
  assert.equal(await server.job("a"), null);
});

/** Notes in `window.limits` how long the page waits for each call: its method, its address, milliseconds or null. */
const watchLimits = (page) =>
  page.addInitScript(() => {
    const [limit, send] = [AbortSignal.timeout, fetch];
    let latest = null;
    window.limits = [];
    AbortSignal.timeout = (ms) => limit.call(AbortSignal, (latest = ms));
    window.fetch = (...call) => {
      window.limits.push([call[1]?.method, String(call[0]), latest]);
      latest = null;
      return send(...call);
    };
  });

const limitOf = (page, method, part) =>
  page.evaluate(([method, part]) => window.limits.find((call) => call[0] === method && call[1].includes(part)), [method, part]);

inBrowser("a long purge goes on without its page and ends with its count", {}, async ({ server, tab, page }) => {
  for (const id of ["a", "b"]) await server.add({ topic: "mail", id, delay: "1h" });
  await watchLimits(page);
  let goOn = null;
  const held = new Promise((resolve) => (goOn = resolve));
  await page.route(/topics\/mail\?confirm=mail$/, async (route) => {
    await held;
    await route.continue();
  });
  await tab.go("topics/mail");
  await tab.button("Purge …").click();
  await tab.sees("the purge goes on without this page");
  await page.getByLabel("Enter mail to confirm").fill("mail");
  await tab.button("Delete 2 jobs").click();
  await tab.sees("The purge of mail goes on");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  goOn();
  await tab.sees("2 jobs of mail deleted.");
  assert.equal((await limitOf(page, "DELETE", "topics/mail"))[2], null, "a purge may take as long as it needs");
  assert.equal((await limitOf(page, "GET", "topics/mail"))[2], 10_000, "other calls have a limit");
});

inBrowser("a stop may take longer than the server waits for another one", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", id: "a", delay: "1h" });
  await server.call("POST", "bulk", { id: "one", action: "delete", filter: { topic: "mail", state: "delayed" }, dry_run: false, limit: 1 });
  await watchLimits(page);
  await page.route(/bulk\/one$/, (route) => alter(route, (operation) => ({ ...operation, state: "running" })));
  await tab.go("bulk/one");
  await tab.button("Stop").click();
  await tab.sees("It had ended after 1 job.");
  assert.equal((await limitOf(page, "POST", "bulk/one/stop"))[2], 15_000);
});

onEveryEngine("a topic shows what is due next and what is reserved longest", {}, async ({ server, tab, page }) => {
  for (let n = 1; n <= 21; n += 1) await server.add({ topic: "mail", id: `later-${n}`, delay: `${n}h` });
  await server.add({ topic: "mail", id: "first", ttr: "2h" });
  await server.call("POST", "topics/mail/pop?worker=w-1");
  await server.add({ topic: "mail", id: "second", ttr: "1h" });
  await server.call("POST", "topics/mail/pop?worker=w-2");
  await server.add({ topic: "other", id: "foreign", delay: "1s" });
  await tab.go("topics/mail");
  const ids = (title) => card(page, title).locator("a.mono").allInnerTexts();
  await card(page, "Next due").waitFor();
  assert.deepEqual(await ids("Next due"), Array.from({ length: 20 }, (_, n) => `later-${n + 1}`));
  const reserved = card(page, "Reserved, longest first");
  await reserved.getByText("by w-2").waitFor();
  assert.deepEqual(await ids("Reserved, longest first"), ["first", "second"], "the second one ends first");
  await tab.check("the topic with its lists");
  // Rows do not move while the pointer is on them.
  await reserved.getByRole("link", { name: "second" }).hover();
  await server.call("DELETE", "jobs/first");
  await server.call("DELETE", "jobs/later-1");
  await card(page, "Next due").getByRole("link", { name: "later-21" }).waitFor();
  assert.deepEqual(await ids("Reserved, longest first"), ["first", "second"]);
  await page.mouse.move(0, 0);
  await tab.until(() => ![...document.querySelectorAll("a")].some((link) => link.innerText === "first"));
  await reserved.getByRole("link", { name: "second" }).click();
  await tab.heading("second").waitFor();
});

inBrowser("a body is shown as what it is", {}, async ({ server, tab, page }) => {
  const escaped = String.raw`{"city":"\u5317\u4eac","face":"\ud83d\ude00","hidden":"\u202e","code":"\u0022\n\\u5317"}`;
  const cases = [
    [escaped, String.raw`{
  "city": "北京",
  "face": "😀",
  "hidden": "U+202E",
  "code": "\u0022\n\\u5317"
}`, "88 bytes"],
    [String.raw`{"linger:text":"<order id=\"7\">\n北京"}`, '<order id="7">\n北京', "21 bytes of text"],
    ['{"linger:base64":"AP8gYWJjZGVmZ2hpamtsbW5vcHE="}', `00000000  00 ff 20 61 62 63 64 65  .. abcde
00000008  66 67 68 69 6a 6b 6c 6d  fghijklm
00000010  6e 6f 70 71              nopq`, "20 bytes that are not text"],
    ['{"linger:base64":"AP8"}', '{\n  "linger:base64": "AP8"\n}', "23 bytes"],
    ['{"linger:text":"a","n":1}', '{\n  "linger:text": "a",\n  "n": 1\n}', "25 bytes"],
    ['{"linger:text":"a","linger:text":"b"}', '{\n  "linger:text": "a",\n  "linger:text": "b"\n}', "37 bytes"],
    ['"linger:text"', '"linger:text"', "13 bytes"],
    ["null", "null", "4 bytes"],
  ];
  for (const [n, [body, shown, size]] of cases.entries()) {
    await server.call("POST", "jobs", `{"topic":"t","id":"${n}","body":${body}}`);
    await tab.go(`/jobs/${n}`);
    await tab.heading(`${n}`).waitFor();
    assert.equal(await page.locator(".body pre").innerText(), shown);
    assert.equal(await page.locator(".body .small").innerText(), size);
    await tab.button("Copy the body").click();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), body);
    await tab.button("Raw").click();
    assert.equal(await page.locator(".body pre").innerText(), body);
  }
});

onEveryEngine("a job is found, moved, run and deleted", {}, async ({ server, tab, page }) => {
  const body = '{"n": 9007199254740993, "e":1e400,"list":[ ],"deep":{"a":[1,2]}}';
  const id = "orders:1001~close+@=";
  await server.call("POST", "jobs", `{"topic":"order-close","id":"${id}","delay":"30m","retry":["15s"],"body":${body}}`);
  await tab.go();
  await page.getByLabel("Find a job or a topic").fill(id);
  await page.keyboard.press("Enter");
  await tab.heading(id).waitFor();
  await tab.sees(/^(29:\d\d|30:00)$/);
  const shown = await page.locator(".body pre").innerText();
  assert.equal(shown, '{\n  "n": 9007199254740993,\n  "e": 1e400,\n  "list": [],\n  "deep": {\n    "a": [\n      1,\n      2\n    ]\n  }\n}');
  await tab.button("Raw").click();
  assert.equal(await page.locator(".body pre").innerText(), body);
  await Promise.all([tab.shows("Copied"), tab.button("Copy the body").click()]);
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), body);
  await tab.button("Copy as curl").click();
  await tab.until(() => navigator.clipboard.readText().then((text) => text.startsWith("curl ")));
  assert.ok((await page.evaluate(() => navigator.clipboard.readText())).includes(`"retry":[15],"body":${body}}'`));

  await tab.button("Reschedule …").click();
  await page.getByLabel("In", { exact: true }).fill("900y");
  await tab.sees("A time looks like 30m");
  await page.getByLabel("In", { exact: true }).fill("2h");
  await tab.button("Reschedule 1 job").click();
  await tab.sees("Rescheduled 1 of 1 job.");
  await tab.sees(/^(1:59:\d\d|2:00:00)$/);
  await tab.button("Reschedule …").click();
  await page.getByLabel("At a time").check();
  await page.getByLabel("At", { exact: true }).fill("2100-07-01T12:00:30");
  await tab.button("Reschedule 1 job").click();
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  await tab.sees("1 Jul 2100, 12:00:30");
  assert.equal((await server.job(id)).due_at, "2100-07-01T10:00:30.000Z", "the time is that of Berlin");

  await tab.button("Run now").click();
  await tab.sees("no worker has polled");
  assert.equal((await server.job(id)).state, "ready");
  await tab.button("Delete …").click();
  await tab.button("Cancel").click();
  await tab.button("Delete …").click();
  await tab.button("Delete 1 job").click();
  await tab.sees("This job is gone:");
  assert.equal(await server.job(id), null);
  await page.reload();
  await tab.sees("There is no such job");
});

inBrowser("local times have their offset, and one that comes twice or never is asked for", { tab: { timezoneId: "America/New_York" } }, async ({ server, tab, page }) => {
  const moments = { summer: "2100-11-07T05:30:00.000Z", winter: "2100-11-07T06:30:00.000Z" };
  const shown = [];
  for (const [id, at] of Object.entries(moments)) {
    await server.add({ topic: "t", id, at });
    await tab.go(`jobs/${id}`);
    shown.push(await page.locator(`time[datetime="${at}"]`, { hasText: "2100" }).first().innerText());
  }
  // Which of the two has the present offset depends on the day of the test.
  assert.ok(shown.every((text) => /^7 Nov 2100, 01:30:00( GMT-[45])?$/.test(text)), shown);
  assert.equal(new Set(shown).size, 2, shown);
  await tab.sees(/^Times in America\/New_York \(GMT-[45]\)/);
  const reschedule = tab.button("Reschedule 1 job");
  const fill = (text) => page.getByLabel("At", { exact: true }).fill(text);
  await tab.button("Reschedule …").click();
  await page.getByLabel("At a time").check();
  await fill("2100-07-01T12:00:30");
  await tab.sees("2100-07-01 16:00:30 UTC");
  assert.ok(await reschedule.isEnabled());
  await fill("2100-03-14T02:30");
  await tab.sees("There is no such time");
  assert.ok(await reschedule.isDisabled());
  await fill("2100-11-07T01:30");
  await tab.sees("This time comes twice");
  assert.ok(await reschedule.isDisabled(), "nothing is chosen for the user");
  await tab.check("a time that comes twice");
  await page.getByLabel("GMT-4", { exact: true }).check();
  await tab.sees("2100-11-07 05:30:00 UTC");
  await page.getByLabel("GMT-5", { exact: true }).check();
  await tab.sees("2100-11-07 06:30:00 UTC");
  await reschedule.click();
  await tab.sees("Rescheduled 1 of 1 job.");
  assert.equal((await server.job("winter")).due_at, moments.winter);
});

inBrowser("a reserved job and one with a callback say so", {}, async ({ server, tab }) => {
  await server.add({ topic: "t", id: "held", ttr: "10m" });
  await server.call("POST", "topics/t/pop");
  await tab.go("jobs/held");
  await tab.sees("127.0.0.1 has it for another");
  assert.equal(await tab.button("Run now").count(), 0);
  await server.add({ topic: "t", id: "calls", delay: "1h", callback: { url: "http://127.0.0.1:59999/hook" } });
  await tab.go("jobs/calls");
  await tab.sees("POST http://127.0.0.1:59999/hook");
  assert.equal(await tab.text("[hidden]").count(), 0);
  const callback = { url: "http://127.0.0.1:59999/hook", method: "PUT", timeout: 20 };
  await server.add({ topic: "t", id: "secret", delay: "1h", callback: { ...callback, headers: { "x-key": "k" } }, body: 1 });
  await tab.go("jobs/secret");
  await tab.sees("[hidden]");
  await Promise.all([tab.shows("Copied"), tab.button("Copy as curl").click()]);
  const command = await tab.page.evaluate(() => navigator.clipboard.readText());
  const copied = JSON.parse(command.match(/--data '(.*)'$/)[1]);
  const { due_at: at } = await server.job("secret");
  assert.deepEqual([copied.id, copied.at, copied.body], ["secret", at, 1]);
  assert.deepEqual(copied.callback, { ...callback, headers: { "x-key": "[hidden]" } });
});
