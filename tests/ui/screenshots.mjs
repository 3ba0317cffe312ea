// Makes the pictures of scripts/screenshots.
import fs from "node:fs";
import { Server, Tab } from "./harness.mjs";

const DIRECTORY = "docs/images";
const MAX_BYTES = 300_000;

let seed = 7;
/** A number from 0 to 1, the same in each run. */
const random = () => (seed = (seed * 16_807) % 2_147_483_647) / 2_147_483_647;

const TOPICS = [
  { topic: "order-close", count: 2_600, delay: () => 1_800 * random() ** 0.5 + 120 * random(), id: (n) => `orders:${1000 + n}:close` },
  { topic: "payment-notice", count: 900, delay: () => 86_400 * random() ** 3, id: (n) => `payments:${2000 + n}:paid` },
  { topic: "booking-reminder", count: 3_400, delay: () => 30 * 86_400 * random(), id: (n) => `bookings:${3000 + n}:text` },
  { topic: "trial-end", count: 500, delay: () => 300 * 86_400 * random(), id: (n) => `trials:${4000 + n}:end` },
];

async function addJobs(server) {
  for (const { topic, count, delay, id } of TOPICS) {
    const job = (n) => ({ topic, id: id(n), delay: Math.max(20, Math.round(delay())), body: { number: n } });
    const jobs = Array.from({ length: count }, (_, n) => job(n));
    while (jobs.length > 0) await server.call("POST", "batch/jobs", { jobs: jobs.splice(0, 500) });
  }
  for (let n = 0; n < 34; n += 1) {
    await server.bury("payment-notice", `payments:${900 + n}:paid`, n % 5 === 0 ? "no such merchant" : `http ${n % 3 ? 503 : 504} from psp`);
  }
}

/** Adds a job that two workers tried in vain and that waits for its next attempt. */
async function addTriedJob(server) {
  const [topic, id] = ["payment-notice", "payments:77:paid"];
  await server.add({ topic, id, body: { order: 77, amount: "42.00", merchant: "north-star" } });
  const tries = [
    ["psp-worker-1", "http 503 from psp", 0],
    ["psp-worker-2", "http 503 from psp", 0],
    ["psp-worker-1", "http 504 from psp: no answer within 10 s", 600],
  ];
  for (const [worker, reason, delay] of tries) {
    const { receipt } = await server.call("POST", `topics/${topic}/pop?worker=${worker}`);
    await server.call("POST", `jobs/${encodeURIComponent(id)}/release`, { receipt, reason, delay });
  }
}

/** Jobs that two workers have, more that wait for one, and a worker that waits for jobs of another topic. */
async function startWorkers(server) {
  const [topic, ready] = ["order-close", 140];
  await server.call("POST", "batch/jobs", { jobs: Array.from({ length: ready }, (_, n) => ({ topic, id: `orders:${n}:close`, ttr: "10m", body: { number: n } })) });
  for (const worker of ["close-worker-1", "close-worker-2"]) {
    for (let n = 0; n < 3; n += 1) {
      const { id, receipt } = await server.call("POST", `topics/${topic}/pop?worker=${worker}`);
      if (n === 0) await server.call("POST", `jobs/${encodeURIComponent(id)}/touch`, { receipt, note: "stock released, 2 of 3 mails sent" });
    }
  }
  const url = new URL("topics/trial-end/pop?wait=60s&worker=trial-worker-1", server.url);
  const waiting = new AbortController();
  fetch(url, { method: "POST", headers: { authorization: `Bearer ${server.token}` }, signal: waiting.signal }).catch(() => null);
  return waiting;
}

async function bulkOperations(server) {
  const dead = { topic: "payment-notice", state: "dead" };
  const change = (id, action, filter, limit, more) => server.call("POST", "bulk", { id, action, filter, limit, dry_run: false, ...more });
  await change("replay-504", "requeue", { ...dead, reason_prefix: "http 504" }, 9, { spread: "10m" });
  await change("no-merchant", "delete", { ...dead, reason_prefix: "no such merchant" }, 3);
  await change("later", "reschedule", { topic: "trial-end", state: "delayed" }, 500, { shift: "1h" });
}

async function save({ page }, name) {
  const file = `${DIRECTORY}/${name}.png`;
  await page.screenshot({ path: file });
  const { size } = fs.statSync(file);
  if (size > MAX_BYTES) throw new Error(`${file} has ${size} bytes`);
  console.log(`${file}: ${size} bytes`);
}

async function main() {
  const server = await Server.withTokens("embedded", { operator: ["--scope", "admin"] }, { UI__TITLE: "production" });
  try {
    await addJobs(server);
    await addTriedJob(server);
    await bulkOperations(server);
    const waiting = await startWorkers(server);
    const tab = await Tab.open(server, { height: 960 });
    await tab.go();
    await tab.heading("Sign in").waitFor();
    await save(tab, "sign-in");
    await tab.page.getByLabel("Token").fill(server.token);
    await tab.button("Sign in").click();
    await tab.sees("order-close");
    const pages = [
      ["overview", "?range=24h", "order-close"],
      ["topic", "topics/booking-reminder?range=30d", "Jobs are handed out"],
      ["jobs", "jobs?topic=order-close", "orders:"],
      ["job", "jobs/payments:77:paid", "psp-worker-2"],
      ["dead", "topics/payment-notice/dead", "http # from psp"],
      ["dead-letters", "dead", "no such merchant"],
      ["workers", "workers", "close-worker-1"],
      ["bulk", "bulk/replay-504", "done:"],
      ["operations", "bulk", "done:"],
      ["server", "server", "embedded"],
    ];
    for (const [name, fragment, text] of pages) {
      await tab.go(fragment);
      await tab.sees(text);
      await tab.page.waitForLoadState("networkidle");
      await save(tab, name);
    }
    await server.call("POST", "topics/trial-end/pause", { delivery: true, reason: "prices change at noon" });
    await server.call("POST", "topics/trial-end/resume");
    await tab.go("audit");
    await tab.sees("resume a topic");
    await tab.page.getByText("What was asked for").nth(1).click();
    await save(tab, "audit");
    const nightly = { cron: "30 2 * * *", time_zone: "Europe/Berlin", job: { topic: "reports", ttr: "10m", body: { kind: "nightly" } } };
    await server.call("PUT", "schedules/nightly-report", nightly);
    await tab.go("schedules/nightly-report");
    await tab.button("Change …").click();
    await tab.page.locator("dialog .runs li").nth(4).waitFor();
    await save(tab, "schedule");
    waiting.abort();
    if (tab.errors.length > 0) throw new Error(tab.errors.join());
  } finally {
    await server.stop();
  }
}

await main();
process.exit(0);
