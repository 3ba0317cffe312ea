// Who asked for which change: the audit list.
import assert from "node:assert/strict";
import { onEveryEngine } from "./harness.mjs";

onEveryEngine("the audit list says who changed what, from where, and what came of it", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", id: "m:1", delay: "1h" });
  await assert.rejects(server.call("POST", "jobs/m:1/requeue"), /409/);
  await server.call("POST", "bulk", { id: "clear", action: "delete", filter: { topic: "mail", state: "dead" }, dry_run: false, limit: 10 });
  await tab.go("jobs/m:1");
  await tab.button("Run now").click();
  await tab.sees("m:1 is ready.");
  await tab.go("topics/mail");
  await tab.button("Pause delivery").click();
  await tab.button("Resume delivery").waitFor();
  await tab.go("audit");
  const row = (what) => page.getByRole("row").filter({ hasText: what });
  assert.match(await row("pause a topic").innerText(), /POST \/topics\/mail\/pause[^]*mail\s+a page\s+done/);
  assert.match(await row("replay a dead letter").innerText(), /mail\s+a program\s+refused, 409/);
  assert.match(await row("run a job now").innerText(), /PATCH \/jobs\/m%3A1[^]*a page\s+done/);
  assert.equal(await row("delete many jobs").count(), 1);
  await row("replay a dead letter").getByRole("link", { name: "m:1", exact: true }).waitFor();
  await row("pause a topic").getByText("What was asked for").click();
  await tab.sees('"delivery": true');
  await tab.check("the audit list");
  await tab.go("audit?topic=orders");
  await tab.sees("No call was noted.");
});
