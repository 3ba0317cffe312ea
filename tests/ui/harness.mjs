// Servers and browsers for the tests of the dashboard. scripts/ui-tests installs what they need and sets the variables.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import { createRequire } from "node:module";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { after, test } from "node:test";

const require = createRequire(path.join(process.env.UI_TOOLS, "package.json"));
const { chromium } = require("playwright-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const PROGRAM = process.env.LINGER_PROGRAM;
/** As long as the waits of all other tests: a busy machine may take half a minute for a timeline of ten years. */
const WAIT_MS = 300_000;
/** Bounds a test that hangs: the browser's own waits end earlier and say what was missing. */
const TEST_MS = 600_000;

/** Answers a call as the server does, but for what `change` makes of the JSON. */
export async function alter(route, change) {
  const { "if-none-match": known, ...headers } = route.request().headers();
  const response = await route.fetch({ headers });
  await route.fulfill({ response, json: change(await response.json()) });
}

async function freePort() {
  const server = net.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** Waits for the first line of a program that matches. */
async function lineOf(child, pattern, what) {
  let text = "";
  for await (const chunk of child.stdout) {
    text += chunk;
    const found = text.match(pattern);
    if (found) {
      child.stdout.resume();
      return found;
    }
  }
  throw new Error(`${what} did not start: ${text}`);
}

async function ended(child, signal) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill(signal);
  await exit;
}

async function startRedis(directory, appendonly = "yes") {
  const port = await freePort();
  const options = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", appendonly, "--dir", directory];
  const child = spawn("redis-server", options, { stdio: ["ignore", "pipe", "inherit"] });
  await lineOf(child, /Ready to accept connections/i, "redis-server");
  return { url: `redis://127.0.0.1:${port}`, stop: () => ended(child, "SIGKILL") };
}

const newDirectory = () => fs.mkdtempSync(path.join(os.tmpdir(), "linger-ui-"));

/** A server with a store of its own. */
export class Server {
  /** `settings` are variables of the environment, without their first part. `appendonly` is whether Redis keeps what it has. */
  static async start(engine, { appendonly, ...settings } = {}, directory = newDirectory()) {
    const server = new Server();
    server.directory = directory;
    server.redis = engine === "redis" ? await startRedis(server.directory, appendonly) : null;
    server.settings = { ...settings };
    if (server.redis) Object.assign(server.settings, { STORE__ENGINE: "redis", REDIS__URL: server.redis.url });
    server.port = 0;
    await server.run();
    return server;
  }

  /** Tokens that the server knows: their texts by name. `given` are the options of `linger token new` of each. */
  static async withTokens(engine, given, settings = {}) {
    const directory = newDirectory();
    const file = path.join(directory, "tokens.toml");
    const tokens = {};
    for (const [name, options] of Object.entries(given)) {
      const child = spawn(PROGRAM, ["token", "new", "--name", name, ...options, "--append", file], { stdio: ["ignore", "pipe", "inherit"] });
      tokens[name] = (await lineOf(child, /(linger_\S+)/, "linger token"))[1];
      await ended(child, "SIGTERM");
    }
    const server = await Server.start(engine, { ...settings, AUTH__TOKENS_FILE: file }, directory);
    return Object.assign(server, { tokens, token: Object.values(tokens)[0] });
  }

  async run() {
    const env = { ...process.env };
    for (const [name, value] of Object.entries(this.settings)) env[`LINGER__${name}`] = value;
    this.child = spawn(PROGRAM, ["serve", "--listen", `127.0.0.1:${this.port}`], {
      cwd: this.directory,
      env,
      stdio: ["ignore", "pipe", fs.openSync(path.join(this.directory, "log"), "a")],
    });
    const [, port] = await lineOf(this.child, /http:\/\/127\.0\.0\.1:(\d+)/, "linger");
    this.port = Number(port);
    this.url = `http://127.0.0.1:${port}/`;
  }

  /** Ends the process. `run` starts it again at the same port, with the same store. */
  end = () => ended(this.child, "SIGTERM");

  async stop() {
    await ended(this.child, "SIGKILL");
    await this.redis?.stop();
    fs.rmSync(this.directory, { recursive: true, force: true });
  }

  /** A call of the API. Fails unless the status is one of the 200s. Returns what the JSON holds. */
  async call(method, target, body) {
    const headers = body === undefined ? {} : { "content-type": "application/json" };
    if (this.token) headers.authorization = `Bearer ${this.token}`;
    const sent = typeof body === "string" ? body : body === undefined ? undefined : JSON.stringify(body);
    let response, text;
    // A server that stood still for over a second, as one does on a busy machine, has the calls of that time sent again.
    do {
      response = await fetch(new URL(target, this.url), { method, headers, body: sent });
      text = await response.text();
    } while (response.status === 503 && JSON.parse(text).code === "not_begun");
    assert.ok(response.ok, `${method} ${target}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }

  add = (job) => this.call("POST", "jobs", job);

  /** Adds a job and buries it for this reason. */
  async bury(topic, id, reason) {
    await this.add({ topic, id });
    const { receipt } = await this.call("POST", `topics/${topic}/pop`);
    await this.call("POST", `jobs/${encodeURIComponent(id)}/bury`, { receipt, reason });
  }

  /** The job, or null if there is none. */
  async job(id) {
    const headers = this.token ? { authorization: `Bearer ${this.token}` } : {};
    const response = await fetch(new URL(`jobs/${encodeURIComponent(id)}`, this.url), { headers });
    return response.status === 404 ? null : response.json();
  }
}

/** nginx, which serves the server below `/queue/` at a port of its own. `host` is what it sends as `Host`, in its own words. */
export async function nginxOf(server, host) {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "linger-ui-nginx-"));
  const port = await freePort();
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((kind) => `${kind}_temp_path ${directory}/${kind};`);
  const file = path.join(directory, "nginx.conf");
  fs.writeFileSync(file, `
    daemon off;
    master_process off;
    pid ${directory}/pid;
    error_log stderr notice;
    events {}
    http {
      access_log off;
      ${temporary.join("\n")}
      server {
        listen 127.0.0.1:${port};
        location /queue/ {
          proxy_pass ${server.url};
          proxy_set_header Host ${host};
        }
      }
    }`);
  const child = spawn("nginx", ["-c", file, "-p", directory, "-e", "stderr"], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  // It goes on to write: what it says is read to its end. It listens before it says so.
  const listens = new Promise((resolve, reject) => {
    let text = "";
    child.stderr.on("data", (chunk) => (text += chunk).includes("event method") && resolve());
    child.on("exit", () => reject(new Error(`nginx did not start: ${text}`)));
  });
  await listens;
  const stop = async () => {
    await ended(child, "SIGTERM");
    fs.rmSync(directory, { recursive: true, force: true });
  };
  return { port, stop };
}

let browser = null;

async function openBrowser() {
  const args = ["--no-sandbox", "--disable-dev-shm-usage"];
  browser ??= await chromium.launch({ executablePath: process.env.CHROMIUM, args, timeout: WAIT_MS });
  return browser;
}

/** Responses that a test expects to fail: browsers log each as an error. */
const EXPECTED = /^Failed to load resource/;

/** A tab, whose errors fail the test: of scripts, of the console, of the content security policy. */
export class Tab {
  static async open(server, { width = 1440, height = 900, ...options } = {}) {
    const browser = await openBrowser();
    const context = await browser.newContext({
      viewport: { width, height },
      locale: "en-US",
      reducedMotion: "reduce",
      timezoneId: "Europe/Berlin",
      permissions: ["clipboard-read", "clipboard-write"],
      ...options,
    });
    context.setDefaultTimeout(WAIT_MS);
    const tab = new Tab();
    Object.assign(tab, { context, errors: [], base: new URL("ui/", server.url).href });
    await context.addInitScript(() => {
      addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective} ${event.sourceFile}`));
    });
    tab.page = await tab.newPage();
    return tab;
  }

  async newPage() {
    const page = await this.context.newPage();
    page.on("pageerror", (error) => this.errors.push(error.stack));
    page.on("dialog", (dialog) => (this.errors.push(`a script opened: ${dialog.message()}`), dialog.dismiss()));
    page.on("console", (message) => {
      const isWrong = message.type() === "error" || message.type() === "warning";
      if (isWrong && !EXPECTED.test(message.text())) this.errors.push(message.text());
    });
    return page;
  }

  /** Opens a page of the dashboard by its fragment. */
  go = (fragment = "") => this.page.goto(`${this.base}#/${fragment}`);
  button = (name, options = { exact: true }) => this.page.getByRole("button", { name, ...options });
  text = (text, options) => this.page.getByText(text, options);
  /** Opens the menu at the right of the header. */
  menu = () => this.page.locator(".menu-button").click();
  heading = (name) => this.page.getByRole("heading", { name, exact: true });
  /** Waits until the text is on the page. */
  sees = (text, options) => this.text(text, options).first().waitFor();
  /** Waits for a value that is read from the page again and again. */
  until = (read, argument) => this.page.waitForFunction(read, argument, { polling: 50 });

  /** Waits in the page for a text that soon goes. To be called before what brings it. */
  shows = (text) => this.until((text) => document.body.innerText.includes(text), text);

  /** Presses keys so that the page gets them together: it forgets the first of two after a moment. */
  pressAtOnce = (...keys) => Promise.all(keys.map((key) => this.page.keyboard.press(key)));

  /**
   * Notes in `window.calls`, by the clock of the page, when each call whose address contains `part` began and ended. It has
   * ended when everything that follows its answer at once has happened.
   */
  watchCalls = (part) =>
    this.page.addInitScript((part) => {
      const [calls, send] = [[], fetch];
      window.calls = calls;
      window.fetch = async (...call) => {
        if (!String(call[0]).includes(part)) return send(...call);
        const times = { began: Date.now() };
        calls.push(times);
        const response = await send(...call);
        const read = response.text.bind(response);
        response.text = () => read().finally(() => {
          const [ended, { port1, port2 }] = [Date.now(), new MessageChannel()];
          port1.onmessage = () => (times.ended = ended);
          port2.postMessage(null);
        });
        return response;
      };
    }, part);

  /** Hides or shows the tab. */
  setHidden = (hidden) =>
    this.page.evaluate((value) => {
      Object.defineProperty(document, "hidden", { value, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);

  /** Waits until a call that the page makes now is answered: earlier ones have gone out. */
  roundTrip = () => this.page.evaluate(() => fetch("../version").then((response) => response.text()));

  /** Fails if the page breaks a rule of WCAG that a machine can check, or is wider than the window. */
  async check(what) {
    const { violations } = await this.page.evaluate(`${axe}; axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] })`);
    const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html} ${node.failureSummary}`).join("; ")}`);
    assert.deepEqual(found, [], what);
    const [inside, window] = await this.page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(inside <= window, `${what} is ${inside} wide in a window of ${window}`);
  }
}

/** An answer that refuses a call. */
export const refusal = (status, code, detail) => ({ status, contentType: "application/problem+json", body: JSON.stringify({ code, title: code, detail }) });

/** Defines one test for each of the engines. It gets a server and a tab, which are closed afterwards. */
function onEngines(engines, name, { settings, tokens, tab: options }, run) {
  for (const engine of engines) {
    test(`${name} (${engine})`, { timeout: TEST_MS }, async () => {
      const server = tokens ? await Server.withTokens(engine, tokens, settings) : await Server.start(engine, settings);
      try {
        const tab = await Tab.open(server, options);
        try {
          await run({ server, tab, page: tab.page });
        } catch (error) {
          error.message += `\nerrors of the page: ${JSON.stringify(tab.errors)}`;
          throw error;
        } finally {
          // A call that is intercepted while its page closes is no fault of the page.
          for (const page of tab.context.pages()) await page.unrouteAll({ behavior: "ignoreErrors" });
          await tab.context.close();
        }
        assert.deepEqual(tab.errors, [], "errors of the page");
      } finally {
        await server.stop();
      }
    });
  }
}

/** Defines a test of what the dashboard shows of a store and does to it, on every engine. */
export const onEveryEngine = (name, options, run) => onEngines(["embedded", "redis"], name, options, run);

/** Defines a test of what is so on Redis alone. */
export const onRedis = (name, options, run) => onEngines(["redis"], name, options, run);

/** Defines a test of the page alone: another engine would show the same. `UI_EVERY_ENGINE` repeats it on all of them. */
export const inBrowser = (name, options, run) =>
  onEngines(process.env.UI_EVERY_ENGINE ? ["embedded", "redis"] : ["embedded"], name, options, run);

after(() => browser?.close());
