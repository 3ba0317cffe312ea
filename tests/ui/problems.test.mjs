// What people read when a call fails.
import assert from "node:assert/strict";
import { test } from "node:test";
import { inWords } from "../../ui/js/problems.js";
import { inBrowser, refusal } from "./harness.mjs";

test("problems of the API are sentences without pointers and names of HTTP", () => {
  const words = (status, code, detail, errors) => {
    const { title, detail: text } = inWords({ status, code, detail, errors });
    return [title, text];
  };
  assert.deepEqual(words(422, "invalid_job", "/delay must be a duration (and 1 more)", [{ pointer: "/delay", detail: "must be a duration" }, { pointer: "/ttr", detail: "x" }]),
    ["This is not accepted", "The delay must be a duration."]);
  assert.deepEqual(words(422, "invalid_job", "/callback/url is no URL", [{ pointer: "/callback/url", detail: "is no URL" }]), ["This is not accepted", "The callback URL is no URL."]);
  assert.deepEqual(words(422, "invalid_job", "/retry/3 is too long", [{ pointer: "/retry/3", detail: "is too long" }]), ["This is not accepted", "The list after which to retry is too long."]);
  assert.deepEqual(words(400, "invalid_parameter", "id_prefix may only hold letters", [{ parameter: "id_prefix", detail: "may only hold letters" }]),
    ["This is not accepted", "The beginning of the id may only hold letters."]);
  assert.deepEqual(words(403, "forbidden", "this token is not for this topic"), ["This is not allowed", "This token is not for this topic."]);
  const store = words(503, "store_unavailable", "the store does not answer; send this again, that is safe");
  assert.deepEqual(store, ["The server cannot do this now", "Linger cannot reach its store. It tries again by itself; repeat a change once it is back."]);
  assert.deepEqual(words(503, "store_unavailable", "this server only reads; send this again, that is safe"), ["The server cannot do this now", "This server only reads."]);
  assert.equal(words(503, "busy", "4 callers read lists or timelines already")[1], "The server is busy. Try again in a moment.");
});

inBrowser("a failed call says what is wrong once, and offers to try again only where that can help", {}, async ({ server, tab, page }) => {
  await server.bury("mail", "a", "no");
  const problem = refusal(403, "forbidden", "this token is not for this topic");
  const withId = { ...problem, body: JSON.stringify({ ...JSON.parse(problem.body), request_id: "r-17" }) };
  for (const calls of ["**/dead/reasons", "**/jobs?*"]) await page.route(calls, (route) => route.fulfill(withId));
  await tab.go("topics/mail/dead");
  await tab.sees("This is not allowed");
  assert.equal(await tab.text("This is not allowed").count(), 1);
  assert.equal(await tab.button("Retry").count(), 0, "it would be refused again");
  assert.ok(!(await tab.text("r-17").isVisible()), "the id of the request is folded");
  await tab.text("Details").click();
  await tab.sees("request r-17");
  await page.unroute("**/dead/reasons");
  await page.unroute("**/jobs?*");
  await page.route("**/jobs?*", (route) => route.fulfill(refusal(503, "busy", "4 callers read lists already")));
  await tab.go("jobs?state=dead");
  await tab.sees("The server is busy.");
  await page.unroute("**/jobs?*");
  await tab.button("Retry").click();
  await page.getByRole("link", { name: "a", exact: true }).waitFor();

  await tab.go("jobs/a");
  await page.route("**/requeue", (route) => route.fulfill(withId));
  await tab.button("Replay").click();
  await tab.sees("Not replayed.");
  await tab.go("jobs?state=ready");
  await tab.text("Not replayed.").waitFor({ state: "detached" });
});

inBrowser("the outcome of a change goes with its page, and comes along to the page that it is about", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", delay: "1h" });
  await tab.go("topics/mail");
  await tab.button("Pause intake").click();
  await tab.sees("Intake of mail is paused.");
  await page.getByRole("link", { name: "30 d" }).click();
  assert.ok(await tab.text("Intake of mail is paused.").isVisible(), "it is the same page");
  await page.getByRole("link", { name: "Server", exact: true }).click();
  await tab.text("Intake of mail is paused.").waitFor({ state: "detached" });
  await page.getByRole("link", { name: "Schedules", exact: true }).click();
  await tab.button("New schedule …").click();
  await page.getByLabel("Name").fill("nightly");
  await page.locator("dialog .runs li").first().waitFor();
  await tab.button("Save").click();
  await tab.heading("nightly").waitFor();
  await tab.sees("nightly is made.");
});

inBrowser("a change that a paused server has not begun is sent again", {}, async ({ server, tab, page }) => {
  await server.add({ topic: "mail", delay: "1h" });
  await tab.go("topics/mail");
  await page.route("**/pause", (route) => route.fulfill(refusal(503, "not_begun", "the server was paused, so nothing was done")), { times: 1 });
  await tab.button("Pause intake").click();
  await tab.sees("Intake of mail is paused.");
});
