// Lists of jobs, and changes of many: by filter, by reason, from the timeline.
import assert from "node:assert/strict";
import { inBrowser, onEveryEngine, refusal } from "./harness.mjs";

const parameters = (page) => Object.fromEntries(new URLSearchParams(new URL(page.url()).hash.split("?")[1]));
/** Waits until the list has these jobs. */
const lists = (tab, expected) =>
  tab.until((text) => [...document.querySelectorAll(".list .id a")].map((link) => link.innerText).join() === text, expected.join());

async function states(server, ids) {
  return Promise.all(ids.map(async (id) => (await server.job(id))?.state ?? "gone"));
}

onEveryEngine("jobs are listed by a filter that is in the address", {}, async ({ server, tab, page }) => {
  for (const [id, topic, at] of [["a:1", "mail", "2100-01-01T10:00:00Z"], ["a:2", "mail", "2100-01-01T11:00:00Z"], ["b:1", "orders", "2100-01-01T12:00:00Z"]]) {
    await server.add({ topic, id, at });
  }
  await server.bury("mail", "d:1", "http 503 from psp");
  await server.bury("mail", "d:2", "timeout");
  await server.add({ topic: "mail", id: "r:1" });
  await tab.go();
  await tab.pressAtOnce("g", "j");
  await tab.heading("Jobs").waitFor();
  await lists(tab, ["a:1", "a:2", "b:1"]);
  await page.getByLabel("Topic", { exact: true }).fill("mail");
  await page.keyboard.press("Enter");
  await lists(tab, ["a:1", "a:2"]);
  await page.getByLabel("Before").fill("2100-01-01T12:00");
  await lists(tab, ["a:1"]);
  assert.deepEqual(parameters(page), { topic: "mail", to: "2100-01-01T11:00:00.000Z" });
  await page.reload();
  await lists(tab, ["a:1"]);
  assert.equal(await page.getByLabel("Before").inputValue(), "2100-01-01T12:00");
  await page.getByLabel("Before").fill("");
  await page.getByLabel("Id begins with").fill("a:2");
  await page.keyboard.press("Enter");
  await lists(tab, ["a:2"]);
  await tab.go("jobs?topic=mail");
  await page.getByLabel("Order").selectOption("latest first");
  await lists(tab, ["a:2", "a:1"]);
  assert.deepEqual(parameters(page), { topic: "mail", order: "desc" });
  await tab.button("Delete all that match …").click();
  await tab.button("Delete 2 jobs").waitFor();
  await tab.button("Cancel").click();
  await tab.go("topics/mail/dead?order=desc");
  await lists(tab, ["d:2", "d:1"]);
  await tab.go("jobs?state=ready&order=desc");
  await lists(tab, ["r:1"]);
  assert.equal(await page.getByLabel("Order").count(), 0, "ready jobs have one order");
  await tab.go("jobs?state=dead");
  await lists(tab, ["d:1", "d:2"]);
  await tab.sees("http 503 from psp");
  await page.getByLabel("Reason begins with").fill("http");
  await page.keyboard.press("Enter");
  await lists(tab, ["d:1"]);
  await page.getByRole("navigation", { name: "State" }).getByRole("link", { name: "ready 1" }).click();
  await lists(tab, ["r:1"]);
  assert.deepEqual(parameters(page), { state: "ready" });
  await page.getByLabel("Topic", { exact: true }).fill("none");
  await page.keyboard.press("Enter");
  await tab.sees("No job matches.");
  await page.getByLabel("Topic", { exact: true }).fill("orders");
  await page.keyboard.press("Enter");
  await tab.sees("No job matches. In orders: 1 delayed.");
  await page.getByLabel("Topic", { exact: true }).fill("");
  await page.keyboard.press("Enter");
  await page.getByRole("navigation", { name: "State" }).getByRole("link", { name: "reserved 0" }).click();
  await tab.sees("No job matches. In all topics: 3 delayed, 1 ready, 2 dead.");
  await page.getByRole("link", { name: "2 dead" }).click();
  await lists(tab, ["d:1", "d:2"]);
});

inBrowser("a search goes on after a refresh, and waits while the tab is hidden", {}, async ({ server, tab, page }) => {
  for (const id of ["a", "b", "c"]) await server.add({ topic: "mail", id, delay: "1h" });
  const { jobs } = await server.call("GET", "jobs?topic=mail&state=delayed");
  let [hold, last] = [null, 0];
  // Every call examines many jobs and finds one.
  await page.route("**/jobs?*", (route) => {
    const at = Number(new URL(route.request().url()).searchParams.get("cursor") ?? 0);
    last = at;
    const answer = () => route.fulfill({ json: { jobs: [jobs[at]], examined: 1000, ...(at < 2 ? { next_cursor: String(at + 1) } : {}) } });
    if (hold && at === 1) hold(answer);
    else answer();
  });
  await tab.go("jobs?topic=mail");
  await lists(tab, jobs.map(({ id }) => id));
  await Promise.all([page.waitForRequest(/cursor=2/), page.keyboard.press("r")]);
  await lists(tab, jobs.map(({ id }) => id));
  assert.equal(await tab.button("Show more").count(), 0);
  const held = new Promise((resolve) => (hold = resolve));
  await page.keyboard.press("r");
  const answer = await held;
  await tab.setHidden(true);
  await answer();
  await lists(tab, jobs.slice(0, 2).map(({ id }) => id));
  await tab.roundTrip();
  assert.equal(last, 1, "nothing is read while hidden");
  await Promise.all([page.waitForRequest(/cursor=2/), tab.setHidden(false)]);
  await lists(tab, jobs.map(({ id }) => id));
});

onEveryEngine("a list goes on, and its rows stay where they are under the pointer", {}, async ({ server, tab, page }) => {
  const all = Array.from({ length: 120 }, (_, n) => `job:${String(n).padStart(3, "0")}`);
  await server.call("POST", "batch/jobs", { jobs: all.map((id, n) => ({ topic: "mail", id, at: new Date(4e12 + n * 1000).toISOString() })) });
  await tab.go("jobs?topic=mail");
  await lists(tab, all.slice(0, 50));
  await page.locator("[data-row]").nth(5).hover();
  await server.call("DELETE", "jobs/job:000");
  await tab.sees("no longer delayed");
  await lists(tab, all.slice(0, 51));
  await page.keyboard.press("r");
  await lists(tab, all.slice(1, 51));
  await tab.button("Show more").click();
  await lists(tab, all.slice(1, 101));
  await tab.button("Show more").click();
  await lists(tab, all.slice(1));
  assert.equal(await tab.button("Show more").count(), 0);
});

inBrowser("the keyboard selects jobs, and a dialog deletes them", {}, async ({ server, tab, page }) => {
  const all = ["a", "b", "c", "d"];
  for (const [n, id] of all.entries()) await server.add({ topic: "mail", id, at: new Date(4e12 + n * 1000).toISOString() });
  await tab.go("jobs");
  await lists(tab, all);
  for (const key of ["j", "x", "j", "j", "x"]) await page.keyboard.press(key);
  await tab.sees("2 selected");
  await tab.button("Delete …").click();
  const dialog = page.getByRole("dialog", { name: "Delete these jobs?" });
  await dialog.waitFor();
  assert.ok(await page.getByLabel("Enter 2 to confirm").evaluate((field) => field === document.activeElement), "the first field has the focus");
  assert.deepEqual(await dialog.locator("li").allInnerTexts(), ["a", "c"]);
  assert.ok(await tab.button("Delete 2 jobs").isDisabled());
  await page.getByLabel("Enter 2 to confirm").fill("2");
  await page.clock.install();
  await tab.button("Delete 2 jobs").click();
  await tab.sees("Deleted 2 of 2 jobs.");
  await page.clock.runFor(60_000);
  assert.ok(await tab.text("Deleted 2 of 2 jobs.").isVisible(), "it stays until the next change");
  assert.deepEqual(await states(server, all), ["gone", "delayed", "gone", "delayed"]);
  await lists(tab, ["b", "d"]);
  await page.getByLabel("Select all shown").check();
  await tab.sees("2 selected");
  await tab.button("Reschedule …").click();
  assert.ok(await page.getByLabel("Earlier or later").isChecked(), "not all at one moment");
  await tab.button("1h").click();
  assert.equal(await page.getByLabel("By", { exact: true }).inputValue(), "1h");
  await tab.button("Reschedule 2 jobs").click();
  await tab.sees("Rescheduled 2 of 2 jobs.");
  assert.deepEqual(await Promise.all(["b", "d"].map(async (id) => Date.parse((await server.job(id)).due_at))), [4e12 + 3_601_000, 4e12 + 3_603_000]);
  await tab.button("Close").click();
  await page.getByLabel("Select all shown").check();
  await tab.button("Reschedule …").click();
  await page.getByLabel("From now").check();
  await page.getByLabel("In", { exact: true }).fill("0");
  await tab.button("Reschedule 2 jobs").click();
  await tab.sees("Rescheduled 2 of 2 jobs.");
  assert.deepEqual(await states(server, ["b", "d"]), ["ready", "ready"]);
  await page.keyboard.press("j");
  await tab.go("jobs/b");
  await tab.heading("b").waitFor();
});

inBrowser("a dead letter that was replayed meanwhile is not deleted", {}, async ({ server, tab, page }) => {
  for (const id of ["a", "b"]) await server.bury("mail", id, "no");
  await tab.go("jobs?state=dead");
  await lists(tab, ["a", "b"]);
  await page.getByLabel("Select all shown").check();
  await tab.button("Delete …").click();
  await page.getByLabel("Enter 2 to confirm").fill("2");
  await server.call("POST", "jobs/a/requeue");
  await tab.button("Delete 2 jobs").click();
  await tab.sees("Deleted 1 of 2 jobs.");
  await tab.sees("a is ready now");
  assert.deepEqual(await states(server, ["a", "b"]), ["ready", "gone"]);
});

inBrowser("a job that was replaced or reserved meanwhile is not deleted", {}, async ({ server, tab, page }) => {
  for (const id of ["a", "b", "c"]) await server.add({ topic: "mail", id, delay: "1h", revision: 1 });
  await tab.go("jobs");
  await lists(tab, ["a", "b", "c"]);
  await page.getByLabel("Select all shown").check();
  await tab.button("Delete …").click();
  await page.getByLabel("Enter 3 to confirm").fill("3");
  await server.add({ topic: "mail", id: "a", delay: "2h", revision: 2, if_exists: "replace" });
  await server.call("PATCH", "jobs/b", { delay: 0 });
  await server.call("GET", "topics/mail/pop?ttr=1h");
  await tab.button("Delete 3 jobs").click();
  await tab.sees("Deleted 1 of 3 jobs.");
  assert.deepEqual(await states(server, ["a", "b", "c"]), ["delayed", "reserved", "gone"]);
  await tab.go("jobs/a");
  await tab.button("Delete …").click();
  await server.add({ topic: "mail", id: "a", delay: "3h", revision: 3, if_exists: "replace" });
  await tab.button("Delete 1 job").click();
  await tab.sees("a was replaced by another one.");
  assert.deepEqual(await states(server, ["a"]), ["delayed"]);
});

inBrowser("a stop says whether the operation has ended", {}, async ({ tab, page }) => {
  const answers = { running: "Its process was asked to stop it, and has not answered.", done: "It had ended after 5 jobs.", stopped: "Stopped after 5 jobs." };
  const operation = { id: "ui-1", action: "delete", filter: { topic: "mail" }, matched: 9, examined: 5, changed: 5, skipped: 0, started_at: new Date().toISOString() };
  let state = null;
  await page.route("**/bulk/ui-1", (route) => route.fulfill({ json: { ...operation, state: "running" } }));
  await page.route("**/bulk/ui-1/stop", (route) => route.fulfill({ json: { ...operation, state } }));
  await tab.go("bulk/ui-1");
  for (const [answered, text] of Object.entries(answers)) {
    state = answered;
    await tab.button("Stop").click();
    await tab.sees(text);
  }
});

inBrowser("keys work after a click on a box", {}, async ({ server, tab, page }) => {
  for (const [n, id] of ["a", "b"].entries()) await server.add({ topic: "mail", id, at: new Date(4e12 + n * 1000).toISOString() });
  await tab.go("jobs");
  await lists(tab, ["a", "b"]);
  await page.getByLabel("Select a", { exact: true }).click();
  await page.keyboard.press("j");
  assert.equal(await page.evaluate(() => document.activeElement.innerText), "b");
  await page.keyboard.press("x");
  await tab.sees("2 selected");
});

inBrowser("a change that cannot go on says how far it came", {}, async ({ server, tab, page }) => {
  for (const [n, id] of ["a", "b", "c"].entries()) await server.add({ topic: "mail", id, at: new Date(4e12 + n * 1000).toISOString() });
  await tab.go("jobs");
  await lists(tab, ["a", "b", "c"]);
  await page.getByLabel("Select all shown").check();
  await tab.button("Delete …").click();
  await page.getByLabel("Enter 3 to confirm").fill("3");
  await page.route("**/jobs/b", (route) => route.fulfill(refusal(503, "draining", "the server is shutting down")));
  await tab.button("Delete 3 jobs").click();
  await tab.sees("Deleted 1 of 3 jobs, then: The server cannot do this now");
  assert.deepEqual(await states(server, ["a", "b", "c"]), ["gone", "delayed", "delayed"]);
  await page.unroute("**/jobs/b");
  await tab.button("Delete 3 jobs").click();
  await tab.sees("Deleted 3 of 3 jobs.");
  assert.deepEqual(await states(server, ["a", "b", "c"]), ["gone", "gone", "gone"]);
});

inBrowser("a long count goes on through failures, and ends with its dialog", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", id: "a", delay: "1h" });
  const [running, done] = ["running", "done"].map((state) => ({ id: "count", dry_run: true, state, matched: 7, jobs: [] }));
  let answers = [{ json: running }, refusal(503, "draining", "the server is shutting down"), { json: done }];
  let reads = 0;
  await page.route("**/bulk", (route) => route.fulfill({ status: 202, json: running }));
  await page.route("**/bulk/count", (route) => ((reads += 1), route.fulfill(answers.shift() ?? { json: running })));
  await page.route("**/bulk/count/stop", (route) => route.fulfill({ json: { ...running, state: "stopped" } }));
  await page.clock.install();
  await tab.go("jobs");
  await tab.button("Reschedule all that match …").click();
  await tab.button("Reschedule 7 jobs").waitFor();
  await tab.button("Cancel").click();
  answers = [];
  reads = 0;
  await Promise.all([page.waitForResponse("**/bulk/count"), tab.button("Reschedule all that match …").click()]);
  await Promise.all([page.waitForRequest("**/bulk/count/stop"), tab.button("Cancel").click()]);
  await tab.roundTrip();
  reads = 0;
  await page.clock.runFor(60_000);
  await tab.roundTrip();
  assert.equal(reads, 0, "a closed dialog asks nothing");
});

onEveryEngine("all that match are counted, confirmed and changed", {}, async ({ server, tab, page }) => {
  const jobs = Array.from({ length: 130 }, (_, n) => ({ topic: n < 120 ? "mail" : "orders", id: `j:${n}`, delay: "1d" }));
  await server.call("POST", "batch/jobs", { jobs });
  await tab.go("jobs?topic=mail");
  await tab.button("Reschedule all that match …").click();
  await tab.sees("All delayed jobs of mail: 120 jobs.");
  await tab.sees("and 110 more");
  const act = tab.button("Reschedule 120 jobs");
  assert.ok(await act.isDisabled());
  assert.ok(await page.getByLabel("Earlier or later").isChecked(), "not all at one moment");
  await tab.until(() => document.activeElement.labels?.[0]?.innerText === "By");
  await page.getByLabel("By", { exact: true }).fill("-12h");
  await page.getByLabel("Enter 120 to confirm").fill("120");
  await act.click();
  await tab.sees("done: 120 of 120 changed");
  await tab.sees("Reschedule delayed jobs of mail");
  assert.equal(await page.getByRole("progressbar").getAttribute("value"), "120");
  const left = async (id) => (Date.parse((await server.job(id)).due_at) - Date.now()) / 3_600_000;
  assert.ok((await left("j:0")) < 12 && (await left("j:120")) > 12);
  await tab.pressAtOnce("g", "b");
  await tab.heading("Bulk").waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await tab.sees("done: 120 of 120 changed");

  await tab.go("jobs?topic=orders&id_prefix=j%3A12");
  await tab.button("Delete all that match …").click();
  await tab.sees("All delayed jobs of orders whose ids begin with “j:12”: 10 jobs.");
  await page.getByLabel("Enter 10 to confirm").fill("10");
  await tab.button("Delete 10 jobs").click();
  await tab.sees("done: 10 of 10 changed");
  assert.deepEqual(await states(server, ["j:119", "j:120", "j:129"]), ["delayed", "gone", "gone"]);

  const many = Array.from({ length: 1_000 }, (_, n) => ({ topic: "many", id: `m:${n}`, delay: "1d" }));
  await server.call("POST", "batch/jobs", { jobs: many });
  await tab.go("jobs?topic=many");
  await tab.button("Delete all that match …").click();
  await page.getByLabel("Enter 1000 to confirm").fill("1,000");
  assert.ok(await tab.button("Delete 1,000 jobs").isEnabled(), "the number as the button has it");
});

inBrowser("an operation that runs is stopped", {}, async ({ server, tab }) => {
  for (let from = 0; from < 20_000; from += 1_000) {
    await server.call("POST", "batch/jobs", { jobs: Array.from({ length: 1_000 }, (_, n) => ({ topic: "mail", id: `j:${from + n}`, delay: "1d" })) });
  }
  await tab.go("bulk");
  await tab.sees("There are no bulk operations.");
  const { id } = await server.call("POST", "bulk", { action: "delete", filter: { topic: "mail", state: "delayed" }, dry_run: false, limit: 20_000 });
  await tab.go(`bulk/${id}`);
  await tab.button("Stop").click();
  await tab.sees(/^Stopped after [\d,]+ jobs?\.$/);
  await tab.sees(/^stopped: [\d,]+ of 20,000 changed/);
  assert.ok((await server.call("GET", "topics/mail")).counts.delayed > 0);
});

onEveryEngine("an operation that lost its server is shown as abandoned", {}, async ({ server, tab, page }) => {
  const request = { id: "lost", action: "delete", filter: { topic: "mail", state: "delayed" }, dry_run: false, limit: 9 };
  await server.call("POST", "bulk", request);
  const operation = { ...(await server.call("POST", "bulk/lost/stop")), state: "abandoned", ended_at: undefined };
  await page.route("**/bulk/lost", (route) => route.fulfill({ json: operation }));
  await tab.go("bulk/lost");
  await tab.sees("abandoned: 0 of 9 changed");
  await tab.sees("The server of this operation no longer reports.");
  assert.equal(await tab.button("Stop").count(), 0);
});

inBrowser("an operation that is no longer known does not look as if it ran", {}, async ({ server, tab, page }) => {
  const request = { id: "lost", action: "delete", filter: { topic: "mail", state: "delayed" }, dry_run: false, limit: 9 };
  await server.call("POST", "bulk", request);
  const operation = { ...(await server.call("POST", "bulk/lost/stop")), state: "running", ended_at: undefined };
  await page.route("**/bulk/lost", (route) => route.fulfill({ json: operation }));
  await tab.go("bulk/lost");
  await tab.button("Stop").waitFor();
  await page.route("**/bulk/lost", (route) => route.fulfill(refusal(404, "operation_not_found", "there is no such operation")));
  await tab.sees("This operation is no longer known:");
  await page.locator(".card.stale").getByText("last seen running: 0 of 9 changed").waitFor();
  assert.equal(await tab.button("Stop").count(), 0);
});

onEveryEngine("dead letters are grouped by reason, replayed and deleted", {}, async ({ server, tab, page }) => {
  for (let n = 0; n < 3; n += 1) await server.bury("mail", `h-${n}`, `http 50${n} from psp`);
  for (let n = 0; n < 2; n += 1) await server.bury("mail", `t-${n}`, "timed out");
  await tab.go("topics/mail");
  await page.getByRole("link", { name: "Show dead letters" }).click();
  await tab.sees("of 5 dead letters");
  const groups = await page.locator(".group").evaluateAll((rows) => rows.map((row) => [row.querySelector("strong").innerText, row.querySelector("a").innerText]));
  assert.deepEqual(groups, [["3", "http # from psp"], ["2", "timed out"]]);
  await page.getByRole("link", { name: "timed out", exact: true }).click();
  await lists(tab, ["t-0", "t-1"]);
  await page.getByRole("button", { name: "Replay “http # from psp”" }).click();
  await tab.sees("All dead jobs of mail whose reasons begin with “http 50”: 3 jobs.");
  await page.getByLabel("Spread over").fill("10m");
  await tab.button("Replay 3 jobs").click();
  await tab.sees("done: 3 of 3 changed");
  assert.deepEqual(await states(server, ["h-0", "h-1", "h-2", "t-0"]), ["delayed", "delayed", "delayed", "dead"]);
  await tab.go("topics/mail/dead");
  await lists(tab, ["t-0", "t-1"]);
  await tab.button("Delete all that match …").click();
  await page.getByLabel("Enter 2 to confirm").fill("2");
  await tab.button("Delete 2 jobs").click();
  await tab.sees("done: 2 of 2 changed");
  await tab.go("topics/mail/dead");
  await tab.sees("No dead letters.");
});

inBrowser("a reason whose beginning catches others says so", {}, async ({ server, tab, page }) => {
  for (const [n, reason] of ["1", "1 timeout", "12 timeouts"].entries()) await server.bury("mail", `d-${n}`, reason);
  await tab.go("topics/mail/dead");
  await page.getByRole("button", { name: "Replay “# timeouts”" }).click();
  await tab.sees("All dead jobs of mail whose reasons begin with “12 timeouts”: 1 job.");
  assert.equal(await tab.text("This reason was listed with").count(), 0);
  await tab.button("Cancel").click();
  await page.getByRole("button", { name: "Replay “#”", exact: true }).click();
  await tab.sees("This reason was listed with 1 job. Other reasons may begin in the same way.");
  assert.ok(await tab.button("Replay 3 jobs").isDisabled());
  await page.getByLabel("Enter 3 to confirm").fill("3");
  assert.ok(await tab.button("Replay 3 jobs").isEnabled());
});

inBrowser("the due time of one job is shown before and after", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", id: "a", at: "2100-07-01T10:00:30Z" });
  await tab.go("jobs/a");
  await tab.button("Reschedule …").click();
  await tab.until(() => document.activeElement.labels?.[0]?.innerText === "In");
  await page.getByLabel("At a time").check();
  assert.equal(await page.getByLabel("At", { exact: true }).inputValue(), "2100-07-01T12:00:30", "it begins with what is there");
  await page.getByLabel("Earlier or later").check();
  const [by, act] = [page.getByLabel("By", { exact: true }), tab.button("Reschedule 1 job")];
  await by.fill("soon");
  await tab.sees("with - for earlier");
  assert.ok(await act.isDisabled());
  await by.fill("-80m");
  await page.getByRole("dialog").getByText(/^Due 1 Jul 2100, 12:00:30.* → 1 Jul 2100, 10:40:30/).waitFor();
  await act.click();
  await tab.sees("Rescheduled 1 of 1 job.");
  assert.equal((await server.job("a")).due_at, "2100-07-01T08:40:30.000Z");
});

/** Adds three jobs, and returns their due times by the minutes from now. */
async function addTimed(server) {
  const begin = Math.floor(Date.now() / 60_000) * 60_000;
  const at = (minutes) => new Date(begin + minutes * 60_000 + 30_000).toISOString();
  for (const [id, minutes] of [["a", 10], ["b", 11], ["c", 40]]) await server.add({ topic: "mail", id, at: at(minutes) });
  return at;
}

inBrowser("what the timeline selects is listed and changed", {}, async ({ server, tab, page }) => {
  await addTimed(server);
  await tab.go("topics/mail");
  await page.getByRole("slider").focus();
  for (const key of ["ArrowRight", "Shift+ArrowRight"]) await page.keyboard.press(key);
  await tab.until(() => document.querySelector(".readout p").innerText.endsWith(" 2 jobs"));
  await page.getByRole("link", { name: "Show jobs" }).click();
  await lists(tab, ["a", "b"]);
  await page.goBack();
  await page.getByRole("slider").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  await lists(tab, ["a"]);
  await page.goBack();
  await page.getByRole("slider").focus();
  for (const key of ["ArrowRight", "Shift+ArrowRight"]) await page.keyboard.press(key);
  await page.locator(".readout").getByRole("button", { name: "Delete …" }).click();
  await tab.sees(/^All delayed jobs of mail due from .* before .*: 2 jobs/);
  await page.getByLabel("Enter 2 to confirm").fill("2");
  await tab.button("Delete 2 jobs").click();
  await tab.sees("done: 2 of 2 changed");
  assert.deepEqual(await states(server, ["a", "b", "c"]), ["gone", "gone", "delayed"]);
});

inBrowser("what the timeline selects is rescheduled", {}, async ({ server, tab, page }) => {
  const at = await addTimed(server);
  await tab.go("topics/mail");
  await page.getByRole("slider").focus();
  for (const key of ["ArrowRight", "Shift+ArrowRight"]) await page.keyboard.press(key);
  await page.locator(".readout").getByRole("button", { name: "Reschedule …" }).click();
  await tab.sees(/^All delayed jobs of mail due from .* before .*: 2 jobs/);
  await page.getByLabel("Earlier or later").check();
  await page.getByLabel("By", { exact: true }).fill("1m");
  await tab.button("Reschedule 2 jobs").click();
  await tab.sees("done: 2 of 2 changed");
  const due = async (id) => (await server.job(id)).due_at;
  assert.deepEqual(await Promise.all(["a", "b", "c"].map(due)), [at(11), at(12), at(40)]);
});

inBrowser("a click with Shift selects a range, and the selection stays in sight", {}, async ({ server, tab, page }) => {
  const jobs = Array.from({ length: 50 }, (_, n) => ({ topic: "mail", id: `job:${n}`, at: new Date(4e12 + n * 1000).toISOString() }));
  await server.call("POST", "batch/jobs", { jobs });
  await tab.go("jobs");
  await lists(tab, jobs.map(({ id }) => id));
  const box = (id) => page.getByLabel(`Select ${id}`, { exact: true });
  await box("job:2").click();
  await box("job:9").click({ modifiers: ["Shift"] });
  await tab.sees("8 selected");
  assert.ok(await box("job:5").isChecked());
  await box("job:6").click();
  await tab.sees("7 selected");
  await box("job:4").click({ modifiers: ["Shift"] });
  await tab.sees("5 selected");
  const bar = page.getByRole("group", { name: "Selected jobs" });
  for (const id of ["job:0", "job:49"]) {
    await box(id).scrollIntoViewIfNeeded();
    const { y, height } = await bar.boundingBox();
    assert.ok(y > 0 && y + height <= page.viewportSize().height, `the bar is at ${y} with ${id} in sight`);
  }
  await tab.check("a selection");
  await bar.getByRole("button", { name: "Clear" }).click();
  await tab.button("Delete all that match …").waitFor();
  assert.equal(await bar.count(), 0);
});

inBrowser("an operation tells its rate, who asked for it, and what is left", {}, async ({ tab, page }) => {
  let state = "running";
  const operation = () => ({
    id: "one", action: "delete", filter: { topic: "mail", state: "delayed" }, state, dry_run: false, by: "ann",
    limit: 9_000, matched: 0, changed: 900, skipped: 100, started_at: new Date(Date.now() - 10_000).toISOString(),
  });
  await page.route(/\/bulk\/one$/, (route) => route.fulfill({ json: operation() }));
  await page.route(/\/bulk$/, (route) => route.fulfill({ json: { operations: [operation()] } }));
  await tab.go("bulk/one");
  await tab.sees(/running: 900 of 9,000 changed, 100 skipped, \d+ a second, at most 1 min \d+ s left/);
  state = "stopped";
  await page.getByRole("link", { name: "The jobs that match now" }).click();
  await tab.until(() => location.hash === "#/jobs?topic=mail&state=delayed");
  await tab.go("bulk");
  await tab.sees(/stopped: 900 of 9,000 changed, 100 skipped,.* by ann/);
});
