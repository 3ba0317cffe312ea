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

async function main() {
  const server = await Server.start("embedded", { UI__TITLE: "production" });
  try {
    await addJobs(server);
    await addTriedJob(server);
    const filter = { topic: "payment-notice", state: "dead", reason_prefix: "http 504" };
    await server.call("POST", "bulk", { id: "replay-504", action: "requeue", filter, spread: "10m", dry_run: false, limit: 20 });
    const tab = await Tab.open(server, { height: 960 });
    const pages = [
      ["overview", "?range=24h", "order-close"],
      ["topic", "topics/booking-reminder?range=30d", "Pause delivery"],
      ["jobs", "jobs?topic=order-close", "orders:"],
      ["job", "jobs/payments:77:paid", "psp-worker-2"],
      ["dead", "topics/payment-notice/dead", "http # from psp"],
      ["bulk", "bulk/replay-504", "done:"],
      ["server", "server", "embedded"],
    ];
    for (const [name, fragment, text] of pages) {
      await tab.go(fragment);
      await tab.sees(text);
      await tab.page.waitForLoadState("networkidle");
      const file = `${DIRECTORY}/${name}.png`;
      await tab.page.screenshot({ path: file });
      const { size } = fs.statSync(file);
      if (size > MAX_BYTES) throw new Error(`${file} has ${size} bytes`);
      console.log(`${file}: ${size} bytes`);
    }
    if (tab.errors.length > 0) throw new Error(tab.errors.join());
  } finally {
    await server.stop();
  }
}

await main();
process.exit(0);
