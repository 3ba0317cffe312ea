// Jobs that are added and copied in the browser, jobs that expire, and ids that are remembered.
import assert from "node:assert/strict";
import { inBrowser, onEveryEngine } from "./harness.mjs";

const fact = (page, name) => page.locator(".facts div").filter({ has: page.locator("dt").getByText(name, { exact: true }) }).locator("dd");

inBrowser("a job is added with all its fields, and followed to its end", {}, async ({ server, tab, page }) => {
  await tab.go("topics/trial");
  await tab.sees("There is no such topic");
  await tab.button("Add a job …").click();
  const [delay, body, add] = [page.getByLabel("In", { exact: true }), page.getByLabel("Body, in JSON"), tab.button("Add job")];
  await tab.until(() => document.activeElement.labels?.[0]?.innerText === "Topic");
  await body.fill("hello");
  await tab.sees("This is not JSON");
  assert.ok(await add.isDisabled());
  await body.fill('{"big": 9007199254740993, "quote": "it\'s"}');
  await delay.fill("soon");
  await tab.sees("A time looks like 30m");
  assert.ok(await add.isDisabled());
  await delay.fill("2s");
  await tab.text("The same with curl").click();
  const command = () => page.locator(".command code").innerText();
  assert.ok((await command()).includes(`--data '{"topic":"trial","delay":"2s","body":{"big": 9007199254740993, "quote": "it'\\''s"}}'`), await command());
  await tab.text("Attempts, expiry, callback").click();
  const fields = { Id: "trial-1", TTR: "90s", "Most attempts": "5", "Retry after": "15s, 3m", Expires: "1h" };
  for (const [label, text] of Object.entries(fields)) await page.getByLabel(label, { exact: true }).fill(text);
  await page.getByLabel("At its expiry").selectOption("deleted");
  await add.click();
  await page.getByRole("status").getByRole("link", { name: "trial-1" }).click();
  await tab.sees("no worker has polled");
  const { ttr, max_attempts, retry, on_expiry, due_at, expires_at } = await server.job("trial-1");
  assert.deepEqual([ttr, max_attempts, retry, on_expiry, Date.parse(expires_at) - Date.parse(due_at)], [90, 5, [15, 180], "delete", 3_600_000]);
  const { receipt } = await server.call("POST", "topics/trial/pop");
  await tab.sees("127.0.0.1 has it for another");
  await server.call("POST", `jobs/trial-1/finish?receipt=${receipt}`);
  await tab.sees("This job is gone:");
});

inBrowser("a job and a run whose answer was lost are added once", {}, async ({ server, tab, page }) => {
  let isLost = true;
  await page.route(/\/(jobs|run)$/, async (route) => {
    if (route.request().method() !== "POST" || !isLost) return route.continue();
    isLost = false;
    await route.fetch();
    return route.abort();
  });
  await tab.go("topics/trial");
  await tab.button("Add a job …").click();
  await tab.button("Add job").click();
  await tab.sees("The connection failed.");
  await tab.button("Add job").click();
  await tab.sees(/^Added /);
  const jobs = async (topic, state) => (await server.call("GET", `jobs?state=${state}&topic=${topic}`)).jobs.length;
  assert.equal(await jobs("trial", "delayed"), 1);
  await server.call("PUT", "schedules/yearly", { cron: "0 0 1 1 *", job: { topic: "runs" } });
  await tab.go("schedules/yearly");
  isLost = true;
  await tab.button("Run now").click();
  await tab.sees("It is not known whether this was done.");
  await tab.button("Run now").click();
  await tab.sees(/^Added run:yearly:/);
  assert.equal(await jobs("runs", "ready"), 1);
  await tab.button("Run now").click();
  await tab.until(() => !document.querySelector(".actions button:disabled"));
  assert.equal(await jobs("runs", "ready"), 2, "the next one is another");
});

inBrowser("what was entered stays when the job has gone", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "t", id: "first", delay: "1h" });
  await tab.go("jobs/first");
  await tab.button("Duplicate …").click();
  await page.getByLabel("Body, in JSON").fill('"by hand"');
  await server.call("DELETE", "jobs/first");
  await tab.sees("This job is gone:");
  await tab.button("Add job").click();
  await page.getByRole("status").getByRole("link", { name: "first-2" }).waitFor();
  assert.equal((await server.job("first-2")).body, "by hand");
});

inBrowser("a copy of a job has its fields and another id", {}, async ({ server, tab, page }) => {
  const callback = { url: "http://127.0.0.1:59999/hook", method: "PUT", headers: { "x-key": "k" } };
  const body = '{"big": 9007199254740993}';
  await server.call("POST", "jobs", `{"topic":"t","id":"close-9","at":"2100-01-01T12:00:00Z","ttr":90,"retry":["15s"],"expire":"1h","callback":${JSON.stringify(callback)},"body":${body}}`);
  await tab.go("jobs/close-9");
  await tab.button("Duplicate …").click();
  await tab.sees("The headers of the callback are secret");
  await tab.button("Add job").click();
  await page.getByRole("status").getByRole("link", { name: "close-10" }).waitFor();
  const [first, copy] = [await server.job("close-9"), await server.job("close-10")];
  assert.deepEqual({ ...copy, id: 0, created_at: 0 }, { ...first, id: 0, created_at: 0, callback: { url: callback.url, method: "PUT" } });
  await page.getByRole("status").getByRole("link", { name: "close-10" }).click();
  await tab.heading("close-10").waitFor();
  assert.equal(await page.locator(".body pre").innerText(), '{\n  "big": 9007199254740993\n}');

  await server.add({ topic: "t", delay: "1h" });
  const { jobs } = await server.call("GET", "jobs?state=delayed&topic=t&limit=9");
  await tab.go(`jobs/${jobs[0].id}`);
  await tab.button("Duplicate …").click();
  assert.equal(await page.getByLabel("Id", { exact: true }).inputValue(), "", "the server makes another");
});

onEveryEngine("a job that expires says when, and what happens then", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "codes", id: "soon", delay: "10m", expire: "30m", on_expiry: "delete" });
  await tab.go("jobs/soon");
  await page.locator(".headline").getByText(/^expires in (39:\d\d|40:00)$/).waitFor();
  await tab.sees("It is deleted then.");
  await server.add({ topic: "codes", id: "far", delay: "10m", expire: "2d" });
  await tab.go("jobs/far");
  await tab.sees("It becomes a dead letter then.");
  assert.equal(await tab.text(/^expires in/).count(), 0);
  await tab.button("Copy as curl").click();
  await tab.until(() => navigator.clipboard.readText().then((text) => text.startsWith("curl ")));
  const { expire, on_expiry } = JSON.parse((await page.evaluate(() => navigator.clipboard.readText())).match(/--data '(.*)'$/)[1]);
  assert.deepEqual([expire, on_expiry], [(await server.job("far")).expires_at, "dead"]);

  await server.add({ topic: "codes", id: "over", expire: "1ms" });
  await tab.go("jobs/over");
  await tab.button("Replay without expiry").click();
  await tab.sees("over is ready again.");
  assert.equal((await server.job("over")).expires_at, undefined);
});

onEveryEngine("a job whose older version is still out says so, and who replaced it", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "t", id: "a" });
  await server.call("POST", "topics/t/pop?worker=w-1");
  await server.add({ topic: "t", id: "a", if_exists: "replace", revision: 7, body: 2 });
  await tab.go("jobs/a");
  await tab.sees("an older version is still out: w-1 has it for another");
  await tab.sees("It was replaced by 127.0.0.1");
  assert.equal(await fact(page, "Revision").innerText(), "7");
  assert.equal(await tab.text("Attempt 0").count(), 0);
});

onEveryEngine("a topic says what it sets, and that it remembers the ids of jobs that are gone", {}, async ({ server, tab, page }) => {
  await server.call("PUT", "topics/pay", { dedup: "1d", expire: "5m", on_expiry: "delete", late_finish: false });
  await server.add({ topic: "pay", id: "p", delay: "1h" });
  await tab.go("topics/pay");
  await tab.heading("Settings").waitFor();
  for (const [name, value] of [["TTR", "1 min (default)"], ["Most attempts", "16 (default)"], ["Retry after", "at once (default)"],
    ["Expire", "5 min after they are due: then deleted"], ["Ids remembered", "for 1 d after a job is finished or deleted"],
    ["Late finish", "refused once the reservation has ended"]]) assert.equal(await fact(page, name).innerText(), value);
  await tab.go("jobs/p");
  await tab.sees("due in");
  await server.call("PATCH", "jobs/p", { delay: 0 });
  const { receipt } = await server.call("POST", "topics/pay/pop");
  await server.call("POST", `jobs/p/finish?receipt=${receipt}`);
  await tab.sees("Its topic remembers ids for 1 d");
  await tab.go("topics/pay");
  await tab.button("Add a job …").click();
  await page.getByLabel("Id", { exact: true }).fill("p");
  await tab.button("Add job").click();
  await tab.sees(/a job with this id was finished|another job has this id|this id/i);
});
