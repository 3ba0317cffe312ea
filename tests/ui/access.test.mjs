// Access to the pages: tokens, scopes, other paths and names, and hostile text in jobs.
import assert from "node:assert/strict";
import { once } from "node:events";
import http from "node:http";
import { Tab, inBrowser, nginxOf, onEveryEngine, refusal } from "./harness.mjs";

const TOKENS = {
  ops: ["--scope", "admin"],
  reader: ["--scope", "read"],
  mailer: ["--scope", "read,add", "--topic", "mail*"],
};

async function signIn(tab, token) {
  await tab.page.getByLabel("Token").fill(token);
  await tab.button("Sign in").click();
}

inBrowser("a token is asked for, kept in this browser and forgotten", { tokens: TOKENS }, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", delay: "30m" });
  await tab.go("topics/mail");
  await tab.heading("Sign in").waitFor();
  assert.equal(await page.getByRole("navigation").count(), 0);
  await signIn(tab, "linger_wrong");
  await tab.sees("Not accepted.");
  await tab.sees("This token is not known here.");
  await page.getByLabel("Token").fill("жетон");
  await tab.button("Sign in").click();
  await tab.sees("A token has only letters");
  await signIn(tab, server.tokens.ops);
  await tab.heading("mail").waitFor();
  await page.reload();
  await tab.heading("mail").waitFor();
  const kept = await page.evaluate(() => [JSON.stringify(localStorage), document.cookie, location.href].join());
  assert.ok(!kept.includes(server.tokens.ops), kept);
  await tab.button("Add a job …").click();
  await tab.text("The same with curl").click();
  const command = await page.locator(".command code").innerText();
  assert.ok(command.includes("Bearer $LINGER_TOKEN") && !command.includes(server.tokens.ops), command);
  await tab.button("Cancel").click();

  const second = await tab.newPage();
  await second.goto(`${tab.base}#/`);
  await second.getByRole("rowheader").getByRole("link", { name: "mail", exact: true }).waitFor();
  await tab.menu();
  await tab.button("Sign out").click();
  await tab.heading("Sign in").waitFor();
  await second.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.deepEqual(await second.evaluate(() => Object.keys(sessionStorage)), []);
});

inBrowser("the sign-in page asks nothing, and says why a token was refused", { tokens: TOKENS }, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", delay: "1h" });
  await page.clock.install();
  let calls = 0;
  page.on("request", (request) => (calls += request.url().endsWith("/whoami") ? 1 : 0));
  await tab.go("topics/mail");
  await tab.heading("Sign in").waitFor();
  await page.clock.runFor(60_000);
  await tab.roundTrip();
  assert.equal(calls, 1, "the answer was that a token is needed");
  await signIn(tab, server.tokens.ops);
  await tab.heading("mail").waitFor();
  await tab.button("Pause delivery").waitFor();
  await page.route("**/topics/mail", (route) => route.fulfill(refusal(401, "unauthorized", "this token was revoked")));
  await page.keyboard.press("r");
  await tab.sees("Your token is no longer accepted. This token was revoked.");
  const field = page.getByLabel("Token");
  assert.deepEqual([await field.inputValue(), await field.getAttribute("aria-invalid")], ["", null], "it is not what was entered");
  calls = 0;
  await page.clock.runFor(60_000);
  await tab.roundTrip();
  assert.equal(calls, 0);
  assert.ok(await tab.text("This token was revoked").isVisible());
});

inBrowser("nothing can be changed until the rights of a token are known", { tokens: TOKENS }, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", delay: "1h" });
  await tab.go("topics/mail");
  await tab.heading("Sign in").waitFor();
  let calls = 0;
  // The first is that of the sign-in, the third is the repeat.
  const repeat = new Promise((resolve) => page.route("**/whoami", (route) => {
    calls += 1;
    if (calls === 2) return route.fulfill(refusal(503, "draining", "the server is shutting down"));
    return calls === 3 ? resolve(route) : route.continue();
  }));
  await signIn(tab, server.tokens.reader);
  await tab.heading("Settings").waitFor();
  for (const gone of ["Pause delivery", "Purge …", "Add a job …"]) assert.equal(await tab.button(gone).count(), 0, gone);
  assert.equal(await tab.text("This token lacks").count(), 0);
  await (await repeat).continue();
  await tab.sees("This token lacks the scopes add and admin for this topic.");
  assert.equal(await tab.button("Pause delivery").count(), 0);
});

inBrowser("a token that may only read sees no button and why", { tokens: TOKENS }, async ({ server, tab, page }) => {
  await server.bury("mail", "d", "no");
  await tab.go("topics/mail");
  await signIn(tab, server.tokens.reader);
  await tab.sees("This token lacks the scopes add and admin for this topic.");
  await tab.menu();
  await page.locator(".menu").getByText("reader read", { exact: true }).waitFor();
  await page.keyboard.press("Escape");
  for (const gone of ["Pause delivery", "Pause intake", "Purge …", "Add a job …"]) assert.equal(await tab.button(gone).count(), 0, gone);
  const links = await page.getByRole("navigation", { name: "Pages" }).getByRole("link").allInnerTexts();
  assert.ok(links.includes("Server") && !links.includes("Audit"), links.join());
  await tab.go("jobs/d");
  await tab.sees("This token lacks");
  for (const gone of ["Replay", "Delete …"]) assert.equal(await tab.button(gone).count(), 0, gone);
  await tab.go("topics/mail/dead");
  await tab.sees("of 1 dead letter");
  assert.equal(await page.getByRole("button", { name: "Replay “no”" }).count(), 0);
  await tab.menu();
  await tab.button("Sign out").click();
  await signIn(tab, server.tokens.ops);
  await page.getByRole("button", { name: "Replay “no”" }).waitFor();
});

onEveryEngine("a token for some topics sees these", { tokens: TOKENS }, async ({ server, tab, page }) => {
  await server.add({ topic: "mail.out", delay: "1h" });
  await server.add({ topic: "orders", id: "secret", delay: "1h" });
  await tab.go();
  await signIn(tab, server.tokens.mailer);
  await page.getByRole("rowheader").getByRole("link", { name: "mail.out", exact: true }).waitFor();
  await tab.sees("All is well.");
  assert.equal(await page.getByRole("link", { name: "orders", exact: true }).count(), 0);
  await tab.until(() => !document.querySelector(".timeline"));
  assert.equal(await page.locator(".totals dd").first().innerText(), "1");
  await page.getByRole("rowheader").getByRole("link", { name: "mail.out", exact: true }).click();
  await tab.heading("mail.out").waitFor();
  await tab.button("Add a job …").waitFor();
  await tab.sees("This token lacks the scope admin for this topic.");
  await tab.go("workers");
  await tab.sees("This token is for some topics only.");
  await page.getByLabel("Topic", { exact: true }).fill("mail.out");
  await page.getByLabel("Topic", { exact: true }).press("Enter");
  await tab.sees("No worker has polled in the last minute or has reserved a job.");
  await tab.go("topics/orders");
  await tab.sees("this token is not for this topic");
  await tab.go("jobs/secret");
  await tab.sees("There is no such job");
});

inBrowser("the title is shown and bodies are hidden where the settings say so", {
  settings: { UI__TITLE: "prod <b>", UI__HIDE_BODIES: "true" },
}, async ({ server, tab, page }) => {
  await server.add({ topic: "t", id: "a", delay: "1h", body: "personal" });
  await tab.go("jobs/a");
  await tab.sees("prod <b>");
  await tab.button("Show the body").waitFor();
  assert.equal(await tab.button("Copy as curl").count(), 0, "the command has the body");
  assert.equal(await page.getByText("personal").count(), 0);
  await tab.button("Show the body").click();
  await tab.button("Copy as curl").waitFor();
  await tab.sees('"personal"');
});

// What nginx sends as Host, and whether the server has to know the name that browsers use.
for (const [does, host, isNamed] of [
  ["keeps the host", "$http_host", false],
  ["keeps the host without its port", "$host", true],
  ["replaces the host", "$proxy_host", true],
]) {
  const settings = isNamed ? { SERVER__ALLOWED_HOSTS: "queue.localhost" } : {};
  inBrowser(`nginx serves it below a path and ${does}`, { settings }, async ({ server, page }) => {
    const nginx = await nginxOf(server, host);
    try {
      // Browsers resolve every name below localhost to this machine.
      const root = `http://queue.localhost:${nginx.port}/queue/ui`;
      await page.goto(root);
      assert.equal(page.url(), `${root}/`);
      await page.getByText("There is no job yet").waitFor();
      await page.goto(`${root}/#/topics/mail`);
      await page.getByRole("button", { name: "Add a job …" }).click();
      await page.getByLabel("In", { exact: true }).fill("1h");
      await page.getByRole("button", { name: "Add job" }).click();
      await page.getByRole("status").getByText("Added").waitFor();
      await page.getByRole("button", { name: "Pause delivery" }).click();
      await page.getByText("Delivery of mail is paused.").waitFor();
      // Pages of others, whose requests come through the same nginx.
      for (const origin of ["http://evil.localhost", `http://evil.localhost:${nginx.port}`, "http://queue.localhost.evil", "null"]) {
        const headers = { origin, "content-type": "application/json", host: `queue.localhost:${nginx.port}` };
        assert.equal(await statusOf(`http://127.0.0.1:${nginx.port}/queue/jobs`, headers), 403, origin);
      }
    } finally {
      await nginx.stop();
    }
  });
}

/** The status of an add with these headers, which a browser would not let a page choose. */
async function statusOf(url, headers) {
  const request = http.request(url, { method: "POST", headers });
  request.end('{"topic":"t"}');
  const [response] = await once(request, "response");
  response.resume();
  return response.statusCode;
}

inBrowser("what strangers write is text", {}, async ({ server, tab, page }) => {
  const markup = `<img src=x onerror="alert(1)"><script>alert(2)</script><a href="javascript:alert(3)">x</a>`;
  const hidden = "\u202ereversed\u0000\u001b[31m\u200b\u180e\ufff9\u{e0041}";
  const large = "x".repeat(200 * 1024);
  await server.add({ topic: "t", id: "marked", delay: "1h", body: { markup, hidden, "<b>": 1 } });
  await server.add({ topic: "t", id: "large", delay: "1h", body: large });
  await server.bury("dead", "letter", `${markup}${hidden}`);
  await tab.go("jobs/marked");
  await tab.sees("onerror");
  const body = () => page.locator(".body pre");
  assert.ok((await body().innerText()).includes(JSON.stringify(markup)));
  assert.ok((await body().innerText()).includes("U+202E"), "what changes the order of letters is shown");
  assert.doesNotMatch(await body().innerText(), /[\u202e\u180e\ufff9\u{e0041}]/u);
  assert.ok((await body().innerText()).includes('U+180EU+FFF9U+E0041"'));
  await tab.go("topics/dead/dead");
  await tab.sees("onerror");
  assert.ok((await page.locator(".list td.reason").innerText()).startsWith(markup));
  await tab.go("jobs/letter");
  await tab.sees("onerror");
  assert.ok((await page.locator("dd .reason").innerText()).includes("U+001B"));
  for (const made of ["img", "main script", "main a[href^=javascript]", "main b"]) {
    assert.equal(await page.locator(made).count(), 0, made);
  }
  await tab.go("jobs/large");
  await tab.button("Show all 204,802 characters").waitFor();
  assert.equal((await body().innerText()).length, 64 * 1024);
  await tab.button("Show all 204,802 characters").click();
  await tab.until(() => document.querySelector(".body pre").innerText.length === 204_802);
  for (const address of ["jobs/%3Cimg%20src=x%20onerror=alert(1)%3E", "topics/%3Cscript%3Ealert(1)%3C%2Fscript%3E", "jobs/%E0%A4%A"]) {
    await tab.go(address);
    await page.reload();
    await page.locator("main h1").waitFor();
    assert.equal(await page.locator("main img, main script").count(), 0, address);
  }
});

inBrowser("the names of workers are text", {}, async ({ server, tab, page }) => {
  const worker = "<b>w</b>\u202e\u200b3";
  const shown = "<b>w</b>U+202EU+200B3";
  const pop = `topics/t/pop?worker=${encodeURIComponent(worker)}`;
  await server.add({ topic: "t", id: "held" });
  const { receipt } = await server.call("POST", pop);
  await server.call("POST", "jobs/held/release", { receipt, reason: "no", delay: 0 });
  await server.call("POST", pop);
  await tab.go("jobs/held");
  await tab.sees("has it for another");
  assert.equal(await page.locator(".headline bdi.mono").innerText(), shown);
  // Those of both attempts, in the line of the job and in its history.
  await tab.until((all) => [...document.querySelectorAll("ol bdi.mono")].map((name) => name.innerText).join() === all, Array(4).fill(shown).join());
  await tab.go("jobs?state=reserved");
  await tab.until((shown) => document.querySelector(".list .worker bdi")?.innerText === shown, shown);
  assert.equal(await page.locator("main b").count(), 0);
});

inBrowser("plain HTTP beyond this machine is told", { settings: { SERVER__ALLOWED_HOSTS: "linger.example" } }, async ({ server, tab, page }) => {
  const warning = tab.text("This connection is not encrypted");
  await tab.go();
  await tab.sees("There is no job yet");
  assert.equal(await warning.count(), 0);
  await page.route("http://linger.example/**", async (route) => {
    const response = await route.fetch({ url: route.request().url().replace("http://linger.example/", server.url) });
    // Browsers complain about this header where nothing is encrypted.
    const headers = Object.fromEntries(Object.entries(response.headers()).filter(([name]) => name !== "cross-origin-opener-policy"));
    await route.fulfill({ response, headers });
  });
  await page.goto("http://linger.example/ui/");
  await tab.sees("There is no job yet");
  assert.ok(await warning.isVisible());
  await tab.check("a warning");
});

inBrowser("a policy keeps scripts of others out", {}, async ({ server }) => {
  const tab = await Tab.open(server);
  await tab.go();
  await tab.sees("There is no job yet");
  const attempts = await tab.page.evaluate(() => {
    const tried = {};
    try {
      document.body.innerHTML = "<b>x</b>";
      tried.markup = true;
    } catch {
      tried.markup = false;
    }
    const script = document.createElement("script");
    script.append("document.title = 'run'");
    document.body.append(script);
    tried.script = document.title === "run";
    return tried;
  });
  assert.deepEqual(attempts, { markup: false, script: false });
  // The reports of the policy are what makes any other test fail.
  assert.ok(tab.errors.some((error) => /Trusted|policy/.test(error)), String(tab.errors));
  await tab.context.close();
});
