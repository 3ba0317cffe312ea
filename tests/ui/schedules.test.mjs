// Recurring jobs: what the pages say of them, and what can be done with them.
import assert from "node:assert/strict";
import { inBrowser, onEveryEngine } from "./harness.mjs";
import { words } from "../../ui/js/cron.js";

const NIGHTLY = { cron: "30 2 * * *", time_zone: "Europe/Berlin", job: { topic: "reports", body: { kind: "nightly" } } };

onEveryEngine("a schedule is listed, run, paused, changed and deleted", {}, async ({ server, tab, page }) => {
  await server.call("PUT", "schedules/nightly", NIGHTLY);
  await server.call("PUT", "schedules/often", { every: "15m", job: { topic: "stock" } });
  await tab.go("schedules");
  const cells = (name) => page.getByRole("row").filter({ hasText: name }).getByRole("cell").allInnerTexts();
  await tab.sees("at 02:30 every day");
  const [rule, next, topic, runs] = await cells("nightly");
  assert.deepEqual([rule, topic, runs], ["at 02:30 every day Europe/Berlin", "reports", "0"]);
  assert.match(next, /^in /);
  assert.equal((await cells("often"))[0], "every 15 min");
  await tab.check("the list");
  await page.getByRole("link", { name: "nightly", exact: true }).click();
  await tab.heading("Next runs").waitFor();
  await tab.until(() => document.querySelectorAll(".runs li").length === 10);
  await tab.sees(/Clocks skip 20\d\d-03-\d\d 02:30:00: that run is at/);
  await tab.sees(/Clocks repeat 20\d\d-10-\d\d 02:30:00: that run is at/);
  await tab.sees('"nightly"');
  await tab.check("a schedule");
  await tab.button("Run now").click();
  await tab.sees(/Added run:nightly:/);
  assert.equal((await server.call("GET", "topics/reports")).counts.ready, 1);
  await tab.button("Pause").click();
  await tab.sees("nightly is paused.");
  await tab.sees("It is paused. Without that, it would run:");
  await tab.button("Resume").click();
  await tab.sees("nightly is running again.");
  await tab.button("Change …").click();
  await page.getByLabel("Pattern").fill("15 9-17 * * MON-FRI");
  await tab.sees("every hour from 09:15 to 17:15, Monday to Friday");
  await page.locator("dialog .runs li").nth(4).waitFor();
  await tab.check("the dialog");
  await tab.button("Save").click();
  await tab.sees("nightly is changed.");
  const changed = await server.call("GET", "schedules/nightly");
  assert.deepEqual([changed.cron, changed.time_zone, changed.revision], ["15 9-17 * * MON-FRI", "Europe/Berlin", 4]);
  await tab.button("Delete …").click();
  await tab.button("Delete").click();
  await tab.heading("Schedules").waitFor();
  await tab.until(() => document.querySelectorAll("tbody tr").length === 1);
});

inBrowser("a new schedule is checked while it is typed, and saved as it was written", {}, async ({ server, tab, page }) => {
  await tab.go("schedules");
  await tab.sees("There are no schedules.");
  await tab.button("New schedule …").click();
  const save = tab.button("Save");
  await page.getByLabel("Name").fill("orders");
  assert.equal(await page.getByLabel("Job of each run").inputValue(), '{"topic": "orders", "body": {}}');
  await page.getByLabel("Pattern").fill("61 * * * *");
  await tab.sees(/cron .*61/);
  assert.ok(await save.isDisabled(), "a wrong pattern cannot be saved");
  await page.getByLabel("Pattern").fill("*/20 8-18 * * *");
  await page.getByLabel("Zone").fill("Europe/Berlinn");
  await tab.sees("did you mean Europe/Berlin?");
  await page.getByLabel("Zone").fill("Europe/Berlin");
  await page.getByLabel("Job of each run").fill('{"topic": "orders", "body": 9007199254740993');
  await tab.sees("This is not a JSON object.");
  await page.getByLabel("Job of each run").fill('{"topic": "orders", "body": 9007199254740993}');
  await tab.sees("every 20 minutes from 08:00 to 18:40");
  await page.locator("dialog .runs li").nth(4).waitFor();
  assert.deepEqual((await server.call("GET", "schedules")).schedules, [], "nothing is made before it is saved");
  await save.click();
  await tab.heading("orders").waitFor();
  await tab.sees("9007199254740993");
  // Of two people who change it, the second is told.
  await tab.button("Change …").click();
  await server.call("PUT", "schedules/orders", NIGHTLY);
  await page.getByLabel("Pattern").fill("0 7 * * *");
  await page.locator("dialog .runs li").nth(4).waitFor();
  await save.click();
  await tab.sees(/revision/);
  assert.equal((await server.call("GET", "schedules/orders")).cron, NIGHTLY.cron);
});

inBrowser("a schedule whose callback has headers keeps them", {}, async ({ server, tab }) => {
  const callback = { url: "http://127.0.0.1:8080/hook", headers: { "x-key": "secret" } };
  await server.call("PUT", "schedules/called", { every: "1h", job: { topic: "t", callback } });
  await tab.go("schedules/called");
  await tab.sees("whose values are not shown here");
  await tab.button("Delete …").waitFor();
  assert.equal(await tab.button("Change …").count(), 0);
});

const READER = { tokens: { reader: ["--scope", "read"] } };
inBrowser("a token that may only read shows schedules and changes none", READER, async ({ server, tab, page }) => {
  await tab.go("schedules");
  await page.getByLabel("Token").fill(server.token);
  const rights = page.waitForResponse((response) => response.url().endsWith("/whoami") && response.ok());
  await page.keyboard.press("Enter");
  await (await rights).finished();
  await tab.sees("There are no schedules.");
  assert.equal(await tab.button("New schedule …").count(), 0);
});

inBrowser("patterns of cron have words if few are needed", {}, async () => {
  for (const [pattern, said] of [
    ["@daily", "at 00:00 every day"],
    ["30 9 * * MON-FRI", "at 09:30, Monday to Friday"],
    ["0 9,12,18 * * *", "at 09:00, 12:00 and 18:00 every day"],
    ["*/15 9-17 * * 1-5", "every 15 minutes from 09:00 to 17:45, Monday to Friday"],
    ["* 8-9 * * *", "every minute from 08:00 to 09:59"],
    ["5 */6 * * *", "every 6 hours at :05"],
    ["0 6 1,15 * *", "at 06:00 on day 1 and 15 of every month"],
    ["0 8 * 6-8 SUN", "at 08:00 on Sunday from June to August"],
    ["0 8 * * 5-7", "at 08:00, Friday to Sunday"],
    ["0 0 1 jan *", "at 00:00 on day 1 in January"],
    ["*/1 * * * *", "every minute"],
    ["0 */1 * * *", "every hour at :00"],
    ["0 0 31 * *", null],
    ["constructor", null],
    ["0 12 13 * FRI", null],
    ["*/7 * * * *", null],
    ["0 0 9 * * *", null],
    ["0 9 * * MON#1", null],
    ["0 9 L * *", null],
    ["0 9 * 13 *", null],
    ["", null],
  ]) {
    assert.equal(words(pattern), said, pattern);
  }
});
