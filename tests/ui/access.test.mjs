// Who may see and do what: tokens, scopes, other paths and names, and what strangers put into jobs.
import assert from "node:assert/strict";
import { onEveryEngine, proxyOf, Tab } from "./harness.mjs";

const TOKENS = {
  ops: ["--scope", "admin"],
  reader: ["--scope", "read"],
  mailer: ["--scope", "read,add", "--topic", "mail*"],
};

async function signIn(tab, token) {
  await tab.page.getByLabel("Token").fill(token);
  await tab.button("Sign in").click();
}

onEveryEngine("a token is asked for, kept in this browser and forgotten", { tokens: TOKENS }, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", delay: "1h" });
  await tab.go("topics/mail");
  await tab.heading("Sign in").waitFor();
  assert.equal(await page.getByRole("navigation").count(), 0);
  await signIn(tab, "linger_wrong");
  await tab.sees("Not accepted: this token is not known");
  await signIn(tab, server.tokens.ops);
  await tab.heading("mail").waitFor();
  await page.reload();
  await tab.heading("mail").waitFor();
  const kept = await page.evaluate(() => [JSON.stringify(localStorage), document.cookie, location.href].join());
  assert.ok(!kept.includes(server.tokens.ops), kept);
  await tab.text("The same with curl").click();
  const command = await page.locator(".command code").innerText();
  assert.ok(command.includes("Bearer $LINGER_TOKEN") && !command.includes(server.tokens.ops), command);

  const second = await tab.newPage();
  await second.goto(`${tab.base}#/`);
  await second.getByRole("link", { name: "mail", exact: true }).waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await tab.heading("Sign in").waitFor();
  await second.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.deepEqual(await second.evaluate(() => Object.keys(sessionStorage)), []);
});

onEveryEngine("a token that may only read sees no button and why", { tokens: TOKENS }, async ({ server, tab, page }) => {
  await server.bury("mail", "d", "no");
  await tab.go("topics/mail");
  await signIn(tab, server.tokens.reader);
  await tab.sees("This token lacks the scopes add and admin for this topic.");
  for (const gone of ["Pause delivery", "Pause intake", "Purge …", "Add job"]) assert.equal(await tab.button(gone).count(), 0, gone);
  await tab.go("jobs/d");
  await tab.sees("This token lacks");
  for (const gone of ["Replay", "Delete …"]) assert.equal(await tab.button(gone).count(), 0, gone);
  await tab.go("topics/mail/dead");
  await tab.sees("of 1 dead letter");
  assert.equal(await page.getByRole("button", { name: "Replay “no”" }).count(), 0);
  await page.getByRole("button", { name: "Sign out" }).click();
  await signIn(tab, server.tokens.ops);
  await page.getByRole("button", { name: "Replay “no”" }).waitFor();
});

onEveryEngine("a token for some topics sees these", { tokens: TOKENS }, async ({ server, tab, page }) => {
  await server.add({ topic: "mail.out", delay: "1h" });
  await server.add({ topic: "orders", id: "secret", delay: "1h" });
  await tab.go();
  await signIn(tab, server.tokens.mailer);
  await page.getByRole("link", { name: "mail.out", exact: true }).waitFor();
  await tab.sees("All is well.");
  assert.equal(await page.getByRole("link", { name: "orders", exact: true }).count(), 0);
  await tab.until(() => !document.querySelector(".timeline"));
  assert.equal(await page.locator(".totals dd").first().innerText(), "1");
  await page.getByRole("link", { name: "mail.out", exact: true }).click();
  await tab.heading("mail.out").waitFor();
  await tab.button("Add job").waitFor();
  await tab.sees("This token lacks the scope admin for this topic.");
  await tab.go("topics/orders");
  await tab.sees("this token is not for this topic");
  await tab.go("jobs/secret");
  await tab.sees("There is no such job");
});

onEveryEngine("the title is shown and bodies are hidden where the settings say so", {
  settings: { UI__TITLE: "prod <b>", UI__HIDE_BODIES: "true" },
}, async ({ server, tab, page }) => {
  await server.add({ topic: "t", id: "a", delay: "1h", body: "personal" });
  await tab.go("jobs/a");
  await tab.sees("prod <b>");
  await tab.button("Show the body").waitFor();
  assert.equal(await page.getByText("personal").count(), 0);
  await tab.button("Show the body").click();
  await tab.sees('"personal"');
});

for (const keepsHost of [true, false]) {
  const named = { SERVER__ALLOWED_HOSTS: "queue.localhost" };
  const settings = keepsHost ? {} : named;
  onEveryEngine(`a proxy serves it below a path and ${keepsHost ? "keeps" : "replaces"} the host`, { settings }, async ({ server, page }) => {
    const proxy = await proxyOf(server, keepsHost);
    try {
      // Browsers resolve every name below localhost to this machine.
      await page.goto(`http://queue.localhost:${proxy.port}/queue/ui`);
      assert.equal(page.url(), `http://queue.localhost:${proxy.port}/queue/ui/`);
      await page.getByText("There is no job yet").waitFor();
      await page.goto(`http://queue.localhost:${proxy.port}/queue/ui/#/topics/mail`);
      await page.getByLabel("Delay").fill("1h");
      await page.getByRole("button", { name: "Add job" }).click();
      await page.getByRole("status").getByText("Added").waitFor();
      await page.getByRole("button", { name: "Pause delivery" }).click();
      await page.getByText("Delivery of mail is paused.").waitFor();
    } finally {
      proxy.stop();
    }
  });
}

onEveryEngine("what strangers write is text", {}, async ({ server, tab, page }) => {
  const markup = `<img src=x onerror="alert(1)"><script>alert(2)</script><a href="javascript:alert(3)">x</a>`;
  const hidden = "\u202ereversed\u0000\u001b[31m\u200b";
  const large = "x".repeat(200 * 1024);
  await server.add({ topic: "t", id: "marked", delay: "1h", body: { markup, hidden, "<b>": 1 } });
  await server.add({ topic: "t", id: "large", delay: "1h", body: large });
  await server.bury("dead", "letter", `${markup}${hidden}`);
  await tab.go("jobs/marked");
  await tab.sees("onerror");
  const body = () => page.locator(".body pre");
  assert.ok((await body().innerText()).includes(JSON.stringify(markup)));
  assert.ok((await body().innerText()).includes("U+202E"), "what changes the order of letters is shown");
  assert.ok(!(await body().innerText()).includes("\u202e"));
  await tab.go("topics/dead/dead");
  await tab.sees("onerror");
  assert.ok((await page.locator(".job p.reason").innerText()).startsWith(markup));
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

onEveryEngine("a policy keeps scripts of others out", {}, async ({ server }) => {
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
