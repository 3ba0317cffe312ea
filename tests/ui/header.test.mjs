// The header: it stays in sight, hides nothing, counts what is wrong, and says who is signed in.
import assert from "node:assert/strict";
import { alter, inBrowser, onEveryEngine } from "./harness.mjs";

const link = (page, name) => page.locator(".top nav").getByRole("link", { name, exact: true });

onEveryEngine("the header counts dead letters and failing callbacks, and the title the topics in trouble", {}, async ({ server, tab, page }) => {
  await server.bury("mail", "one", "no");
  // The server itself answers with 404.
  await server.add({ topic: "calls", id: "two", retry: ["1h"], callback: { url: `${server.url}nowhere` } });
  await tab.go();
  await link(page, "Dead letters 1").waitFor();
  await link(page, "Callbacks 1 failing").waitFor();
  await link(page, "Bulk").waitFor();
  await tab.until(() => document.title === "(2) Overview · Linger");
  await tab.go("server");
  await tab.until(() => document.title === "Server · Linger");
  await link(page, "Callbacks 1 failing").waitFor();
});

// The dot in the header breathes here, as it does by default; other tests go without, since the browser draws each of its frames.
inBrowser("operations count at all processes, failing callbacks at the one that knows most", { tab: { reducedMotion: "no-preference" } }, async ({ tab, page }) => {
  await page.route("**/stats*", (route) => alter(route, (stats) => {
    const [process] = stats.processes;
    const others = [{ operations: 1, failing_topics: 2 }, { operations: 2, failing_topics: 1 }].map((load) => ({ ...process, ...load }));
    // An earlier version says nothing.
    const { operations, failing_topics, ...earlier } = process;
    return { ...stats, processes: [...others, earlier] };
  }));
  await tab.go("server");
  await link(page, "Bulk 3 running").waitFor();
  await link(page, "Callbacks 2 failing").waitFor();
});

inBrowser("the header stays in sight and covers nothing that has the focus", {}, async ({ server, tab, page }) => {
  await server.call("POST", "batch/jobs", { jobs: Array.from({ length: 60 }, (_, n) => ({ topic: "mail", id: `job-${n}`, delay: "1h" })) });
  const header = () => page.locator(".top").boundingBox();
  for (const [width, most] of [[1440, 48], [1024, 96], [390, 108]]) {
    await page.setViewportSize({ width, height: 900 });
    await tab.go("jobs");
    await page.locator("[data-row]").nth(49).waitFor();
    await page.evaluate(() => scrollTo(0, 0));
    await tab.check(`jobs at ${width}`);
    const { height } = await header();
    assert.ok(height <= most, `the header is ${height} tall at ${width}`);
    const current = await page.locator(".top [aria-current]").boundingBox();
    assert.ok(current.x >= 0 && current.x + current.width <= width, "the present page is seen");
    await page.locator("[data-row] a").nth(40).focus();
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    assert.equal((await header()).y, 0);
    for (let n = 0; n < 70; n += 1) {
      await page.keyboard.press("Shift+Tab");
      const [top, bottom] = await page.evaluate(() => {
        const { activeElement: focused } = document;
        return [focused.closest("main") ? focused.getBoundingClientRect().top : Infinity, document.querySelector(".top").getBoundingClientRect().bottom];
      });
      assert.ok(top >= bottom, `something at ${top} has the focus below the header at ${width}`);
    }
  }
});

inBrowser("the header says who is signed in and what the token allows", { tokens: { ann: ["--scope", "read", "--scope", "add"] } }, async ({ server, tab, page }) => {
  await tab.go();
  await page.getByLabel("Token").fill(server.token);
  await tab.button("Sign in").click();
  await page.locator(".menu-button").getByText("read, add").waitFor();
  await tab.menu();
  await tab.button("Sign out").click();
  await tab.heading("Sign in").waitFor();
});
