// The behaviour of the pages: accessibility, the keyboard alone, small screens, and a server that is away.
import assert from "node:assert/strict";
import os from "node:os";
import { inBrowser, refusal } from "./harness.mjs";

async function fill(server) {
  await server.call("PUT", "topics/mail", { ttr: "5m", callback: { url: "http://127.0.0.1:59999/hook", rate: 5 } });
  await server.add({ topic: "mail", id: "calls", delay: "1h" });
  for (let n = 0; n < 3; n += 1) await server.bury("orders", `order:${n}`, "payment declined");
  await server.add({ topic: "orders", id: "orders:1001:close", delay: "30m", body: { order: 1001 } });
  await server.add({ topic: "a-topic-with-a-name-that-is-as-long-as-they-may-be.".repeat(2) + "x".repeat(22), delay: "1h" });
  await server.call("POST", "topics/orders/pause", { delivery: true });
  await server.call("POST", "bulk", { id: "moved", action: "reschedule", filter: { topic: "mail" }, shift: "-1m", dry_run: false, limit: 9 });
}

const PAGES = ["", "bulk/moved", "?range=24h&table=1", "topics/orders", "topics/mail", "topics/none", "topics/orders/dead", "dead", "jobs", "jobs?state=dead&topic=orders", "bulk", "jobs/orders%3A1001%3Aclose", "jobs/order%3A0",
  "jobs/none", "server", "nowhere"];

// 320 px is a window of 1280 px at 400 %. Colours do not depend on the width.
const SCHEMES = { 320: ["light"], 390: ["dark"], 1440: ["light", "dark"] };
for (const width of [320, 390, 1440]) {
  for (const colorScheme of process.env.UI_EVERY_ENGINE ? ["light", "dark"] : SCHEMES[width]) {
    const options = { tab: { width, colorScheme, reducedMotion: "reduce" } };
    inBrowser(`pages are accessible at ${width} px, ${colorScheme}`, options, async ({ server, tab, page }) => {
      await fill(server);
      for (const target of PAGES) {
        await tab.go(target);
        await page.locator("main h1").waitFor();
        await tab.until(() => !document.querySelector(".loading"));
        await tab.check(target);
      }
      await tab.go("topics/orders/dead");
      await tab.button("Delete all that match …").click();
      await tab.sees("All dead jobs of orders: 3 jobs.");
      await tab.check("a question");
      await page.keyboard.press("Escape");
      await tab.go("topics/orders");
      await tab.button("Add a job …").click();
      await tab.text("Attempts, expiry, callback").click();
      await tab.text("The same with curl").click();
      await tab.check("a new job and its command");
      await page.keyboard.press("Escape");
      await page.keyboard.press("?");
      await tab.heading("Keys").waitFor();
      await tab.check("the keys");
      await page.keyboard.press("Escape");
      await tab.menu();
      await page.locator(".menu").waitFor();
      await tab.check("the menu");
      if (width < 1000) {
        const small = await page.$$eval("button, .top nav a, input, .pick, summary", (found) =>
          found.filter((target) => target.offsetParent && target.getBoundingClientRect().height < 43.5 && !target.matches(".link, [type=radio], [type=checkbox]"))
            .map((target) => target.outerHTML));
        assert.deepEqual(small, [], "targets are large enough to touch");
      }
    });
  }
}

for (const [width, colorScheme] of [[320, "dark"], [1440, "light"]]) {
  const tokens = { mailer: ["--scope", "read,add", "--topic", "mail*"] };
  const options = { tab: { width, colorScheme, reducedMotion: "reduce" }, tokens };
  inBrowser(`pages with nothing on them are accessible at ${width} px, ${colorScheme}`, options, async ({ server, tab, page }) => {
    await tab.go();
    await tab.heading("Sign in").waitFor();
    await tab.check("the sign-in");
    await page.getByLabel("Token").fill("linger_wrong");
    await tab.button("Sign in").click();
    await tab.sees("Not accepted.");
    await tab.check("a refused token");
    await page.getByLabel("Token").fill(server.tokens.mailer);
    await tab.button("Sign in").click();
    await tab.sees("There is no job yet");
    await tab.check("a server without jobs");
    await tab.go("topics/orders");
    await tab.sees("this token is not for this topic");
    await tab.check("a refused page");
  });
}

/** Runs in the page: whether some of these elements have another background than the others, as it is painted. */
const areDistinct = (selector) => {
  const canvas = getComputedStyle(document.documentElement).backgroundColor;
  const painted = (element) => getComputedStyle(element).backgroundColor.replace(/^rgba.*, 0\)$/, canvas);
  return new Set([...document.querySelectorAll(selector)].map(painted)).size === 2;
};

for (const colorScheme of ["light", "dark"]) {
  const options = { tab: { forcedColors: "active", colorScheme } };
  inBrowser(`the current choice is seen in forced colours, ${colorScheme}`, options, async ({ server, tab, page }) => {
    await fill(server);
    await tab.go("?scale=log");
    await page.locator(".chart .due").first().waitFor();
    for (const choices of [".top nav a", ".segments a", ".timeline button[aria-pressed]"]) {
      assert.ok(await page.evaluate(areDistinct, choices), choices);
    }
    await tab.menu();
    assert.ok(await page.evaluate(areDistinct, ".choice:first-of-type .segments span"), "a choice");
    await page.keyboard.press("Escape");
    const dot = () => page.locator(".live .dot").evaluate((dot) => getComputedStyle(dot).backgroundColor);
    const on = await dot();
    await page.keyboard.press("l");
    await page.locator(".live.off").waitFor();
    assert.notEqual(await dot(), on);
  });

  inBrowser(`a pressed button is seen, ${colorScheme}`, { tab: { colorScheme } }, async ({ server, tab, page }) => {
    await fill(server);
    await tab.go("?scale=log");
    await page.locator(".chart text").getByText("log", { exact: true }).waitFor();
    const contrast = await tab.button("Log").evaluate((button) => {
      const brightness = (colour) => {
        const parts = colour.match(/[\d.]+/g).slice(0, 3).map((part) => part / 255);
        const [r, g, b] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const [edge, card] = [getComputedStyle(button).borderTopColor, getComputedStyle(button.closest(".card")).backgroundColor].map(brightness);
      return (Math.max(edge, card) + 0.05) / (Math.min(edge, card) + 0.05);
    });
    assert.ok(contrast >= 3, `${contrast}`);
    await tab.button("Log").click();
    await page.locator(".chart text").getByText("log", { exact: true }).waitFor({ state: "detached" });
  });
}

inBrowser("the keyboard alone is enough", {}, async ({ server, tab, page }) => {
  await fill(server);
  const press = (...keys) => keys.reduce((done, key) => done.then(() => page.keyboard.press(key)), Promise.resolve());
  await tab.go();
  await tab.sees("In trouble");
  await press("/");
  await page.keyboard.type("orders:1001:close");
  await press("Enter");
  await tab.heading("orders:1001:close").waitFor();
  await tab.pressAtOnce("g", "o");
  await tab.sees("In trouble");
  await press("j", "Enter");
  await tab.heading("orders").waitFor();
  await tab.pressAtOnce("g", "d");
  await tab.heading("Dead letters").waitFor();
  // The keys move among the rows that are there.
  await tab.sees("order:2");
  await press("j", "j", "k", "Enter");
  await tab.heading("order:0").waitFor();
  await tab.pressAtOnce("g", "s");
  await tab.heading("Server").waitFor();
  await tab.until(() => document.activeElement.matches("h1"));
  await tab.pressAtOnce("g", "j");
  await tab.heading("Jobs").waitFor();
  await press("l");
  await page.locator(".live.off").waitFor();
  await press("l");
  await page.locator(".live.on").waitFor();
  await press("?");
  await tab.heading("Keys").waitFor();
  await press("g", "o", "Escape");
  await tab.heading("Jobs").waitFor();
  assert.equal(await page.getByRole("dialog").count(), 0);

  // From the job to its deletion with Tab and Enter.
  await tab.go("jobs/order%3A0");
  await tab.button("Delete …").waitFor();
  const focused = () => page.evaluate(() => document.activeElement.innerText);
  for (let steps = 0; (await focused()) !== "Delete …"; steps += 1) {
    assert.ok(steps < 20, "the button can be reached");
    await press("Tab");
  }
  await press("Enter");
  await page.getByRole("dialog", { name: "Delete this job?" }).waitFor();
  await press("Tab", "Enter");
  await tab.sees("Deleted 1 of 1 job.");
  await tab.sees("This job is gone:");

  await tab.go("server");
  await tab.sees(`${os.hostname()}/${server.child.pid}`);
  await tab.menu();
  await page.locator("fieldset").filter({ hasText: "Single-key shortcuts" }).getByLabel("Off").check();
  await press("Escape");
  await tab.pressAtOnce("g", "o");
  await press("?");
  assert.equal(await page.getByRole("dialog").count(), 0);
  await tab.heading("Server").waitFor();
  await tab.menu();
  await tab.button("Keys").click();
  await tab.heading("Keys").waitFor();
  await press("Escape");
  assert.ok(await page.locator(".menu-button").evaluate((button) => button === document.activeElement), "the focus is where it was");
});

inBrowser("a link in the header skips to the page", {}, async ({ tab, page }) => {
  await tab.go();
  await tab.sees("There is no job yet");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "MAIN");
});

inBrowser("the server goes and comes back", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", id: "a", delay: "1h" });
  await tab.go();
  await tab.sees("All is well.");
  await server.end();
  await tab.sees(/^As of \d\d:\d\d:\d\d\.$/);
  await tab.sees("The connection failed.");
  await page.locator(".totals.stale").waitFor();
  await page.locator(".well.stale").getByText("All was well at").waitFor();
  assert.equal(await tab.text("All is well.").count(), 0);
  assert.equal(await page.locator(".totals dd").first().innerText(), "1", "the last figures stay");
  await page.reload().catch(() => {});
  // The reload has failed already, but the browser goes on to its own page, which would interrupt the next navigation.
  await page.waitForURL("chrome-error://chromewebdata/");
  await server.run();
  assert.notEqual(await server.job("a"), null);
  await page.goto("about:blank");
  await tab.go("topics/mail");
  await tab.heading("mail").waitFor();
  await tab.button("Pause delivery").waitFor();
  await server.end();
  await tab.button("Pause delivery").click();
  await tab.sees("It is not known whether this was done.");
  await tab.sees(/^As of/);
  await server.run();
  await tab.until(() => !document.querySelector(".stale"));
  await page.locator(".live.on").waitFor();
});

inBrowser("what is not known is not said to be well", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", delay: "1h" });
  await page.route("**/topics?sort=overdue", (route) => route.fulfill(refusal(503, "store_unavailable", "the store does not answer; send this again, that is safe")));
  await tab.go();
  await tab.sees("Whether all is well is not known");
  await tab.sees("Linger cannot reach its store.");
  await tab.button("Retry").waitFor();
  assert.equal(await tab.text("All is well.").count(), 0);
  await page.unroute("**/topics?sort=overdue");
  await tab.sees("All is well.");
});

inBrowser("figures that are refused later have their age", {}, async ({ server, tab, page }) => {
  await server.bury("mail", "a", "no");
  const pages = [["topics/mail", "**/topics/mail", "Pause delivery"], ["topics/mail/dead", "**/dead/reasons", "Replay “no”"],
    ["jobs?state=dead", "**/jobs?*", "Delete all that match …"], ["", "**/topics?limit=*", "Log"], ["jobs/a", "**/jobs/a", "Replay"]];
  for (const [target, calls, ready] of pages) {
    await tab.go(target);
    await tab.button(ready).waitFor();
    await page.route(calls, (route) => route.fulfill(refusal(403, "not_allowed", "this token is not for this topic")));
    await page.locator(".as-of").getByText("this token is not for this topic").waitFor();
    await page.locator(".card.stale").first().waitFor();
    await page.unroute(calls);
    await tab.until(() => !document.querySelector(".as-of, .stale"));
  }
});

inBrowser("while calls fail they become rarer, up to 30 s", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", delay: "1h" });
  await page.clock.install();
  await tab.watchCalls("/topics?limit");
  await tab.go();
  await tab.sees("All is well.");
  // Far enough ahead that the moment has not passed when it arrives, however busy the machine is. A read begins then.
  await page.clock.pauseAt((await page.evaluate(() => Date.now())) + 10_000);
  await tab.until(() => window.calls.every((call) => call.ended));
  const body = '{"code":"draining","detail":"the server is shutting down","request_id":"r-1"}';
  await page.route("**/topics?**", (route) => route.fulfill({ status: 503, contentType: "application/problem+json", body }));
  await page.evaluate(() => window.calls.splice(0));
  await page.clock.runFor(2_000);
  const waits = [2, 4, 8, 16, 30, 30];
  for (const [n, seconds] of waits.entries()) {
    await tab.until((n) => window.calls[n]?.ended, n);
    await tab.sees("the server is shutting down");
    await page.clock.runFor(seconds * 1000);
    await tab.until((n) => window.calls[n + 1], n);
    const pause = await page.evaluate((n) => window.calls[n + 1].began - window.calls[n].ended, n);
    assert.ok(pause >= seconds * 1000 && pause < seconds * 1000 + 500, `call ${n + 2} came after ${pause} ms`);
  }
  await page.locator(".live.failing").waitFor();
});

inBrowser("a hidden tab and a stopped one ask nothing", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", delay: "1h" });
  await page.clock.install();
  await tab.go();
  await tab.sees("All is well.");
  let calls = 0;
  page.on("request", (request) => (calls += request.url().includes("/topics?") ? 1 : 0));
  const answered = () => page.waitForResponse((response) => response.url().includes("/topics?"));
  await Promise.all([answered(), page.clock.runFor(2_000)]);
  await tab.setHidden(true);
  calls = 0;
  await page.clock.runFor(60_000);
  assert.equal(calls, 0, "while hidden");
  await Promise.all([answered(), tab.setHidden(false)]);
  await page.keyboard.press("l");
  await page.locator(".live.off").waitFor();
  calls = 0;
  await page.clock.runFor(60_000);
  assert.equal(calls, 0, "while stopped");
  await Promise.all([answered(), page.keyboard.press("r")]);
  await Promise.all([answered(), page.keyboard.press("l")]);
});

inBrowser("a browser whose clock is wrong shows the server's time", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "t", id: "soon", delay: "1h" });
  await page.clock.install({ time: Date.now() + 3 * 3_600_000 });
  await tab.go("jobs/soon");
  await tab.sees(/^(59:\d\d|1:00:00)$/);
});
