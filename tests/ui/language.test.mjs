// English and Chinese: that every text has both, which one is shown, and that nothing on the Chinese pages is English.
import assert from "node:assert/strict";
import { once } from "node:events";
import fs from "node:fs";
import http from "node:http";
import { test } from "node:test";
import { texts } from "../../ui/js/zh.js";
import { Tab, inBrowser, refusal } from "./harness.mjs";

const FOLDER = new URL("../../ui/js/", import.meta.url);
const SOURCES = fs.readdirSync(FOLDER, { recursive: true }).filter((name) => name.endsWith(".js") && name !== "zh.js");

/** The keys of the texts that a module has: of its templates with the mark `t`. */
function keysOf(source) {
  const keys = [];
  const ends = (at, end) => {
    while (source[at] !== end) at += source[at] === "\\" ? 2 : 1;
    return at + 1;
  };
  const template = (at, isText) => {
    let [key, values] = ["", 0];
    while (source[at] !== "`") {
      const [from, isValue] = [at, source.startsWith("${", at)];
      at = isValue ? code(at + 2) + 1 : at + (source[at] === "\\" ? 2 : 1);
      key += isValue ? `{${values++}}` : source.slice(from, at).replace(/^\\/, "");
    }
    if (isText) keys.push(key);
    return at + 1;
  };
  /** Reads on to the end of a block. */
  const code = (at) => {
    while (at < source.length && source[at] !== "}") {
      const before = source.slice(Math.max(at - 30, 0), at);
      if (source[at] === "`") at = template(at + 1, /(^|[^\w.$])t$/.test(before));
      else if (source[at] === "{") at = code(at + 1) + 1;
      else if (/["']/.test(source[at])) at = ends(at + 1, source[at]);
      else if (source.startsWith("//", at)) at = ends(at, "\n");
      else if (source.startsWith("/*", at)) at = source.indexOf("*/", at) + 2;
      else if (source[at] === "/" && /[(=,:!&|]\s*$/.test(before)) at += source.slice(at).match(/^\/(\[([^\]\\]|\\.)*\]|\\.|[^/\\[])+\//)[0].length;
      else at += 1;
    }
    return at;
  };
  assert.equal(code(0), source.length, "all of it is read");
  return keys;
}

/** The keys of the numbers of things, whose English has two forms. */
const keysOfCounts = (source) => [...source.matchAll(/\bcounted\((?:[^()"]|\([^()]*\))*, "(\w[\w ]*)"\)/g)].map(([, noun]) => `{0} ${noun}s`);

const placesOf = (text) => [...new Set(text.match(/\{\d\}/g))].sort();

test("every text has a Chinese one with the same values, and there is no other", () => {
  const found = new Set();
  for (const name of SOURCES) {
    const source = fs.readFileSync(new URL(name, FOLDER), "utf8");
    const counts = keysOfCounts(source);
    for (const key of [...keysOf(source), ...counts]) found.add(key);
    const calls = source.split(/\bcounted\(/).length - 1 - (name === "format.js" ? 1 : 0);
    assert.equal(counts.length, calls, `${name} names what it counts`);
  }
  assert.deepEqual([...found].filter((key) => !Object.hasOwn(texts, key)), [], "texts without Chinese");
  assert.deepEqual(Object.keys(texts).filter((key) => !found.has(key)), [], "Chinese without a text");
  for (const [key, text] of Object.entries(texts)) {
    assert.deepEqual(placesOf(text), placesOf(key), key);
    assert.ok(text !== key || !/[a-z]/i.test(key), `“${key}” is in Chinese`);
    assert.ok(!/\p{Script=Han} ?[,;:?!()]|[,;:?!()] ?\p{Script=Han}/u.test(text), `“${text}” has the signs of Chinese`);
    assert.ok(!/\p{Script=Han}[a-z0-9]|[a-z0-9]\p{Script=Han}/iu.test(text), `“${text}” has spaces around Latin words`);
  }
});

/** Words that are the same in Chinese: names, units, formats, keys, what the API calls things. */
const SAME = /\b(Linger|Redis|SQLite|JSON|ASCII|TTR|URL|ID|HTTP|UTC|GMT|Cron|curl|Shift|Esc|Enter|p99|[KMG]iB|POST|English|30m|1h30m|1h|2h|2d|15s|3m|1m)\b/g;
/** Data that is shown where the markup does not tell it from texts. */
const DATA = /\b(Asia\/Shanghai|Europe\/Berlin|embedded|always|https?:\S*|(queue|server)\.\w+|127\.0\.0\.1|\d{4}-\d\d-\d\dT[\d:.]+Z)/g;

/** The texts on the page that have English words. Names, code and texts of clients are in elements of their own. */
async function english(page) {
  const shown = await page.evaluate(() => {
    const [data, attributes] = ["code, pre, kbd, bdi, .mono, option, script, style, noscript", ["aria-label", "aria-valuetext", "title", "placeholder", "data-name", "label"]];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = [document.title];
    while (walker.nextNode()) if (!walker.currentNode.parentElement.closest(data)) found.push(walker.currentNode.data);
    found.push(...[...document.querySelectorAll("option")].map(({ label }) => label).filter((label) => !/^\w+(\/\w+)*$/.test(label) || /^[a-z]/.test(label)));
    for (const name of attributes) found.push(...[...document.body.querySelectorAll(`[${name}]`)].map((element) => element.getAttribute(name)));
    return found;
  });
  return shown.filter((text) => /[A-Za-z]{2}/.test(text.replace(DATA, "").replace(SAME, "")));
}

const CHINESE = { locale: "zh-CN", timezoneId: "Asia/Shanghai" };

/** Jobs in all states, with names that have no letters. */
async function fill(server, url) {
  const call = (...request) => server.call(...request);
  const { add } = server;
  await call("PUT", "topics/1001", { ttr: "2m", retry: ["1m"], expire: "1d", dedup: "1h", require_receipt: true });
  for (let n = 0; n < 12; n += 1) await server.bury("1001", `${100 + n}`, "没有这个用户");
  await server.bury("1001", "120", "超时");
  for (let n = 0; n < 12; n += 1) await add({ topic: "1001", id: `${200 + n}`, delay: `${n * n + 1}m`, body: { 名称: "订单" } });
  for (let n = 0; n < 3; n += 1) await add({ topic: "1001", id: `${300 + n}`, ttr: "1h", expire: "30m" });
  for (let n = 0; n < 2; n += 1) {
    const { id, receipt } = await call("POST", "topics/1001/pop?worker=7");
    await call("POST", `jobs/${id}/touch`, { receipt, note: "已处理 3 个文件" });
  }
  await call("PATCH", "jobs/205", { delay: "3h" });
  await add({ topic: "1002", id: "400" });
  await call("POST", "topics/1002/pause", { delivery: true, reason: "银行维护", until: "2h" });
  await call("POST", "topics/1002/pause", { intake: true });
  await call("PUT", "topics/1003", { callback: { url, rate: 5, concurrency: 2, timeout: "5s" } });
  await add({ topic: "1003", id: "500" });
  await call("PUT", "schedules/2001", { cron: "30 2 * * *", time_zone: "Europe/Berlin", jitter: "2m", job: { topic: "1001" } });
  await call("PUT", "schedules/2002", { every: "1h", missed: "all", overlap: "allow", job: { topic: "1001" } });
  await call("POST", "schedules/2002/pause");
  await call("POST", "bulk", { id: "3001", action: "reschedule", filter: { topic: "1001", state: "delayed", id_prefix: "20" }, shift: "1h", limit: 5, dry_run: false });
  await call("POST", "bulk", { id: "3002", action: "delete", filter: { topic: "1001", state: "dead", reason_prefix: "超" }, limit: 1, dry_run: false });
}

/** Each page by its address, and a text on it once it shows what it is about. */
const PAGES = [
  ["?range=24h&topics=1&table=1", "范围内"], ["topics/1001", "等待最久"], ["topics/1002", "任务等待中"], ["topics/1003", "最近一次失败"], ["topics/1009", "没有这个主题"],
  ["jobs?topic=1001", "211"], ["jobs?state=dead&reason_prefix=没", "没有这个用户"], ["jobs?state=reserved", "处理截止"], ["jobs?state=ready&topic=1001&id_prefix=9", "没有符合条件的任务"],
  ["jobs/205", "已从"], ["jobs/302", "就绪"], ["jobs/100", "成为死信"], ["jobs/999", "没有这个任务"],
  ["dead", "没有这个用户"], ["topics/1001/dead", "最早"], ["schedules", "每天 02:30"], ["schedules/2001", "时钟会跳过"], ["schedules/2002", "已暂停"],
  ["workers", "最近拉取"], ["callbacks", "退避中"], ["bulk", "已完成"], ["bulk/3001", "推后 1 小时"], ["audit", "暂停主题"], ["server", "健康状态"], ["nowhere", "页面不存在"],
];

/** What opens each dialog, by its page, and a text in it. */
const DIALOGS = [
  ["topics/1001", "添加任务…", "对应的 curl 命令"], ["topics/1001", "清空…", "无法恢复"], ["topics/1002", "投递暂停的原因和结束时间", "自动结束"],
  ["jobs/205", "改期…", "从现在起"], ["jobs/205", "删除…", "此操作无法撤销"], ["jobs/205", "复制任务…", "尝试次数、过期、回调"],
  ["jobs?topic=1001", "改期所有匹配的任务…", "新的到期时间"], ["topics/1001/dead", "先重新投递 10 个“没有这个用户”", "尝试次数重新计算"],
  ["schedules/2001", "修改…", "分 时 日 月 星期"], ["schedules/2001", "删除…", "将不再触发"], ["server", "菜单", "单键快捷键"],
];

/** Opens a page, and looks for English on it once it shows a text. */
async function see({ tab, page }, [fragment, text]) {
  await tab.go(fragment);
  await tab.sees(text);
  await tab.until(() => !document.querySelector(".loading"));
  assert.deepEqual(await english(page), [], `English on ${fragment}`);
}

/** Fills a server, with an endpoint of callbacks that fails while `act` runs. */
async function whileFull(server, act) {
  const endpoint = http.createServer((request, response) => response.writeHead(503, { "retry-after": "600" }).end());
  await once(endpoint.listen(0, "127.0.0.1").unref(), "listening");
  await fill(server, `http://127.0.0.1:${endpoint.address().port}/`);
  await act();
  endpoint.close();
}

inBrowser("no English is on the Chinese pages of an empty server", { tab: CHINESE }, async (site) => {
  const empty = [["", "还没有任务"], ["jobs", "没有符合条件的任务"], ["dead", "没有死信"], ["schedules", "没有定时计划"],
    ["workers", "没有消费者拉取"], ["callbacks", "没有调用过任何端点"], ["bulk", "没有批量操作"], ["audit", "没有调用记录"]];
  for (const one of empty) await see(site, one);
});

// Several tests, because a busy machine takes minutes for all pages.
for (const [n, pages] of [PAGES.slice(0, 9), PAGES.slice(9, 18), PAGES.slice(18)].entries()) {
  inBrowser(`no English is on the Chinese pages of a full server, part ${n + 1}`, { tab: CHINESE }, async (site) => {
    await whileFull(site.server, async () => {
      for (const one of pages) {
        await see(site, one);
        await site.tab.check(one[0]);
      }
    });
  });
}

inBrowser("no English is in the Chinese dialogs", { tab: CHINESE }, async ({ server, tab, page }) => whileFull(server, async () => {
  for (const [fragment, button, text] of DIALOGS) {
    await tab.go(fragment);
    await page.getByRole("button", { name: button, exact: button !== "菜单" }).first().click();
    await page.locator("dialog, .menu").getByText(text).first().waitFor();
    assert.deepEqual(await english(page), [], `English in ${button}`);
    await tab.check(button);
    await page.keyboard.press("Escape");
  }
  await page.keyboard.press("?");
  await page.locator("dialog").waitFor();
  assert.deepEqual(await english(page), [], "English in the list of keys");
}));

inBrowser("problems, pauses and refusals are in Chinese, and fit on a phone", { tab: { ...CHINESE, width: 390, height: 844 } }, async ({ server, tab, page }) => {
  await fill(server, "http://127.0.0.1:65000/");
  for (const [fragment] of PAGES) {
    await tab.go(fragment);
    await page.locator("main h1, main h2").first().waitFor();
    await tab.until(() => !document.querySelector(".loading"));
    await tab.check(`${fragment} on a phone`);
  }
  await tab.go("jobs/205");
  await tab.button("立即执行").click();
  await tab.sees("205 已就绪。");
  assert.deepEqual(await english(page), []);
  for (const [status, title] of [[403, "没有权限"], [429, "请求过于频繁"], [503, "服务器暂时无法执行此操作"]]) {
    await page.route("**/workers", (route) => route.fulfill(refusal(status, "busy", "")));
    await tab.go("bulk");
    await tab.go("workers");
    await tab.sees(title);
    await tab.sees("服务器繁忙，请稍后重试。");
    assert.deepEqual(await english(page), [], title);
    await page.unroute("**/workers");
  }
});

inBrowser("the sign-in is in Chinese", { tab: CHINESE, tokens: { ops: ["--scope", "admin"], reader: ["--scope", "read"] } }, async ({ server, tab, page }) => {
  await tab.go("topics/1001");
  await tab.heading("登录").waitFor();
  assert.deepEqual(await english(page), []);
  await tab.check("the sign-in");
  const signIn = async (token) => {
    await page.getByLabel("令牌").fill(token);
    await tab.button("登录").click();
  };
  await signIn("linger_wrong");
  await tab.sees("此服务器不认识这个令牌。");
  await signIn(server.tokens.reader);
  await tab.sees("没有这个主题");
  await tab.sees("此令牌缺少该主题的 add 和 admin 权限。");
  assert.equal(await page.evaluate(() => document.documentElement.lang), "zh-CN");
});

/** What a page says of its language. */
const shown = (page) => page.evaluate(() => [document.documentElement.lang, document.querySelector("nav a")?.textContent]);
const [ENGLISH_PAGE, CHINESE_PAGE] = [["en", "Overview"], ["zh-CN", "概览"]];

inBrowser("the language is the first of the browser that there is, unless another one is chosen", {}, async ({ server, tab, page }) => {
  for (const [languages, expected] of [
    [["zh-CN"], CHINESE_PAGE], [["zh"], CHINESE_PAGE], [["zh-Hans-SG"], CHINESE_PAGE], [["zh-TW"], CHINESE_PAGE], [["fr", "zh-CN", "en"], CHINESE_PAGE],
    [["en-GB", "zh-CN"], ENGLISH_PAGE], [["de-DE"], ENGLISH_PAGE], [[], ENGLISH_PAGE],
  ]) {
    const other = await Tab.open(server);
    await other.context.addInitScript((value) => Object.defineProperty(navigator, "languages", { value }), languages);
    await other.go("workers");
    await other.page.locator("main h1").waitFor();
    assert.deepEqual(await shown(other.page), expected, languages.join());
    assert.deepEqual(other.errors, []);
    await other.context.close();
  }
  await tab.go("server");
  await tab.menu();
  await page.getByLabel("简体中文").click();
  await tab.heading("服务器").waitFor();
  assert.deepEqual(await shown(page), CHINESE_PAGE);
  await page.reload();
  await tab.heading("服务器").waitFor();
  await tab.menu();
  assert.ok(await page.getByLabel("简体中文").isChecked());
  await page.getByLabel("浏览器").click();
  await tab.heading("Server").waitFor();
  assert.deepEqual(await shown(page), ENGLISH_PAGE);
});

inBrowser("where the Chinese texts cannot be loaded, the page is English and works", { tab: CHINESE }, async ({ server, tab, page }) => {
  await page.route("**/js/zh.js", (route) => route.abort());
  await server.add({ topic: "mail", id: "one", delay: "1h" });
  await tab.go("jobs/one");
  await tab.button("Run now").click();
  await tab.sees("one is ready.");
  assert.deepEqual(await shown(page), ENGLISH_PAGE);
});

inBrowser("a moment names its zone and can be copied as the API has it", { tab: CHINESE }, async ({ server, tab, page }) => {
  const at = "2100-03-01T01:30:00.000Z";
  await server.add({ topic: "mail", id: "one", at });
  await tab.go("jobs/one");
  const due = page.locator(".facts").getByText("2100年3月1日 09:30:00");
  await due.waitFor();
  assert.equal(await due.getAttribute("title"), `2100年3月1日 09:30:00 Asia/Shanghai (GMT+8)\n${at}`);
  await Promise.all([tab.shows("已复制"), tab.button(`复制 ${at}`).click()]);
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), at);
  await tab.button("改期…").click();
  await page.getByLabel("指定时间").check();
  await page.locator("dialog").getByText("时区：Asia/Shanghai (GMT+8)").waitFor();
  await page.getByLabel("时间", { exact: true }).fill("2100-03-01T10:00:30");
  await page.locator("dialog").getByText("即 2100-03-01 02:00:30 UTC").waitFor();
  await tab.go("jobs");
  await tab.sees("时区：Asia/Shanghai (GMT+8)");
});
