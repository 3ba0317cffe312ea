// The worker of a reserved job, the history of a job, and the outcome of a job that is gone.
import assert from "node:assert/strict";
import { onEveryEngine } from "./harness.mjs";

const entries = (page) => page.getByRole("list").filter({ hasText: "It was added" }).getByRole("listitem");
const titles = async (page) => (await entries(page).allInnerTexts()).map((text) => text.split("\n")[0].trim());
const pop = (server, worker) => server.call("POST", `topics/mail/pop?worker=${encodeURIComponent(worker)}`);

onEveryEngine("a job's page tells what happened to it and who has it", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", id: "one" });
  const first = await pop(server, "<img src=x onerror=alert(1)>");
  await tab.go("jobs/one");
  await tab.sees("<img src=x onerror=alert(1)> has it for another");
  assert.deepEqual(await titles(page), ["Attempt 1 began by <img src=x onerror=alert(1)>", "It was added"]);
  await server.call("POST", "jobs/one/release", { receipt: first.receipt, delay: 0, reason: "psp \u202Etimeout" });
  await tab.sees("Attempt 1 was released after");
  await tab.sees("psp U+202Etimeout");
  const second = await pop(server, "w-2");
  await server.call("POST", "jobs/one/bury", { receipt: second.receipt, reason: "no such order" });
  await tab.sees("Attempt 2 was buried after");
  await server.call("POST", "jobs/one/requeue", {});
  await tab.sees("It was requeued by 127.0.0.1");
  const last = await pop(server, "w-9");
  await tab.sees("w-9 has it for another");
  await server.call("POST", `jobs/one/finish?receipt=${last.receipt}`);
  await tab.sees("This job is gone: it was finished");
  await page.reload();
  await tab.sees("There is no such job");
  await tab.sees("by 127.0.0.1.");
  await tab.go("jobs/never");
  await tab.sees("It was never added, or it is finished or deleted.");
});

onEveryEngine("a list of reserved jobs names their workers", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", id: "one" });
  await pop(server, "w-1");
  await tab.go("jobs?state=reserved");
  await page.locator(".list tr").filter({ hasText: "w-1" }).getByRole("link", { name: "one" }).waitFor();
});
