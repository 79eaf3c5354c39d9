import test from 'ava'
import puppeteer, { type Browser, type Page } from 'puppeteer-core'
import { isRoot } from '../../../cli/services/system-packages.ts'
import { findBrowser } from '../../../cli/test/browser.ts'

/** One person before a browser that knows nothing of them yet: no cookie, storage or cache of another visitor. */
export interface Visitor {
  page: Page
  /** Errors of scripts, policies and loading that the browser reported; a plain 4xx is an answer and not an error. */
  complaints: string[]
  /** Waits until the visible text of the page has this in it. Resolves to the whole of it. */
  reads(part: string | RegExp): Promise<string>
}

export interface TestBrowser {
  /** A new visitor at an address, once the page has loaded. `language` is what they ask for, en-US when left out. */
  visit(url: string, options?: { language?: string }): Promise<Visitor>
}

/** Nothing but this machine is resolved: a test that reaches further fails, wherever it runs. */
const onlyLoopback = '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE *.localhost, EXCLUDE 127.0.0.1'
const timeoutMs = 30_000

/** Call it once at the top level of a test file: a headless browser of its own, closed after the file. */
export function testBrowser(): () => TestBrowser {
  let browser: Browser | undefined
  test.before('start the browser', async () => {
    browser = await startBrowser()
  })
  test.after.always('close the browser', async () => {
    await browser?.close()
  })
  return () => ({ visit: (url, { language = 'en-US' } = {}) => visit(browser!, url, language) })
}

/** A browser that resolves no name but those of this machine, or as `resolving` says. */
export async function startBrowser(resolving: readonly string[] = [onlyLoopback]): Promise<Browser> {
  const executablePath = findBrowser()
  if (!executablePath) throw new Error('There is no Chromium here; ./berth test installs it.')
  return puppeteer.launch({
    executablePath,
    // Chromium's sandbox refuses to run as root, and what is shown here is our own.
    args: [...resolving, '--disable-dev-shm-usage', ...(isRoot() ? ['--no-sandbox'] : [])],
    timeout: 2 * timeoutMs,
    protocolTimeout: 2 * timeoutMs,
  })
}

async function visit(browser: Browser, url: string, language: string): Promise<Visitor> {
  const context = await browser.createBrowserContext()
  const page = await context.newPage()
  page.setDefaultTimeout(timeoutMs)
  const session = await page.createCDPSession()
  await session.send('Emulation.setUserAgentOverride', {
    userAgent: await browser.userAgent(),
    acceptLanguage: language,
  })
  const complaints = complaintsOf(page)
  await page.goto(url)
  return { page, complaints, reads: part => reads(page, part) }
}

function complaintsOf(page: Page): string[] {
  const complaints: string[] = []
  // No page asked for that.
  const isIcon = (url: string | undefined) => url?.endsWith('/favicon.ico')
  page.on('pageerror', error => complaints.push(String(error)))
  page.on('console', message => {
    const isAnswer = /status of 4\d\d/.test(message.text())
    if (message.type() === 'error' && !isAnswer && !isIcon(message.location().url)) complaints.push(message.text())
  })
  return complaints
}

/** Scripts for the page are texts: a function would carry names along that only this process knows. */
async function reads(page: Page, part: string | RegExp): Promise<string> {
  const text = 'document.body.innerText'
  const has = typeof part === 'string' ? `${text}.includes(${JSON.stringify(part)})` : `${part}.test(${text})`
  try {
    return (await (await page.waitForFunction(`${has} && ${text}`)).jsonValue()) as string
  } catch (error) {
    throw new Error(`${page.url()} never reads ${part}, but ${await page.evaluate(text)}`, { cause: error })
  }
}
