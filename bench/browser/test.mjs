// The pages of `enact-bench savina --html` and `enact-bench psac --html` in Chromium, whose path is in CHROMIUM; those of the pages are in
// SAVINA and PSAC.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

import { chromium } from "playwright-core";

/** What each page has to have: captions of tables, and the one of a table that is too wide for a telephone. */
const pages = [
  {
    name: "savina",
    url: pathToFileURL(process.env.SAVINA).href,
    about: ["best other library", "each other library", "Medians of verified runs", "Peak resident", "Heap allocations",
      "first verified result", "Parameters"],
    wide: "Medians of verified runs",
  },
  {
    name: "psac",
    url: pathToFileURL(process.env.PSAC).href,
    about: ["serializable beside locking", "Where more clients bring no more", "Fits to Amdahl's law", "Theirs and ours", "Every strategy"],
    wide: "Every strategy",
  },
];
const widths = [360, 768, 1280];
const schemes = ["light", "dark"];
let browser;

before(async () => {
  // Without its sandbox, which needs what containers do not give; the page is our own and loads nothing.
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
});
after(() => browser?.close());

/** Opens the page at `url`, hands it to `look`, and fails if it complained or asked for anything. */
async function opened({ url, width = 1280, scheme = "light" }, look) {
  const page = await browser.newPage({ viewport: { width, height: 800 }, colorScheme: scheme });
  const complaints = [];
  page.on("console", (message) => complaints.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => complaints.push(`error: ${error.message}`));
  page.on("request", (request) => {
    if (request.url() !== url && !request.url().startsWith("data:")) complaints.push(`request: ${request.url()}`);
  });
  try {
    await page.goto(url);
    await look(page);
    assert.deepEqual(complaints, []);
  } finally {
    await page.close();
  }
}

const background = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

/** Texts whose contrast with what is behind them is below `least`, by the formula of WCAG 2. */
function faintTexts(page, least) {
  return page.evaluate((least) => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const channels = (colour) => {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const luminance = ([red, green, blue]) => {
      const linear = [red, green, blue].map((value) => {
        const share = value / 255;
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    };
    const behind = (element) => {
      for (let at = element; at; at = at.parentElement) {
        const colour = channels(getComputedStyle(at).backgroundColor);
        if (colour[3] === 255) return colour;
      }
      return [255, 255, 255, 255];
    };
    const hasText = (element) =>
      [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
    const elements = [...document.body.querySelectorAll("*")].filter(
      (element) => hasText(element) && !element.closest("script, title, desc") && element.getClientRects().length,
    );
    const looked = elements.map((element) => {
      const style = getComputedStyle(element);
      const ink = channels(element.closest("svg") ? style.fill : style.color);
      const [light, dark] = [luminance(ink), luminance(behind(element))].sort((a, b) => b - a);
      return { text: element.textContent.trim().slice(0, 40), contrast: (light + 0.05) / (dark + 0.05) };
    });
    if (looked.length < 100) throw new Error(`only ${looked.length} texts`);
    return looked.filter(({ contrast }) => contrast < least);
  }, least);
}

for (const { name, url, about, wide } of pages) {
  for (const scheme of schemes) {
    for (const width of widths) {
      test(`${name}: nothing complains, loads or sticks out: ${scheme}, ${width} pixels wide`, () =>
        opened({ url, width, scheme }, async (page) => {
          const excess = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
          assert.ok(excess <= 0, `${excess} pixels too wide`);
        }));
    }

    test(`${name}: every text can be read: ${scheme}`, () =>
      opened({ url, scheme }, async (page) => assert.deepEqual(await faintTexts(page, 4.5), [])));
  }

  test(`${name}: every figure is there, has a size, marks and a text for who does not see it`, () =>
    opened({ url, width: 360 }, async (page) => {
      const figures = await page.evaluate(() =>
        [...document.querySelectorAll("figure svg")].map((svg) => {
          const { width, height } = svg.getBoundingClientRect();
          const named = svg.getAttribute("aria-labelledby").split(" ").map((id) => document.getElementById(id));
          const marks = [...svg.querySelectorAll("rect, circle, polyline, line")];
          const coloured = marks.filter((mark) => {
            const { fill, stroke } = getComputedStyle(mark);
            // Black is what the browser takes where the page has no colour.
            return [fill, stroke].some((paint) => paint.startsWith("rgb") && paint !== "rgb(0, 0, 0)");
          });
          return {
            title: named[0]?.textContent ?? "",
            isLarge: width > 200 && height > 40,
            isTold: named.length === 2 && named.every((text) => svg.contains(text) && text.textContent),
            isDrawn: marks.length > 0 && coloured.length === marks.length,
          };
        }),
      );
      assert.ok(figures.length > 10, `${figures.length} figures`);
      for (const { title, ...good } of figures) {
        assert.deepEqual(good, { isLarge: true, isTold: true, isDrawn: true }, title);
      }
    }));

  test(`${name}: tables are real, and scroll within themselves where they are too wide`, () =>
    opened({ url, width: 360 }, async (page) => {
      const tables = await page.evaluate(() =>
        [...document.querySelectorAll("table")].map((table) => ({
          caption: table.caption?.textContent ?? "",
          rows: table.tBodies[0].rows.length,
          isFramed: table.parentElement.clientWidth <= innerWidth,
          headings: table.querySelectorAll("thead th[scope=col]").length,
          isEven: [...table.rows].every((row) => row.cells.length === table.tHead.rows[0].cells.length),
        })),
      );
      const captions = tables.map(({ caption }) => caption).join("\n");
      for (const caption of about) assert.ok(captions.includes(caption), `${caption} in\n${captions}`);
      for (const { caption, rows, isFramed, headings, isEven } of tables) {
        assert.ok(rows > 0 && headings > 1 && isFramed && isEven, caption);
      }
      const region = page.getByRole("region", { name: wide });
      assert.ok(await region.evaluate((frame) => frame.scrollWidth > frame.clientWidth), "a wide table is not cut off");
    }));

  test(`${name}: the page is dark for who prefers it, and the button turns it over and back`, () =>
    opened({ url, scheme: "light" }, async (page) => {
      const light = await background(page);
      await page.emulateMedia({ colorScheme: "dark" });
      const dark = await background(page);
      assert.notEqual(dark, light);
      const button = page.getByRole("button", { name: "Light theme" });
      await button.click();
      assert.equal(await background(page), light);
      await page.reload();
      assert.equal(await background(page), light, "the choice is kept");
      await page.getByRole("button", { name: "Dark theme" }).click();
      assert.equal(await background(page), dark);
    }));

  test(`${name}: paper is white whatever the screen is`, () =>
    opened({ url, scheme: "dark" }, async (page) => {
      await page.emulateMedia({ media: "print" });
      assert.equal(await background(page), "rgb(255, 255, 255)");
      assert.deepEqual(await faintTexts(page, 4.5), []);
    }));
}
