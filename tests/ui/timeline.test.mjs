// The timeline: its counts, its navigation by keyboard, mouse and address, and how often it polls the server.
import assert from "node:assert/strict";
import { alter, inBrowser, onEveryEngine } from "./harness.mjs";

const MINUTE = 60_000;
const chart = (page) => page.getByRole("slider", { name: "Timeline" });
const readout = (page) => page.locator(".readout p");
const after = (minutes) => new Date(Date.now() + minutes * MINUTE).toISOString();

/** Waits until the readout, which a screen reader hears as well, has this text. */
async function reads(tab, text) {
  await tab.until((text) => document.querySelector(".readout p")?.innerText === text, text).catch(async (error) => {
    throw new Error(`the readout is not “${text}” but “${await readout(tab.page).innerText()}”: ${error.message}`);
  });
  assert.equal(await chart(tab.page).getAttribute("aria-valuetext"), text);
}

const parameters = (page) => Object.fromEntries(new URLSearchParams(new URL(page.url()).hash.split("?")[1]));

/** One overdue job, five in this hour of two topics, one in five hours and one in two years. */
async function fill(server) {
  const [soon, later] = [after(10.5), after(40)];
  await server.add({ topic: "orders" });
  for (let n = 0; n < 3; n += 1) await server.add({ topic: "mail", at: soon });
  await server.add({ topic: "orders", at: soon });
  await server.add({ topic: "orders", at: later });
  await server.add({ topic: "mail", at: after(300) });
  await server.add({ topic: "mail", at: after(2 * 366 * 24 * 60) });
}

onEveryEngine("the timeline counts what is due, and says what is near", {}, async ({ server, tab, page }) => {
  await fill(server);
  await server.add({ topic: "quiet", at: after(300) });
  await tab.go();
  await reads(tab, "5 in the next hour; 3 later; 1 overdue.");
  assert.equal(await page.locator(".chart .due").count(), 2);
  await server.add({ topic: "orders", at: after(20) });
  await reads(tab, "6 in the next hour; 3 later; 1 overdue.");
  const ranges = [["24 h", "24h", "8 in the next 24 hours; 1 later; 1 overdue."], ["7 d", "7d", "8 in the next 7 days; 1 later; 1 overdue."],
    ["30 d", "30d", "8 in the next 30 days; 1 later; 1 overdue."], ["1 y", "1y", "8 in the next year; 1 later; 1 overdue."],
    ["10 y", "10y", "9 in the next 10 years; 1 overdue."]];
  for (const [label, range, text] of ranges) {
    const asked = page.waitForRequest((request) => request.url().includes("/timeline?"));
    await page.getByRole("link", { name: label, exact: true }).click();
    await reads(tab, text);
    assert.equal(parameters(page).range, range);
    const { searchParams } = new URL((await asked).url());
    assert.ok(Number.parseInt(searchParams.get("span")) / Number.parseInt(searchParams.get("step")) <= 120, label);
  }
  await page.reload();
  await reads(tab, "9 in the next 10 years; 1 overdue.");
  await page.goBack();
  await reads(tab, "8 in the next year; 1 later; 1 overdue.");

  await tab.go("topics/quiet");
  await reads(tab, "None in the next hour; 1 later.");
  await tab.go("topics/mail?range=24h");
  await reads(tab, "4 in the next 24 hours; 1 later.");
  await page.keyboard.press("t");
  const rows = page.getByRole("region", { name: "Table of the timeline" }).getByRole("row");
  await rows.first().waitFor();
  const cells = await rows.evaluateAll((found) => found.slice(1).map((row) => [...row.cells].map((cell) => cell.innerText)));
  assert.deepEqual(cells.map(([, jobs]) => jobs), ["0", "3", "1", "1"]);
  assert.deepEqual([cells[0][0], cells.at(-1)[0]], ["Overdue", "Later"]);
  assert.match(cells[1][0], /^\w{3} \d+ \w+, \d\d:\d\d\W+(\w{3} \d+ \w+, )?\d\d:\d\d$/);
  assert.equal(parameters(page).table, "1");
});

inBrowser("the keyboard moves, selects, zooms and goes back", {}, async ({ server, tab, page }) => {
  await fill(server);
  await tab.go();
  await reads(tab, "5 in the next hour; 2 later; 1 overdue.");
  const press = (key) => page.keyboard.press(key);
  await chart(page).focus();
  await press("ArrowRight");
  await tab.until(() => document.querySelector(".readout strong"));
  const bar = async () => (await readout(page).innerText()).replace(/^.*\d\d:\d\d /, "");
  assert.equal(await bar(), "4 jobs; mail 3, orders 1");
  await press("ArrowRight");
  await tab.until(() => document.querySelector(".readout p").innerText.endsWith(" 0 jobs"));
  await press("ArrowLeft");
  await press("Shift+ArrowLeft");
  await press("Shift+ArrowLeft");
  await page.locator(".selected").waitFor();
  await press("Enter");
  await reads(tab, "4 in this time; 3 before and after; 1 overdue.");
  assert.equal(parameters(page).span, "3m");
  assert.equal(await page.locator(".chart .due").count(), 1);
  await press("End");
  await reads(tab, "Before and after 3 jobs; mail 2, orders 1");
  await press("Backspace");
  await reads(tab, "5 in the next hour; 2 later; 1 overdue.");
  await press("Home");
  await reads(tab, "Overdue 1 job; orders 1");
  await press("End");
  await reads(tab, "Later 2 jobs; mail 2");
  await press("Enter");
  await reads(tab, "6 in the next 24 hours; 1 later; 1 overdue.");
  assert.deepEqual(parameters(page), { range: "24h" });
  await press("ArrowRight");
  await press("Escape");
  await reads(tab, "6 in the next 24 hours; 1 later; 1 overdue.");
  await press("Backspace");
  await reads(tab, "5 in the next hour; 2 later; 1 overdue.");
});

inBrowser("the mouse shows, selects and zooms", {}, async ({ server, tab, page }) => {
  await fill(server);
  await tab.go("topics/orders?range=24h");
  await reads(tab, "2 in the next 24 hours; 1 overdue.");
  const boxes = async () => Promise.all((await page.locator(".chart .due").all()).map((bar) => bar.boundingBox()));
  const first = (await boxes())[0];
  const [x, y] = [first.x + first.width / 2, first.y + first.height - 1];
  await page.mouse.move(x, y);
  await tab.until(() => document.querySelector(".readout p").innerText.endsWith(" 1 job") || document.querySelector(".readout p").innerText.endsWith(" 2 jobs"));
  await page.mouse.move(x, y - 400);
  await reads(tab, "2 in the next 24 hours; 1 overdue.");
  await page.mouse.move(x - 2 * first.width, y);
  await page.mouse.down();
  await page.mouse.move(x + 6 * first.width, y, { steps: 4 });
  await page.mouse.up();
  await page.locator(".selected").waitFor();
  assert.match(await readout(page).innerText(), / 2 jobs$/);
  await tab.button("Clear").click();
  await reads(tab, "2 in the next 24 hours; 1 overdue.");
  await page.mouse.click(x, y);
  await tab.until(() => location.hash.includes("span=15m"));
  await tab.until(() => document.querySelector(".readout p").innerText.includes("in this time"));
  await tab.button("Back").click();
  await reads(tab, "2 in the next 24 hours; 1 overdue.");
});

inBrowser("a tap on a bar leads to its jobs, and a selection shows them first", { tab: { width: 390, hasTouch: true } }, async ({ server, tab, page }) => {
  await fill(server);
  await tab.go("topics/mail");
  await reads(tab, "3 in the next hour; 2 later.");
  const actions = () => page.locator(".readout .actions").evaluate((found) => [...found.children].map((one) => one.innerText));
  assert.deepEqual(await actions(), ["Zoom in", "Back"]);
  const tap = async (place) => {
    await place.scrollIntoViewIfNeeded();
    const { x, y, width, height } = await place.boundingBox();
    await page.touchscreen.tap(x + width / 2, y + height / 2);
  };
  for (const range of ["1h", "24h", "10y"]) {
    await tab.go(`topics/mail?range=${range}`);
    await page.locator(`nav [aria-current][href*="range=${range}"]`).waitFor();
    await tab.until(() => document.querySelector(".chart:not(.stale) .due"));
    await tap(page.locator(".chart .due").first());
    await tap(page.getByRole("link", { name: "Show jobs" }));
    await tab.heading("Jobs").waitFor();
    assert.equal(parameters(page).state, "delayed", range);
    await page.locator("[data-row]").first().waitFor();
  }
  await tab.go("topics/mail");
  await reads(tab, "3 in the next hour; 2 later.");
  await tap(page.locator(".chart .outside"));
  await reads(tab, "Later 2 jobs");
  await tap(page.getByRole("link", { name: "Show jobs" }));
  await tab.until(() => document.querySelectorAll("[data-row]").length === 2);
  await tab.go("topics/mail");
  await reads(tab, "3 in the next hour; 2 later.");
  await chart(page).focus();
  for (const key of ["ArrowRight", "Shift+ArrowRight"]) await page.keyboard.press(key);
  await page.locator(".selected").waitFor();
  assert.deepEqual(await actions(), ["Show jobs", "Reschedule …", "Delete …", "Clear", "Zoom in", "Back"]);
});

inBrowser("jobs are a warning once they are overdue for a minute", {}, async ({ server, tab, page }) => {
  await fill(server);
  let waited = 10_000;
  await page.route(/topics\?sort=overdue$/, (route) => alter(route, (list) => ({
    ...list, topics: list.topics.map((view) => ({ ...view, oldest_overdue_at: view.oldest_overdue_at && new Date(Date.now() - waited).toISOString() })),
  })));
  await tab.go();
  await page.locator(".chart .overdue:not(.late)").waitFor();
  waited = 70_000;
  await page.locator(".chart .overdue.late").waitFor();
});

inBrowser("a chart that is not shown keeps its width", {}, async ({ server, tab, page }) => {
  await fill(server);
  await tab.go();
  await reads(tab, "5 in the next hour; 2 later; 1 overdue.");
  const width = () => page.locator(".chart svg").getAttribute("width");
  const before = await width();
  await page.evaluate(() => (document.querySelector(".timeline").style.display = "none"));
  await server.add({ topic: "orders", at: after(20) });
  await tab.until(() => document.querySelector(".readout p").textContent.startsWith("6 "));
  assert.equal(await width(), before);
});

inBrowser("single high bars change the scale", {}, async ({ server, tab, page }) => {
  const at = [after(20), after(30), after(40)];
  const jobs = at.flatMap((at, n) => Array.from({ length: n === 0 ? 200 : 2 }, () => ({ topic: "mail", at })));
  await server.call("POST", "batch/jobs", { jobs });
  await tab.go();
  await page.locator(".chart .due").nth(2).waitFor();
  const heights = () => page.locator(".chart .due").evaluateAll((bars) => bars.map((bar) => bar.getBBox().height));
  const log = tab.button("Log");
  assert.equal(await log.getAttribute("aria-pressed"), "true");
  const high = (await heights())[1];
  assert.ok(high > 20, `${high}`);
  await log.click();
  await tab.until(() => location.hash.includes("scale=linear"));
  await page.getByRole("button", { name: "Log", pressed: false, exact: true }).waitFor();
  assert.ok((await heights())[1] < high / 4);
});

inBrowser("a near timeline is read every 2 s, a far one every 30 s", {}, async ({ server, tab, page }) => {
  await fill(server);
  await page.clock.install();
  await tab.watchCalls("/timeline?");
  for (const [range, seconds] of [["24h", 2], ["7d", 30]]) {
    await tab.go("nowhere");
    await tab.heading("No such page").waitFor();
    await page.evaluate(() => window.calls.splice(0));
    await tab.go(`topics/mail?range=${range}`);
    await tab.until(() => window.calls[0]?.ended);
    // Far enough ahead that the moment has not passed when it arrives, however busy the machine is.
    await page.clock.pauseAt((await page.evaluate(() => Date.now())) + 10_000);
    const first = await page.evaluate(() => window.calls.length);
    for (let n = first; n < first + 2; n += 1) {
      await tab.until((n) => window.calls[n - 1].ended, n);
      await page.clock.runFor(seconds * 1000);
      await tab.until((n) => window.calls[n], n);
      const pause = await page.evaluate((n) => window.calls[n].began - window.calls[n - 1].ended, n);
      assert.ok(pause >= seconds * 1000 && pause < seconds * 1000 + 500, `${range} was read after ${pause} ms`);
    }
    await page.clock.resume();
  }
});

onEveryEngine("the topics with most jobs have colours", {}, async ({ server, tab, page }) => {
  const at = after(10.5);
  const add = (topic, count) => server.call("POST", "batch/jobs", { jobs: Array.from({ length: count }, () => ({ topic, at })) });
  for (const [n, topic] of ["a", "b", "c", "d", "e", "f"].entries()) await add(topic, 8 - n);
  await tab.go();
  await tab.until(() => document.querySelectorAll(".legend li").length >= 5);
  const legend = () => page.locator(".legend li").evaluateAll((found) => found.map((one) => one.innerText.trim()).slice(0, 5));
  const parts = () => page.locator(".chart .due rect").evaluateAll((found) => found.map((part) => [part.getAttribute("class"), part.getBBox().height]));
  assert.deepEqual(await legend(), ["a", "b", "c", "d", "others"]);
  const heights = (await parts()).map(([, height]) => height);
  assert.deepEqual((await parts()).map(([name]) => name), ["topic-1", "topic-2", "topic-3", "topic-4", "others"]);
  // 33 jobs below a line of 40.
  for (const [n, jobs] of [8, 7, 6, 5, 7].entries()) assert.ok(Math.abs(heights[n] - (150 * jobs) / 40) < 0.5, `${heights}`);
  await add("f", 20);
  await tab.until(() => document.querySelector(".legend").innerText.includes("f"));
  assert.deepEqual(await legend(), ["a", "b", "c", "f", "others"], "the others keep their colours");
  await tab.check("the timeline with colours");
  await page.locator(".legend").getByRole("link", { name: "f" }).click();
  await reads(tab, "23 in the next hour.");
  assert.deepEqual([await page.locator(".legend").count(), (await parts()).length], [0, 1], "one topic has one colour");
});

inBrowser("the past of an hour is beside what is to come", {}, async ({ server, tab, page }) => {
  await fill(server);
  // The minute does not turn: the cursor stays at its moment, and would be at another bar then. 3 jobs came due in each minute and 2
  // were delivered. The server has run for five minutes.
  let present = null;
  const ago = (minutes) => new Date(present - minutes * MINUTE).toISOString();
  await page.route(/timeline\?.*span=60m/, (route) => {
    const url = new URL(route.request().url());
    present ??= Date.parse(url.searchParams.get("from"));
    url.searchParams.set("from", ago(0));
    return route.continue({ url: url.href });
  });
  await page.route(/stats\?by=minute$/, (route) => alter(route, ({ minutes, processes, ...stats }) => {
    present ??= Date.parse(minutes.from) + 60 * MINUTE;
    const all = (count) => minutes.due.map(() => count);
    const started_at = new Date(present - 5 * MINUTE + 1).toISOString();
    return { ...stats, minutes: { ...minutes, from: ago(60), due: all(3), delivered: all(2) }, processes: processes.map((one) => ({ ...one, started_at })) };
  }));
  await tab.go();
  await reads(tab, "5 in the next hour; 2 later; 1 overdue.");
  await page.locator(".chart .came").nth(4).waitFor();
  assert.deepEqual([await page.locator(".chart .came").count(), await page.locator(".chart .unknown").count()], [5, 1]);
  const legend = await page.locator(".legend li").evaluateAll((found) => found.map((one) => one.innerText.trim()));
  assert.deepEqual(legend, ["mail", "orders", "came due", "delivered", "not known"]);
  await tab.check("the timeline with its past");
  const value = (name) => chart(page).getAttribute(`aria-value${name}`).then(Number);
  assert.deepEqual([await value("min"), await value("max")], [-13, 60]);
  await chart(page).focus();
  const press = (key) => page.keyboard.press(key);
  const says = (text) => tab.until((text) => document.querySelector(".readout p").innerText.endsWith(text), text);
  await press("Home");
  await reads(tab, "Overdue 1 job; orders 1");
  await press("ArrowRight");
  await says(" not known: no server ran yet");
  assert.equal(await value("now"), -12);
  for (let n = 0; n < 11; n += 1) await press("ArrowRight");
  await says(" 3 jobs came due, 2 delivered");
  assert.equal(await page.getByRole("link", { name: "Show jobs" }).count(), 0, "these jobs are no longer delayed");
  await press("ArrowRight");
  await says(" 0 jobs");
  // A selection is of jobs to come.
  await press("ArrowLeft");
  await press("Shift+ArrowLeft");
  await page.locator(".selected").waitFor();
  assert.equal(await value("now"), 0);
  await press("Escape");
  await press("t");
  const rows = page.getByRole("region", { name: "Table of the timeline" }).getByRole("row");
  await rows.nth(13).waitFor();
  const cells = await rows.evaluateAll((found) => found.slice(0, 14).map((row) => [...row.cells].slice(1).map((cell) => cell.innerText)));
  assert.deepEqual([cells[0], cells[1], cells[2], cells[13]], [["Jobs", "Delivered"], ["1", ""], ["?", "?"], ["3", "2"]]);
  for (const [range, bars] of [["24h", 1], ["7d", 0]]) {
    await tab.go(`?range=${range}`);
    await page.locator(`nav [aria-current][href*="range=${range}"]`).waitFor();
    await tab.until(() => document.querySelector(".chart:not(.stale) .due"));
    assert.deepEqual([await page.locator(".chart .came").count(), await page.locator(".chart .now").count()], [bars, bars], range);
  }
  await tab.go("topics/mail");
  await reads(tab, "3 in the next hour; 2 later.");
  assert.equal(await page.locator(".chart .now").count(), 0, "the past of one topic is not known");
});

onEveryEngine("the topics of the timeline are a table", {}, async ({ server, tab, page }) => {
  await fill(server);
  for (let n = 0; n < 8; n += 1) for (const delay of [1, 1, 1, 1, 1, 1]) await server.add({ topic: `many-${n}`, at: after(120 + delay) });
  await tab.go();
  await tab.button("By topic").click();
  const rows = () => page.getByRole("region", { name: "The timeline by topic" }).locator("tbody tr").evaluateAll((rows) => rows.map((row) => row.innerText.split(/\s+/).join(" ")));
  await tab.until(() => document.querySelectorAll("[aria-label='The timeline by topic'] tbody tr").length === 9);
  const found = await rows();
  assert.deepEqual([found[0], found[8]], ["many-0 0 6 0", "others 5 2 1"]);
  assert.equal(parameters(page).topics, "1");
  await tab.check("the timeline by topic");
  await tab.go("topics/mail?topics=1");
  await reads(tab, "3 in the next hour; 2 later.");
  assert.equal(await tab.button("By topic").count(), 0, "one topic has no others");
});
