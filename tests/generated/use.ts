// Calls a running server by the generated TypeScript types, under `strict`: each kind of value once, and each
// optional body left out.

import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const baseUrl = process.env.LINGER_URL!;
const headers = { authorization: `Bearer ${process.env.LINGER_TOKEN}` };
const client = createClient<paths>({ baseUrl, headers });

function check(holds: unknown, what: unknown): asserts holds {
  if (!holds) throw new Error(JSON.stringify(what));
}

const topic = { path: { topic: "typescript" } };
const body: components["schemas"]["JobSpec"] = {
  topic: "typescript", id: "typescript:1", delay: 0.05, retry: ["1s", 2.5], body: { n: [1, null] },
};
const added = await client.POST("/jobs", { body });
check(added.data?.id === "typescript:1" && added.data.max_attempts === 3, added);

async function pop() {
  const popped = await client.GET("/topics/{topic}/pop", { params: { ...topic, query: { wait: "5s" } } });
  check(popped.data, popped);
  return popped.data;
}

const job = await pop();
check(job.late >= 0 && job.attempt === 1, job);
const path = { id: job.id };
const released = await client.POST("/jobs/{id}/release", { params: { path }, body: { receipt: job.receipt, delay: 0 } });
check(released.data?.state === "ready", released);
const again = await pop();
const stale = await client.POST("/jobs/{id}/finish", { params: { path, query: { receipt: job.receipt } } });
check(stale.error?.code === "lease_lost", stale);
const finished = await client.POST("/jobs/{id}/finish", { params: { path }, body: { receipt: again.receipt } });
check(finished.response.status === 204, finished);
const wrong = await client.POST("/jobs", { body: { topic: "not a topic" } });
check(wrong.error?.code === "invalid_job" && wrong.error.errors?.[0]?.pointer === "/topic", wrong);
const paused = await client.POST("/topics/{topic}/pause", { params: topic });
check(paused.data?.paused.intake && paused.data.next_due_at === null, paused);
const batch = await client.POST("/batch/jobs", { body: { jobs: [{ topic: "typescript" }] } });
check(batch.data?.results[0]?.problem?.code === "intake_paused", batch);
