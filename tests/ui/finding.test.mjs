// Finding jobs: the search, the filter, and what the page of a job leads to.
import assert from "node:assert/strict";
import { inBrowser } from "./harness.mjs";

inBrowser("the search finds jobs, topics and pasted addresses", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", id: "a~b", delay: "1h" });
  await server.add({ topic: "two", id: "two:1", delay: "1h" });
  await tab.go();
  const find = async (text, heading) => {
    await page.getByLabel("Find a job or a topic").fill(text);
    await page.keyboard.press("Enter");
    await tab.heading(heading).waitFor();
  };
  await find("two", "two");
  assert.ok(page.url().endsWith("#/topics/two"));
  await find("https://example.com/jobs/ui/#/jobs/two%3A1", "two:1");
  await find("https://example.com/jobs/jobs/a~b", "a~b");
  await find("#/topics/two/dead", "Dead letters");
  await find("two:", "two:");
  await page.getByRole("link", { name: "delayed", exact: true }).click();
  await tab.sees("two:1", { exact: true });
  await find("订单", "订单");
  await tab.sees("No job has such an id");
});

inBrowser("a job shows the callback of its topic, and g d leads to the dead letters", {}, async ({ server, tab, page }) => {
  await server.call("PUT", "topics/mail", { callback: { url: "http://127.0.0.1:59999/hook" } });
  await server.add({ topic: "mail", id: "one", delay: "1h" });
  await server.bury("orders", "two", "no");
  await tab.go("jobs/one");
  await tab.sees("POST http://127.0.0.1:59999/hook");
  await tab.sees("of the topic");
  await tab.go("jobs/two");
  await page.getByRole("navigation", { name: "Path" }).getByRole("link", { name: "orders" }).waitFor();
  await tab.pressAtOnce("g", "d");
  await tab.until(() => location.hash === "#/topics/orders/dead");
});

inBrowser("a year that is typed is one search", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", id: "one", delay: "1h" });
  await tab.go("jobs?from=2026-11-26T00:00:00.000Z");
  await tab.sees("one", { exact: true });
  const length = await page.evaluate(() => history.length);
  await page.getByLabel("From").focus();
  for (const key of ["Tab", "Tab"]) await page.keyboard.press(key);
  for (const key of "2027") await page.keyboard.press(key);
  await tab.until(() => location.hash.includes("from=2027-"));
  assert.equal(await page.evaluate(() => history.length), length + 1);
});

const SOME = { ops: ["--scope", "admin"], one: ["--scope", "read", "--topic", "mail"], two: ["--scope", "read", "--topic", "mail", "--topic", "orders"] };
inBrowser("a token for some topics names one before it lists jobs", { tokens: SOME }, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", id: "letter", delay: "1h" });
  for (const name of ["one", "two"]) {
    await tab.go("jobs");
    await page.getByLabel("Token").fill(server.tokens[name]);
    await tab.button("Sign in").click();
    if (name === "two") await page.getByRole("main").getByRole("link", { name: "mail", exact: true }).click();
    await tab.sees("letter", { exact: true });
    assert.ok(page.url().endsWith("#/jobs?topic=mail"));
    await tab.menu();
    await tab.button("Sign out").click();
  }
});
