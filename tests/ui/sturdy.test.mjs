// What the pages do with what they should never get, and in a queue that does not rest.
import assert from "node:assert/strict";
import { inBrowser, onEveryEngine } from "./harness.mjs";

inBrowser("a bound that is no time changes nothing and leaves the other pages alone", {}, async ({ server, tab, page }) => {
  await server.bury("mail", "one", "no");
  for (const [target, other] of [["jobs?state=dead&from=2026-13-45", "jobs?state=dead"], ["topics/mail/dead?to=garbage", "topics/mail/dead"]]) {
    await tab.go(target);
    await tab.sees(/” in the address is no time/);
    assert.equal(await page.getByRole("button", { name: "all that match" }).count(), 0, "it would mean more jobs than the address");
    await tab.go(other);
    await tab.sees("one", { exact: true });
  }
  tab.errors.length = 0;
  await tab.go("jobs?state=constructor");
  await tab.sees("No job matches");
});

inBrowser("a page that fails leaves the others alone", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", id: "one", delay: "1h" });
  await page.route("**/topics/mail", (route) => route.fulfill({ contentType: "application/json", body: '{"topic":"mail"}' }));
  await tab.go("topics/mail");
  await tab.heading("This page failed").waitFor();
  assert.ok(tab.errors.length > 0, "the console has the error");
  tab.errors.length = 0;
  await page.unroute("**/topics/mail");
  await tab.button("Try again").click();
  await tab.heading("mail").waitFor();
  await page.route("**/topics/mail", (route) => route.fulfill({ contentType: "application/json", body: '{"topic":"mail"}' }));
  await page.reload();
  await tab.heading("This page failed").waitFor();
  await page.getByRole("navigation").getByRole("link", { name: "Server" }).click();
  await tab.heading("Server").waitFor();
  tab.errors.length = 0;
});

inBrowser("a long topic leaves room for the id of its job", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "t".repeat(128), id: "subscription:1001", delay: "1h" });
  for (const width of [1440, 1024, 390]) {
    await page.setViewportSize({ width, height: 900 });
    await tab.go("jobs");
    await tab.sees("subscription:1001");
    const { height } = await page.locator(".list tbody tr").boundingBox();
    assert.ok(height < 80, `the row is ${height} tall at ${width}`);
    await tab.check(`jobs at ${width}`);
  }
});

inBrowser("a title that comes late takes no focus from a field", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", id: "one", delay: "1h" });
  let answer;
  const isWanted = new Promise((resolve) => (answer = resolve));
  await page.route("**/settings.json", async (route) => {
    await isWanted;
    await route.fulfill({ contentType: "application/json", body: '{"title":"Shop","hide_bodies":false}' });
  });
  await tab.go();
  await tab.sees("mail");
  await page.keyboard.type("/on");
  answer();
  await tab.until(() => document.title.endsWith("Shop"));
  await page.keyboard.type("e");
  assert.equal(await page.getByLabel("Find a job or a topic").inputValue(), "one");
});

/** Answers each reading of the list with the next fifty jobs, and counts the readings. */
async function moveOn(page) {
  const list = { readings: 0 };
  await page.route("**/jobs?*", (route) => {
    const first = 50 * list.readings++;
    const job = (n) => ({ id: `job-${n}`, topic: "mail", state: "delayed", due_at: "2100-01-01T00:00:00.000Z", attempts: 0, max_attempts: 1, body_bytes: 1 });
    const jobs = Array.from({ length: 50 }, (_, n) => job(first + n));
    route.fulfill({ contentType: "application/json", body: JSON.stringify({ jobs, examined: 50 }) });
  });
  return list;
}

inBrowser("a list that is left open moves on with the queue", {}, async ({ tab, page }) => {
  await moveOn(page);
  await tab.go("jobs");
  await tab.sees("job-0", { exact: true });
  await tab.sees("job-50", { exact: true });
  assert.equal(await page.locator("[data-row]").count(), 50, "no row of the reading before is left");
  // Under the pointer nothing moves.
  await page.locator("[data-row]").first().hover();
  const held = await page.locator("[data-row] a").first().innerText();
  await page.getByText("no longer delayed").first().waitFor();
  assert.equal(await page.locator("[data-row] a").first().innerText(), held);
  // Nor under the focus, when the pointer leaves, or when the next row gets it.
  await page.locator("[data-row] a").first().focus();
  await page.mouse.move(1, 1);
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  assert.equal(await page.locator("[data-row] a").first().innerText(), held);
});

inBrowser("a selected job that is gone holds nothing", {}, async ({ tab, page }) => {
  await moveOn(page);
  await tab.go("jobs");
  await tab.sees("job-0", { exact: true });
  await page.getByLabel("Select job-0", { exact: true }).check();
  await page.mouse.move(1, 1);
  await page.evaluate(() => document.activeElement.blur());
  await tab.until(() => document.querySelectorAll("[data-row]").length === 50 && !document.querySelector('[href$="job-0"]'));
});

inBrowser("a list that is held keeps few of the jobs that are gone", {}, async ({ tab, page }) => {
  const list = await moveOn(page);
  await tab.go("jobs");
  await tab.sees("job-0", { exact: true });
  await page.locator("[data-row]").first().hover();
  for (let n = 0; n < 5; n += 1) {
    const before = list.readings;
    await tab.setHidden(true);
    await tab.setHidden(false);
    await tab.until((before) => document.querySelector(`[href$="job-${before * 50 + 1}"]`), before);
  }
  assert.equal(await page.locator("[data-row]").count(), 150);
});

inBrowser("a ready job says why it waits", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", id: "one" });
  await tab.go("jobs/one");
  await tab.sees("In mail, no worker has polled for a minute");
  await server.call("POST", "topics/mail/pause", { delivery: true, reason: "the bank is down" });
  await tab.sees("In mail, delivery is paused for");
  await tab.sees("by 127.0.0.1: the bank is down");
  await page.getByRole("main").getByRole("link", { name: "mail" }).last().click();
  await tab.heading("mail").waitFor();
});

inBrowser("all texts about a moment agree, and name it exactly", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", id: "one", max_attempts: 1 });
  const { receipt } = await server.call("POST", "topics/mail/pop");
  await server.call("POST", "jobs/one/release", { receipt });
  await tab.go("jobs/one");
  await tab.sees("It was added");
  const read = () => page.locator("main .when").evaluateAll((all) => all.map((when) => {
    const time = when.querySelector("time");
    return [time.dateTime, time.title, when.textContent];
  }));
  // A tick changes all of them.
  for (let n = 0; n < 3; n += 1) {
    const shown = await read();
    const byMoment = new Map(shown.map(([at, , text]) => [at, text]));
    assert.ok(shown.length > byMoment.size, `some moments are shown twice: ${shown}`);
    for (const [at, title, text] of shown) {
      assert.match(title, new RegExp(`^\\d+ \\w+ 20\\d\\d, [\\d:]+ Europe/Berlin \\(GMT\\+[12]\\)\n${at}$`));
      assert.equal(text, byMoment.get(at));
    }
    await tab.until((before) => document.querySelector("main .when").textContent !== before, shown[0][2]);
  }
});

inBrowser("a due time that has passed, or that is no time, is named before it is sent", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", id: "one", delay: "1h" });
  await tab.go("jobs/one");
  await tab.button("Reschedule …").click();
  await page.getByLabel("In", { exact: true }).fill("tomorrow");
  await tab.sees("A time looks like 30m, 1h30m or 2d.");
  assert.ok(await tab.button("Reschedule 1 job").isDisabled());
  for (const right of ["90", "1.5s", "1h30m", "PT15M"]) {
    await page.getByLabel("In", { exact: true }).fill(right);
    await tab.until(() => ![...document.querySelectorAll("dialog button")].at(-1).disabled);
  }
  await page.getByLabel("At a time").check();
  await page.getByLabel("At", { exact: true }).fill("2020-01-01T00:00:30");
  await tab.sees("This moment has passed");
});

inBrowser("figures have their age while updates are off", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", id: "one", delay: "1h" });
  await tab.go("topics/mail");
  await tab.sees("next in");
  await page.keyboard.press("l");
  await tab.sees(/As of .*Updates are off/);
  await server.add({ topic: "mail", id: "two", delay: "1h" });
  await tab.button("Read now").click();
  await tab.until(() => document.querySelector("main dd")?.textContent.includes("2"));
  await page.keyboard.press("l");
  await page.getByText("Updates are off").waitFor({ state: "hidden" });
});

inBrowser("the chosen reason is named", {}, async ({ server, tab, page }) => {
  await server.bury("mail", "one", "KeyError: amount");
  await server.bury("mail", "two", "timeout");
  await tab.go("topics/mail/dead");
  await page.getByRole("link", { name: "KeyError: amount" }).click();
  await tab.sees("Only those whose reason begins with");
  await page.getByRole("link", { name: "two", exact: true }).waitFor({ state: "hidden" });
  await page.getByRole("link", { name: "Show all" }).click();
  await page.getByRole("link", { name: "two", exact: true }).waitFor();
});

onEveryEngine("what a list does not know is not shown as none", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", id: "one", delay: "1h" });
  await server.add({ topic: "empty", id: "two" });
  await server.call("POST", "topics/empty/pop");
  await tab.go();
  const due = (topic) => page.locator("tr", { hasText: topic }).locator('[data-name="next due"]').innerText();
  await tab.sees("empty", { exact: true });
  assert.match(await due("mail"), server.redis ? /^\?$/ : /^in /);
  assert.equal(await due("empty"), "–");
});

inBrowser("a job that could not be changed is named", {}, async ({ server, tab, page }) => {
  for (const id of ["one", "two"]) await server.add({ topic: "mail", id, delay: "1h" });
  await tab.go("jobs");
  await tab.sees("two", { exact: true });
  await page.getByLabel("Select all shown").check();
  await tab.button("Reschedule …").click();
  await server.call("DELETE", "jobs/two");
  await tab.button("Reschedule 2 jobs").click();
  await tab.sees("Rescheduled 1 of 2 jobs.");
  await tab.sees("two: This job was deleted");
});

inBrowser("figures that stay the same are not sent again", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", id: "first", delay: "1h" });
  const isUnchanged = (path) => page.waitForResponse((response) => new URL(response.url()).pathname === path && response.status() === 304);
  await Promise.all([isUnchanged("/topics/mail"), isUnchanged("/jobs"), tab.go("topics/mail")]);
  await tab.sees("first", { exact: true });
  await server.add({ topic: "mail", id: "second", delay: "2h" });
  await tab.sees("second", { exact: true });
  await Promise.all([isUnchanged("/jobs/first"), tab.go("jobs/first")]);
  await tab.heading("first").waitFor();
});

inBrowser("a server that does not answer is waited for in sight", {}, async ({ tab, page }) => {
  await tab.go();
  await tab.sees("Live");
  await page.route(/\/topics\?/, () => {});
  await tab.sees(/^Waiting \d s$/);
});

inBrowser("a page that is loaded later can be loaded again, and is there when the server is away", {}, async ({ server, tab, page }) => {
  await page.route("**/pages/bulk.js", (route) => route.abort());
  await tab.go("bulk");
  await tab.sees("The page was not loaded");
  await page.unroute("**/pages/bulk.js");
  await tab.button("Retry").click();
  await tab.sees("There are no bulk operations.");
  // The others were loaded meanwhile.
  await page.waitForFunction(() => performance.getEntriesByType("resource").some(({ name, responseEnd }) => name.endsWith("pages/server.js") && responseEnd > 0));
  await server.end();
  await tab.pressAtOnce("g", "s");
  await tab.heading("Processes").waitFor();
  await server.run();
});
