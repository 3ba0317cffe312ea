// Dead letters: of all topics and of one, over time, and replayed a few first.
import assert from "node:assert/strict";
import { alter, inBrowser, onEveryEngine } from "./harness.mjs";

const groupsOf = (page) => page.locator(".group").evaluateAll((rows) =>
  rows.map((row) => [row.querySelector("strong").innerText, row.querySelector(".reason a").innerText, row.querySelector("a.mono").innerText]));

/** Replays 10 of the 12 dead letters `m-0` to `m-11`. */
async function replayFew(tab, page) {
  await page.getByRole("button", { name: "Replay 10 first “http # from psp”" }).click();
  await tab.sees("The first 10 of all dead jobs of mail whose reasons begin with “http 503 from psp”: 12 jobs.");
  assert.equal(await page.getByLabel("Spread over").count(), 0, "ten need no spread");
  await tab.button("Replay 10 jobs").click();
  await tab.sees("10 replayed.");
}

onEveryEngine("dead letters of all topics are grouped, and a few are replayed first", {}, async ({ server, tab, page }) => {
  for (let n = 0; n < 12; n += 1) await server.bury("mail", `m-${n}`, "http 503 from psp");
  await server.bury("orders", "o", "timed out");
  await tab.go();
  await page.getByRole("link", { name: "Dead letters 13", exact: true }).waitFor();
  await tab.pressAtOnce("g", "d");
  await tab.until(() => location.hash === "#/dead");
  await tab.sees("of 13 dead letters");
  assert.deepEqual(await groupsOf(page), [["12", "http # from psp", "mail"], ["1", "timed out", "orders"]]);
  assert.equal(await page.getByRole("button", { name: "Replay 10 first “timed out”" }).count(), 0, "there are no ten");
  const died = await page.locator(".deaths title").evaluateAll((titles) => titles.map(({ textContent }) => parseInt(textContent, 10)));
  assert.equal(died.reduce((sum, number) => sum + number, 0), 13);

  await replayFew(tab, page);
  const row = (id) => page.locator(".job", { has: page.getByRole("link", { name: id, exact: true }) });
  for (let n = 0; n < 10; n += 1) await row(`m-${n}`).getByText("ready", { exact: true }).waitFor();
  assert.equal(await row("m-10").count(), 0);
  for (const end of ["bury", "finish"]) {
    const { id, receipt } = await server.call("POST", "topics/mail/pop");
    await server.call("POST", `jobs/${id}/${end}`, end === "bury" ? { receipt, reason: "http 503 from psp" } : { receipt });
    await row(id).getByText(end === "bury" ? "dead" : "finished", { exact: true }).waitFor();
  }
  await tab.button("Replay the other 2 …").click();
  await tab.sees("whose reasons begin with “http 503 from psp”: 2 jobs.");
  await tab.button("Replay 2 jobs").click();
  await tab.sees("done: 2 of 2 changed");
  const { counts } = await server.call("GET", "topics/mail");
  assert.deepEqual([counts.dead, counts.ready], [1, 10], "what died again is not replayed again");
});

inBrowser("a reason leads to the dead letters of its topic", {}, async ({ server, tab, page }) => {
  await server.bury("mail", "one", "KeyError: amount");
  await server.bury("mail", "two", "timed out");
  await server.bury("orders", "three", "timed out");
  await tab.go("dead");
  await tab.sees("of 3 dead letters");
  const focused = () => page.evaluate(() => document.activeElement.closest("[data-row]")?.innerText.match(/mail|orders/)[0]);
  for (const [key, expected] of [["j", "mail"], ["j", "mail"], ["j", "orders"], ["k", "mail"]]) {
    await page.keyboard.press(key);
    assert.equal(await focused(), expected, key);
  }
  await page.locator(".group", { hasText: "orders" }).getByRole("link", { name: "timed out" }).click();
  await tab.sees("Only those whose reason begins with");
  await page.getByRole("link", { name: "three", exact: true }).waitFor();
  assert.ok(page.url().includes("#/topics/orders/dead?"));
  assert.equal(await page.locator(".top [aria-current]").textContent(), "Dead letters 3");
});

inBrowser("the count of dead letters is read on every page", {}, async ({ server, tab, page }) => {
  await server.bury("mail", "one", "no");
  await page.clock.install();
  await tab.watchCalls("/stats");
  await page.route("**/stats", (route) => alter(route, (stats) => ({ ...stats, counts: { ...stats.counts, dead: 0 } })));
  await tab.go("jobs/one");
  await tab.until(() => window.calls[0]?.ended);
  await page.getByRole("link", { name: "Dead letters", exact: true }).waitFor();
  await page.unroute("**/stats");
  await page.clock.fastForward(31_000);
  await page.getByRole("link", { name: "Dead letters 1", exact: true }).waitFor();
});

inBrowser("a stack trace is folded to two lines", {}, async ({ server, tab, page }) => {
  const trace = Array.from({ length: 12 }, (_, n) => `  at step${"abcdefghijkl"[n]} (payment.js)`).join("\n");
  await server.bury("mail", "one", `TypeError: amount is undefined\n${trace}`);
  await server.bury("mail", "two", "timed out");
  for (const target of ["dead", "topics/mail/dead"]) {
    await tab.go(target);
    const reason = page.locator(".group .reason", { hasText: "TypeError" });
    await tab.button("All lines").waitFor();
    const height = async () => (await reason.boundingBox()).height;
    assert.equal(await height(), 40, target);
    await tab.button("All lines").click();
    await tab.button("Two lines").waitFor();
    assert.equal(await height(), 260, target);
    await tab.button("Two lines").click();
    await tab.button("All lines").waitFor();
    assert.equal(await height(), 40, target);
    await page.goto("about:blank");
  }
});

inBrowser("more than 500 jobs are spread unless the user says otherwise", {}, async ({ server, tab, page }) => {
  const jobs = Array.from({ length: 501 }, () => ({ topic: "many", delay: "1h" }));
  await server.call("POST", "batch/jobs", { jobs });
  await server.call("POST", "batch/jobs", { jobs: jobs.slice(0, 500).map((job) => ({ ...job, topic: "fewer" })) });
  const spread = page.getByLabel("Spread over");
  const ask = async (topic, number) => {
    await tab.go(`jobs?topic=${topic}`);
    await tab.button("Reschedule all that match …").click();
    await tab.button(`Reschedule ${number} jobs`).waitFor();
    await page.getByLabel("From now").check();
  };
  await ask("fewer", 500);
  assert.equal(await spread.inputValue(), "");
  await tab.button("Cancel").click();
  await ask("many", 501);
  assert.equal(await spread.inputValue(), "5m");
  await page.getByLabel("In", { exact: true }).fill("2h");
  assert.equal(await spread.inputValue(), "5m");
  await spread.fill("");
  assert.equal(await spread.inputValue(), "");
  await tab.button("Cancel").click();
  await tab.button("Reschedule all that match …").click();
  await page.getByLabel("From now").check();
  await page.getByLabel("Enter 501 to confirm").fill("501");
  await tab.button("Reschedule 501 jobs").click();
  await tab.sees("done: 501 of 501 changed");
  const { operations } = await server.call("GET", "bulk");
  assert.equal(operations[0].spread, 300);
});

const TOKENS = { ops: ["--scope", "admin"], mailer: ["--scope", "read", "--topic", "mail*"] };

inBrowser("a token for some topics sees theirs", { tokens: TOKENS }, async ({ server, tab, page }) => {
  await server.bury("mail.eu", "one", "no");
  await server.bury("orders", "two", "no");
  await tab.go("dead");
  await page.getByLabel("Token").fill(server.tokens.mailer);
  await page.keyboard.press("Enter");
  await tab.sees("These have dead letters:");
  assert.deepEqual(await page.locator(".job a").allInnerTexts(), ["mail.eu"]);
  await page.getByRole("link", { name: "Dead letters", exact: true }).waitFor();
  await page.getByRole("link", { name: "mail.eu" }).click();
  await tab.sees("of 1 dead letter");
});
