// Who polls for jobs and holds them, what is called, and a job that is taken back.
import assert from "node:assert/strict";
import http from "node:http";
import { inBrowser, onEveryEngine } from "./harness.mjs";

const cellsOf = (page, name) => page.getByRole("row").filter({ hasText: name }).getByRole("cell").allInnerTexts();

onEveryEngine("workers are listed, and a job is taken back from one", {}, async ({ server, tab, page }) => {
  await server.call("POST", "jobs", { topic: "mail", id: "held" });
  await server.call("GET", "topics/mail/pop?worker=w-7");
  await server.call("GET", "topics/order/pop?worker=w-8");
  await tab.go("workers");
  await tab.sees("w-8");
  const [topic, waiting, polled, held, since, from] = await cellsOf(page, "w-7");
  assert.deepEqual([topic, waiting, held, from], ["mail", "0", "1", "127.0.0.1"]);
  assert.match(polled, /ago|now/);
  assert.match(since, /^\d+ s$/);
  assert.deepEqual((await cellsOf(page, "w-8")).slice(3, 5), ["0", "–"]);
  await tab.check("the workers");
  await page.getByRole("row").filter({ hasText: "w-7" }).getByRole("link", { name: "1", exact: true }).click();
  await page.getByRole("link", { name: "held", exact: true }).click();
  await tab.button("Take back …").click();
  await tab.sees("A worker that still lives is not told");
  await tab.button("Take back 1 job").click();
  await tab.sees("Took back 1 of 1 job.");
  await tab.sees(/Attempt 1 was taken back after .* from w-7/);
  await tab.sees("revoked by 127.0.0.1");
  const job = await server.call("GET", "jobs/held");
  assert.deepEqual([job.state, job.history[0].ended], ["ready", "revoked"]);
});

onEveryEngine("a note is shown beside the job that its worker has, and on the job", {}, async ({ server, tab, page }) => {
  const note = "<b>3 of 7</b>\u202e files";
  const shown = "<b>3 of 7</b>U+202E files";
  for (const id of ["noted", "other"]) await server.add({ topic: "mail", id, ttr: "1h" });
  for (const id of ["noted", "other"]) {
    const job = await server.call("GET", "topics/mail/pop?worker=w-7");
    if (job.id === "noted") await server.call("POST", "jobs/noted/touch", { receipt: job.receipt, note });
    else assert.equal(job.id, "other", id);
  }
  await tab.go("workers");
  const notes = page.getByRole("list", { name: "Latest notes" }).getByRole("listitem");
  await notes.first().waitFor();
  assert.equal(await notes.count(), 1);
  assert.match(await notes.innerText(), /^noted <b>3 of 7<\/b>U\+202E files (now|.* ago)$/);
  await tab.check("the notes of workers");
  await notes.getByRole("link", { name: "noted" }).click();
  await tab.sees("Note of a worker");
  assert.equal(await page.locator(".next .reason").innerText(), shown);
  assert.equal(await page.locator("main b").count(), 0);
  await tab.check("a job with a note");
});

inBrowser("several jobs are taken back from a list", {}, async ({ server, tab, page }) => {
  for (const id of ["a", "b", "c"]) {
    await server.call("POST", "jobs", { topic: "mail", id });
    await server.call("GET", "topics/mail/pop?worker=w-7");
  }
  await tab.go("jobs?state=reserved");
  await tab.sees("w-7");
  for (const id of ["a", "b"]) await page.getByLabel(`Select ${id}`, { exact: true }).check();
  await tab.button("Take back …").click();
  await tab.button("Take back 2 jobs").click();
  await tab.sees("Took back 2 of 2 jobs.");
  const { counts } = await server.call("GET", "topics/mail");
  assert.deepEqual([counts.ready, counts.reserved], [2, 1]);
});

inBrowser("on a phone a table has nothing at its side that is out of sight", { tab: { width: 390, height: 844 } }, async ({ server, tab, page }) => {
  await server.call("POST", "jobs", { topic: "mail", id: "a" });
  await server.call("GET", "topics/mail/pop?worker=w-7");
  await server.call("PUT", "schedules/nightly", { cron: "0 2 * * *", job: { topic: "mail" } });
  for (const [place, name] of [["workers", "w-7"], ["schedules", "nightly"], ["audit", "save a schedule"]]) {
    await tab.go(place);
    await tab.sees(name);
    const hidden = await page.locator("main").evaluate((main) => [...main.querySelectorAll("*")].filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth + 1 && clientWidth > 1).length);
    assert.equal(hidden, 0, place);
  }
  await tab.go("workers");
  assert.match(await page.locator("tbody tr").first().innerText(), /w-7\s+mail\s+0\s+[^]*1/);
  const cell = page.locator("td[data-name='Reserved']");
  assert.equal(await cell.evaluate((td) => getComputedStyle(td, "::before").content), '"Reserved "');
  await tab.check("the workers on a phone");
});

inBrowser("all jobs that a worker has are taken back", {}, async ({ server, tab }) => {
  for (const [id, worker] of [["a", "w-7"], ["b", "w-7"], ["c", "w-8"]]) {
    await server.call("POST", "jobs", { topic: "mail", id });
    await server.call("GET", `topics/mail/pop?worker=${worker}`);
  }
  await tab.go("jobs?state=reserved&reserved_by=w-7");
  await tab.button("Take back all that match …").click();
  await tab.sees("They are ready for other workers at once");
  await tab.button("Take back 2 jobs").click();
  await tab.sees("done: 2 of 2 changed");
  await tab.sees("Take back reserved jobs of all topics that “w-7” has");
  const { counts } = await server.call("GET", "topics/mail");
  assert.deepEqual([counts.ready, counts.reserved], [2, 1]);
});

inBrowser("the endpoints of callbacks are listed, those that rest first", {}, async ({ server, tab, page }) => {
  let [ill, isSecond] = [0];
  const second = new Promise((resolve) => (isSecond = resolve));
  const endpoint = http.createServer((request, response) => {
    if (request.url === "/ill" && ++ill === 2) isSecond();
    response.writeHead(request.url === "/well" ? 204 : 503, { "retry-after": "50" }).end();
  });
  await new Promise((resolve) => endpoint.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${endpoint.address().port}`;
  try {
    await tab.go("callbacks");
    await tab.sees("No endpoint was called lately.");
    for (const [topic, path] of [["alpha", "/well"], ["beta", "/ill"]]) {
      await server.call("PUT", `topics/${topic}`, { callback: { url: url + path } });
      await server.call("POST", "jobs", { topic, id: topic });
    }
    await tab.sees("1 of 2 rest");
    const rows = await page.locator("tbody tr").allInnerTexts();
    assert.match(rows[0], /beta\s+next call in \d+ s rests\s+0 of \d+\s+1 1 failed\s+http_503/);
    assert.match(rows[1], /alpha\s+is idle\s+0 of \d+\s+1\s+–/);
    await tab.check("the callbacks");
    await server.call("POST", "jobs", { topic: "beta", id: "other" });
    await page.getByRole("button", { name: "Call now" }).click();
    await tab.sees("The endpoints of beta are called now.");
    await second;
  } finally {
    endpoint.close();
    endpoint.closeAllConnections();
  }
});
