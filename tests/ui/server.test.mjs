// The page of the server, what a failure would cost, and the menu in the header.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { lossOf } from "../../ui/js/durability.js";
import { inBrowser, onEveryEngine, onRedis } from "./harness.mjs";

const PROGRAM = process.env.LINGER_PROGRAM;

const card = (page, title) => page.locator(".card").filter({ has: page.getByRole("heading", { name: title, exact: true }) });

onEveryEngine("the server says what runs, where jobs are, and what a failure would cost", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "t" });
  await tab.go("server");
  const row = page.getByRole("row").filter({ hasText: `/${server.child.pid}` });
  await row.getByText("ago").waitFor();
  await row.getByText(/^[\d.]+ MiB$/).waitFor();
  await tab.sees(server.redis ? /^Redis \d|^Valkey/ : /^embedded \(SQLite/);
  await tab.sees(server.redis ? "about the last second of changes is lost" : "nothing is lost");
  await card(page, "Store").getByText(/^[\d.]+ [KM]iB$/).first().waitFor();
  assert.equal(await tab.text("Disk left").count(), server.redis ? 0 : 1);
  assert.equal(await tab.text("Last backup").count(), server.redis ? 0 : 1);
  if (!server.redis) {
    const backup = page.locator("dl div").filter({ hasText: "Last backup" });
    await backup.getByText("none known").waitFor();
    execFileSync(PROGRAM, ["backup", "copy"], { cwd: server.directory });
    await backup.getByText(/now|ago/).waitFor();
  }
  await tab.sees("Accepts work");
  const limits = page.locator(".limits");
  await limits.getByText("Limits").click();
  for (const [name, value] of [["queue.max_body", "256 KiB"], ["queue.max_batch", "1,000"], ["queue.max_wait", "1 min"], ["server.max_request_bytes", "8 MiB"], ["server.max_answer_bytes", "1 GiB"]]) {
    await limits.locator("div").filter({ hasText: name }).getByText(value, { exact: true }).first().waitFor();
  }
});

test("what a failure would cost follows from what the server says", () => {
  const loss = (durability, engine = "redis") => lossOf({ engine, durability });
  assert.match(loss("interval 100ms", "embedded").text, /last 0\.1 s/);
  assert.equal(loss("always", "embedded").isBad, false);
  assert.deepEqual(["none", "snapshots only", "unknown", "aof everysec", "aof always, 1 replicas", "aof, sync unknown", "aof always / none"].map((text) => loss(text).isBad),
    [true, true, true, false, false, false, true]);
  assert.match(loss("aof always, 2 replicas").text, /2 replicas have a change/);
  assert.deepEqual(loss("of another kind"), { text: undefined, isBad: false });
});

for (const appendonly of ["no", "yes"]) {
  onRedis(`a Redis whose jobs are ${appendonly === "no" ? "not safe" : "kept"} is told from another (appendonly ${appendonly})`, { settings: { appendonly } }, async ({ server, tab, page }) => {
    await server.add({ topic: "t", delay: "1h" });
    await tab.go();
    await tab.sees(appendonly === "no" ? "No topic is in trouble." : "All is well.");
    assert.equal(await tab.text("Redis keeps nothing on disk").count(), appendonly === "no" ? 1 : 0);
    await tab.go("server");
    await tab.sees("Durability");
    assert.equal(await page.locator(".warning").count(), appendonly === "no" ? 1 : 0);
  });
}

inBrowser("what this browser shows is chosen in the menu", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "t", id: "later", at: "2100-01-01T12:00:00Z" });
  await tab.go("jobs/later");
  await tab.sees("1 Jan 2100, 13:00:00");
  const background = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await background();
  await tab.menu();
  await tab.sees("This server requires no token");
  await page.getByLabel("Dark", { exact: true }).check();
  assert.notEqual(await background(), light);
  await page.getByLabel("UTC", { exact: true }).check();
  await tab.sees("Times in UTC");
  await tab.sees("1 Jan 2100, 12:00:00");
  await page.keyboard.press("Escape");
  await page.locator(".menu").waitFor({ state: "hidden" });
  await page.reload();
  await tab.sees("1 Jan 2100, 12:00:00");
  assert.notEqual(await background(), light, "the choice stays");
  await tab.menu();
  await page.getByLabel("Local", { exact: true }).check();
  await tab.sees("1 Jan 2100, 13:00:00");
  await tab.go("nowhere/at/all");
  await tab.heading("No such page").waitFor();
});
