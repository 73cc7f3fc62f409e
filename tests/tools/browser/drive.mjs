// A browser for tests: Chromium through Playwright, driven by lines of JSON on standard input.
//   {"tag": 1, "do": "open", "tab": "a", "url": "…", "width": 1440, "height": 900, "scheme": "light"}
// Each line is answered by {"tag": 1, "result"} or {"tag": 1, "error"}. What no test may cause (an error in the console, an
// exception, something that the policy of the page forbids, a request to another origin) is kept and told by "troubles".
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { readFileSync } from "node:fs";

const [modules, chromiumPath] = process.argv.slice(2);
const { chromium } = await import(pathToFileURL(`${modules}/playwright-core/index.mjs`).href);
/** A name of somebody else that leads to this machine, as its owner can arrange. */
const REBOUND = "--host-resolver-rules=MAP evil.example 127.0.0.1";
const browser = await chromium.launch({ executablePath: chromiumPath, args: ["--no-sandbox", "--disable-gpu", REBOUND] });
const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");
const contexts = new Map();
const tabs = new Map();
const troubles = [];
/** What a test expects to happen, as the beginning of a trouble. */
let allowed = [];

async function context(scheme) {
  // Who looks is not where the times were recorded.
  if (!contexts.has(scheme)) contexts.set(scheme, await browser.newContext({ colorScheme: scheme, reducedMotion: "reduce", timezoneId: "America/Bogota" }));
  return contexts.get(scheme);
}

function watch(page, name, origin) {
  const note = (kind, text) => troubles.push(`${name}: ${kind}: ${text}`);
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) note("console", message.text()); });
  page.on("pageerror", (error) => note("exception", error.stack ?? error.message));
  page.on("dialog", (dialog) => { note("dialog", dialog.message()); dialog.dismiss(); });
  page.on("request", (request) => {
    const to = new URL(request.url());
    if (to.protocol !== "data:" && to.origin !== origin) note("request to another origin", request.url());
  });
}

/** How long is waited for what must come: a busy machine is ten times slower than a quiet one. */
const PATIENCE = 180_000;
const deadline = (wanted) => Date.now() + (wanted.within ?? PATIENCE);
const pause = () => new Promise((resolve) => setTimeout(resolve, 25));

/** The texts of what is found and can be seen. */
const texts = (page, css) => page.evaluate((css) => [...document.querySelectorAll(css)].filter((found) => found.checkVisibility()).map((found) => found.textContent), css);

const deeds = {
  async open({ tab, url, width = 1440, height = 900, scheme = "light" }) {
    const page = await (await context(scheme)).newPage();
    page.setDefaultTimeout(PATIENCE);
    await page.setViewportSize({ width, height });
    watch(page, tab, new URL(url).origin);
    tabs.set(tab, page);
    await page.goto(url);
  },
  close: async ({ tab }) => { await tabs.get(tab).close(); tabs.delete(tab); },
  /** Waits until something that can be seen has this text (or until nothing has it any more); how long it took. */
  async see({ tab, css, text = "", gone = false, ...wanted }) {
    const begun = Date.now();
    const until = deadline(wanted);
    for (;;) {
      const found = await texts(tabs.get(tab), css).catch(() => []);
      if (found.some((one) => one.includes(text)) !== gone) return Date.now() - begun;
      if (Date.now() > until) {
        const whole = await tabs.get(tab).evaluate(() => document.body.innerText).catch((error) => error.message);
        throw new Error(`${gone ? "still" : "no"} “${text}” in ${css}: ${JSON.stringify(found).slice(0, 3000)}; the page: ${whole.slice(0, 1000)}; ${troubles.slice(-5).join("; ")}`);
      }
      await pause();
    }
  },
  texts: ({ tab, css }) => texts(tabs.get(tab), css),
  click: ({ tab, role, name, css, ...wanted }) => {
    const page = tabs.get(tab);
    const found = css ? page.locator(css).first() : page.getByRole(role ?? "button", { name, exact: true }).first();
    return found.click({ timeout: wanted.within ?? PATIENCE });
  },
  key: ({ tab, key }) => tabs.get(tab).keyboard.press(key),
  fill: ({ tab, label, text }) => tabs.get(tab).getByLabel(label, { exact: true }).fill(text),
  choose: ({ tab, label, value }) => tabs.get(tab).getByLabel(label, { exact: true }).selectOption(value),
  go: ({ tab, hash }) => tabs.get(tab).evaluate((hash) => { location.hash = hash; }, hash),
  back: async ({ tab }) => { await tabs.get(tab).goBack(); },
  forward: async ({ tab }) => { await tabs.get(tab).goForward(); },
  reload: async ({ tab }) => { await tabs.get(tab).reload(); },
  size: ({ tab, width, height = 900 }) => tabs.get(tab).setViewportSize({ width, height }),
  js: ({ tab, code }) => tabs.get(tab).evaluate(code),
  /** How many bytes of a tab's heap are in use, after its garbage was collected. */
  async heap({ tab }) {
    const page = tabs.get(tab);
    const session = await page.context().newCDPSession(page);
    await session.send("HeapProfiler.collectGarbage");
    const { usedSize } = await session.send("Runtime.getHeapUsage");
    await session.detach();
    return usedSize;
  },
  /** Waits until an expression of the page has this value. */
  async becomes({ tab, code, value, ...wanted }) {
    const until = deadline(wanted);
    for (;;) {
      const now = await tabs.get(tab).evaluate(code).catch((error) => error.message);
      if (JSON.stringify(now) === JSON.stringify(value)) return;
      if (Date.now() > until) throw new Error(`${code} is ${JSON.stringify(now)}`);
      await pause();
    }
  },
  /** The addresses of what is framed: the browser's own page of errors where that was refused. */
  frames: ({ tab }) => tabs.get(tab).frames().slice(1).map((frame) => frame.url()),
  shot: async ({ tab, path }) => { await tabs.get(tab).screenshot({ path }); },
  /** What the judge of accessibility calls serious or critical. */
  async axe({ tab }) {
    const page = tabs.get(tab);
    await page.evaluate(readFileSync(`${modules}/axe-core/axe.min.js`, "utf8"));
    const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    return violations.filter(({ impact }) => ["serious", "critical"].includes(impact))
      .map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(" | ")}`);
  },
  allow: ({ beginnings }) => { allowed = beginnings; },
  troubles: () => troubles.filter((trouble) => !allowed.some((text) => trouble.includes(text))),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { tag, do: deed, ...wanted } = JSON.parse(line);
  try {
    say({ tag, result: (await deeds[deed](wanted)) ?? null });
  } catch (error) {
    say({ tag, error: error.message });
  }
}
await browser.close();
