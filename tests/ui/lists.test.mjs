// Lists of jobs: their columns, counts and filters, and the way back to the place where one was left.
import assert from "node:assert/strict";
import { inBrowser, onEveryEngine } from "./harness.mjs";

const parameters = (page) => Object.fromEntries(new URLSearchParams(new URL(page.url()).hash.split("?")[1]));
/** Waits until the list has these jobs. */
const lists = (tab, expected) =>
  tab.until((text) => [...document.querySelectorAll(".list .id a")].map((link) => link.innerText).join() === text, expected.join());
const cells = (page, kind) => page.locator(`.list td.${kind}`).allInnerTexts();
const state = (page, name) => page.getByRole("navigation", { name: "State" }).getByRole("link", { name });
/** Jobs of the topic mail, each due a second after the one before. */
const laterJobs = (count) => Array.from({ length: count }, (_, n) => ({ topic: "mail", id: `job:${String(n).padStart(3, "0")}`, at: new Date(4e12 + n * 1000).toISOString() }));

onEveryEngine("reserved jobs are filtered by worker", {}, async ({ server, tab, page }) => {
  for (const [id, topic, worker] of [["a", "mail", "w-1"], ["b", "mail", "w-10"], ["c", "orders", "w-1"]]) {
    await server.add({ topic, id, ttr: `${id === "a" ? 1 : 2}h` });
    await server.call("POST", `topics/${topic}/pop?worker=${worker}`);
  }
  await tab.go("jobs");
  await state(page, "reserved 3").click();
  await tab.until(() => document.querySelectorAll(".list tbody tr").length === 3);
  assert.deepEqual((await cells(page, "worker")).sort(), ["w-1", "w-1", "w-10"]);
  await page.getByRole("row", { name: "orders" }).getByRole("link", { name: "w-1" }).click();
  await lists(tab, ["a", "c"]);
  assert.deepEqual(parameters(page), { state: "reserved", reserved_by: "w-1" });
  assert.equal(await page.getByLabel("Worker", { exact: true }).inputValue(), "w-1");
  await page.getByLabel("Topic", { exact: true }).fill("orders");
  await page.keyboard.press("Enter");
  await lists(tab, ["c"]);
  await tab.button("Delete all that match …").click();
  await tab.sees("All reserved jobs of orders that “w-1” has: 1 job.");
  await page.getByLabel("Enter 1 to confirm").fill("1");
  await tab.button("Delete 1 job").click();
  await tab.sees("done: 1 of 1 changed");
  assert.deepEqual([await server.job("c"), (await server.job("b")).state], [null, "reserved"]);
  await tab.go("topics/mail");
  await page.getByRole("link", { name: "w-10", exact: true }).click();
  await lists(tab, ["b"]);
  assert.deepEqual(parameters(page), { state: "reserved", topic: "mail", reserved_by: "w-10" });
  // A filter of another state has no worker.
  await state(page, "delayed 0").click();
  await tab.sees("No job matches. In mail: 2 reserved.");
  assert.deepEqual(parameters(page), { topic: "mail", state: "delayed" });
});

inBrowser("a list has columns, whose headings stay in sight", {}, async ({ server, tab, page }) => {
  await server.bury("mail", "d:1", `${"a long reason, ".repeat(20)}\nand its trace`);
  await server.add({ topic: "mail", id: "held", body: "x".repeat(2000), ttr: "1h", max_attempts: 3 });
  await server.call("POST", "topics/mail/pop?worker=w-1");
  await server.add({ topic: "orders", id: "r:1", max_attempts: 0 });
  await server.call("POST", "batch/jobs", { jobs: laterJobs(49) });
  await server.add({ topic: "mail", id: "long:".repeat(50), at: new Date(4e12 - 1000).toISOString() });
  for (const [target, expected, row] of [
    ["state=dead", ["Id", "Topic", "Died", "Attempts", "Reason", "Size"], /^d:1 mail (now|.* ago) 1 of 16 a long reason.* 4 bytes$/],
    ["state=dead&topic=mail", ["Id", "Died", "Attempts", "Reason", "Size"], /^d:1 (now|.* ago) 1 of 16 a long reason.* 4 bytes$/],
    ["state=reserved", ["Id", "Topic", "Reserved until", "Attempts", "Worker", "Size"], /^held mail in 5\d min \d+ s 1 of 3 w-1 2 KiB$/],
    ["state=ready", ["Id", "Topic", "Due", "Attempts", "Size"], /^r:1 orders .* 0 4 bytes$/],
    ["topic=mail", ["Id", "Due", "Attempts", "Size"], /^long:.* in .* 0 of 16 4 bytes$/],
  ]) {
    await page.setViewportSize({ width: 1440, height: 600 });
    await tab.go(`jobs?${target}`);
    await tab.until((headings) => [...document.querySelectorAll(".list thead th")].map((heading) => heading.innerText).join() === headings, ["Selected", ...expected].join());
    const shown = (await page.locator(".list tbody tr").first().locator("th, td").allInnerTexts()).map((text) => text.trim()).filter(Boolean);
    assert.match(shown.join(" "), row);
    for (const [width, tallest] of [[1440, 36], [1024, 36], [390, 62]]) {
      await page.setViewportSize({ width, height: 600 });
      const { height } = await page.locator(".list tbody tr").first().boundingBox();
      assert.ok(height <= tallest, `the row of ${target} is ${height} tall at ${width}`);
      await tab.check(`${target} at ${width}`);
    }
  }
  await page.setViewportSize({ width: 1440, height: 600 });
  const link = page.locator(".list .id a").first();
  assert.ok(await link.evaluate((link) => link.scrollWidth > link.clientWidth && link.title === "long:".repeat(50)), "the pointer shows the whole id");
  await page.locator(".list tbody tr").nth(40).scrollIntoViewIfNeeded();
  const { y } = await page.getByRole("columnheader", { name: "Due" }).boundingBox();
  const { height } = await page.locator(".top").boundingBox();
  assert.ok(y >= height && y < height + 5, `the heading is at ${y}`);
});

const SOME = { ops: ["--scope", "admin"], reads: ["--scope", "read", "--topic", "mail"] };
inBrowser("the states have the counts of the server", { tokens: SOME }, async ({ server, tab, page }) => {
  await server.call("POST", "batch/jobs", { jobs: laterJobs(60) });
  await server.add({ topic: "orders", id: "r:1" });
  const counts = () => page.getByRole("navigation", { name: "State" }).getByRole("link").allTextContents();
  const shows = (expected) => tab.until((expected) => [...document.querySelectorAll(".states a")].map((link) => link.textContent).join() === expected, expected.join());
  await tab.go("jobs");
  await page.getByLabel("Token").fill(server.tokens.ops);
  await tab.button("Sign in").click();
  await shows(["delayed 60", "ready 1", "reserved 0", "dead 0"]);
  await tab.heading("50 of 60").waitFor();
  await page.getByLabel("Topic", { exact: true }).fill("orders");
  await page.keyboard.press("Enter");
  await shows(["delayed 0", "ready 1", "reserved 0", "dead 0"]);
  await state(page, "ready").click();
  await lists(tab, ["r:1"]);
  await tab.heading("1").waitFor();
  // What is only a part has no count.
  await tab.go("jobs?topic=mail&id_prefix=job");
  await tab.heading("50 and more").waitFor();
  await tab.menu();
  await tab.button("Sign out").click();
  await tab.go("jobs?id_prefix=job");
  await page.getByLabel("Token").fill(server.tokens.reads);
  await tab.button("Sign in").click();
  await lists(tab, laterJobs(50).map(({ id }) => id));
  await shows(["delayed 60", "ready 0", "reserved 0", "dead 0"]);
  await page.route("**/topics/mail", (route) => route.fulfill({ status: 403, json: {} }));
  await page.reload();
  await lists(tab, laterJobs(50).map(({ id }) => id));
  assert.deepEqual(await counts(), ["delayed", "ready", "reserved", "dead"]);
});

inBrowser("the topic of a filter is suggested, and a search without one says that it takes longer", {}, async ({ server, tab, page }) => {
  for (const topic of ["mail", "mail.later", "orders"]) await server.add({ topic, id: topic, delay: "1h" });
  let answer = null;
  const isAsked = new Promise((resolve) => (answer = resolve));
  await tab.go("jobs");
  await lists(tab, ["mail", "mail.later", "orders"]);
  const field = page.getByLabel("Topic", { exact: true });
  const suggests = (names) => tab.until((names) => [...document.querySelectorAll("datalist option")].map((option) => option.value).join() === names, names.join());
  await field.focus();
  await suggests(["mail", "mail.later", "orders"]);
  await page.keyboard.type("mail.");
  await suggests(["mail.later"]);
  // New figures leave what is typed.
  const counted = () => page.waitForResponse((response) => response.url().endsWith("/stats"));
  await counted();
  await counted();
  assert.equal(await field.inputValue(), "mail.");
  await page.keyboard.type("later ");
  await page.keyboard.press("Enter");
  await lists(tab, ["mail.later"]);
  assert.deepEqual(parameters(page), { topic: "mail.later" });

  await page.route("**/jobs?*", async (route) => {
    if (route.request().url().includes("cursor")) await isAsked;
    await route.fulfill({ json: { jobs: [], examined: 20_000, next_cursor: "on" } });
  });
  const note = tab.text("All topics are searched. In one topic an id is found sooner.");
  await tab.go("jobs?topic=mail&id_prefix=o");
  await tab.sees("Searching: 20,000 jobs examined");
  assert.equal(await note.count(), 0);
  await tab.go("jobs?id_prefix=o");
  await note.waitFor();
  answer();
});

onEveryEngine("a topic shows the jobs that wait longest", {}, async ({ server, tab, page }) => {
  await server.call("POST", "batch/jobs", { jobs: [{ topic: "mail", id: "second", delay: "1s" }, { topic: "mail", id: "first" }] });
  await tab.go("topics/mail");
  const card = page.locator("section.card", { has: page.getByRole("heading", { name: "Waiting longest" }) });
  await card.getByRole("link", { name: "second" }).waitFor();
  for (let n = 0; n < 19; n += 1) await server.add({ topic: "mail", id: `later-${n}` });
  await card.getByRole("link", { name: "later-17" }).waitFor();
  const shown = await card.locator("a.mono").allInnerTexts();
  assert.deepEqual([shown.length, ...shown.slice(0, 2)], [20, "first", "second"], "the second one was added first");
  await card.getByText(/^for \d+ s$/).first().waitFor();
  await tab.check("the topic");
  await card.getByRole("link", { name: "All" }).click();
  await tab.until(() => location.hash === "#/jobs?state=ready&topic=mail");
  // Redis has many jobs in their order only about.
  await page.route("**/topics/mail", async (route) => {
    const response = await route.fetch({ headers: {} });
    const view = await response.json();
    await route.fulfill({ json: { ...view, counts: { ...view.counts, ready: 1_001 } } });
  });
  const about = card.getByText("About: Redis keeps many ready jobs in the order of their due times only roughly.");
  const version = page.waitForResponse(/\/version$/);
  await tab.go("topics/mail");
  await version;
  if (server.redis) await about.waitFor();
  await card.getByRole("link", { name: "first" }).waitFor();
  assert.equal(await about.count(), server.redis ? 1 : 0);
});

inBrowser("the way back leads to the place where a list was left", {}, async ({ server, tab, page }) => {
  const all = laterJobs(120).map(({ id }) => id);
  await server.call("POST", "batch/jobs", { jobs: laterJobs(120) });
  await tab.go("jobs?topic=mail");
  await lists(tab, all.slice(0, 50));
  await tab.button("Show more").click();
  await lists(tab, all.slice(0, 100));
  for (const id of ["job:070", "job:072"]) await page.getByLabel(`Select ${id}`).check();
  await tab.sees("2 selected");
  const link = page.getByRole("link", { name: "job:075" });
  await link.scrollIntoViewIfNeeded();
  const { y } = await link.boundingBox();
  await link.click();
  await tab.heading("job:075").waitFor();
  await server.call("DELETE", "jobs/job:099");
  await page.goBack();
  await lists(tab, all.slice(0, 100));
  await tab.sees("2 selected");
  const again = await link.boundingBox();
  assert.ok(Math.abs(again.y - y) <= 2, `the row was at ${y} and is at ${again.y}`);
  assert.equal(await page.evaluate(() => document.activeElement.innerText), "job:075");
  // A row that is half behind the header would be too small a target.
  await page.evaluate(() => scrollTo(0, 0));
  await tab.check("the list as it was left");
  // The range goes on from the row that was selected last.
  await page.getByLabel("Select job:074").click({ modifiers: ["Shift"] });
  await tab.sees("4 selected");
  await tab.sees("These rows are as you left them.");
  await tab.button("Read now").click();
  await lists(tab, all.slice(0, 50));
  assert.equal(await tab.text("These rows are as you left them.").count(), 0);

  // The first page alone is read again. A row that is gone stays while its list has the focus.
  await page.getByRole("link", { name: "job:040" }).click();
  await tab.heading("job:040").waitFor();
  await server.call("DELETE", "jobs/job:000");
  await page.goBack();
  await tab.sees("no longer delayed");
  await lists(tab, all.slice(0, 51));
  const offset = await page.evaluate(() => scrollY);
  assert.ok(offset > 500, `the page is at ${offset}`);

  // A new visit begins at the top.
  await page.getByRole("link", { name: "job:040" }).click();
  await tab.heading("job:040").waitFor();
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Jobs" }).click();
  await lists(tab, all.slice(1, 51));
  assert.equal(await page.evaluate(() => scrollY), 0);
});

inBrowser("another token does not see the list that was left", { tokens: SOME }, async ({ server, tab, page }) => {
  await server.add({ topic: "orders", id: "secret", delay: "1h" });
  const signIn = async (name) => {
    await page.getByLabel("Token").fill(server.tokens[name]);
    await tab.button("Sign in").click();
  };
  await tab.go("jobs?topic=orders");
  await signIn("ops");
  await page.getByRole("link", { name: "secret" }).click();
  await tab.heading("secret").waitFor();
  await tab.menu();
  await tab.button("Sign out").click();
  await page.getByLabel("Token").waitFor();
  // What its call answers comes late.
  let answer = null;
  const isRead = new Promise((resolve) => (answer = resolve));
  await page.route("**/jobs?*", (route) => isRead.then(() => route.continue()));
  await page.goBack();
  await signIn("reads");
  await tab.heading("Jobs").waitFor();
  await tab.sees("Loading the jobs");
  assert.equal(await page.getByRole("link", { name: "secret" }).count(), 0);
  answer();
  await tab.sees("this token is not for this topic");
});

inBrowser("few places are kept, and not for long", {}, async ({ tab, page }) => {
  await tab.go();
  const kept = await page.evaluate(async () => {
    const { entryName, keep, recalled } = await import("./js/place.js");
    const name = entryName();
    const found = [recalled()];
    keep(name, "here");
    found.push(entryName() === name, recalled());
    const now = Date.now;
    Date.now = () => now() + 600_001;
    found.push(recalled());
    Date.now = now;
    for (let n = 0; n < 4; n += 1) keep(`other ${n}`, n);
    found.push(recalled());
    keep("one more", 5);
    found.push(recalled());
    return found.map((value) => value ?? "nothing");
  });
  assert.deepEqual(kept, ["nothing", true, "here", "nothing", "here", "nothing"]);
});
