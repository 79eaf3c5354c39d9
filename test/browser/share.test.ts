import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import type { Page } from 'puppeteer-core'
import { mailLocales } from '../../policy/mail/template.ts'
import { shareText } from '../../policy/pages/share.ts'
import { testApi } from '../kit/actors/api.ts'
import { testBrowser } from '../kit/actors/browser.ts'
import { here, madeObject } from '../kit/objects/stored-objects.ts'

const api = testApi()
const browser = testBrowser()

async function guarded(password: string) {
  const ana = await api().makeUser()
  const made = await madeObject(api(), ana, { bytes: randomBytes(300_000), originalName: 'plan.pdf' })
  const asked = { object: made.id, password, max_downloads: 1 }
  const { body } = await api().blobAs(ana).post('/v1/shares', JSON.stringify(asked))
  return { made, url: here(api(), body.response.url) }
}

async function enter(page: Page, password: string): Promise<void> {
  await page.locator('input').fill(password)
  await page.locator('button').click()
}

/** The bytes of the next file that a page downloads, into a folder of its own. */
async function downloaded(page: Page, begin: () => Promise<void>): Promise<Buffer> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-download-'))
  const session = await page.browser().target().createCDPSession()
  const browserContextId = page.browserContext().id
  await session.send('Browser.setDownloadBehavior', {
    behavior: 'allowAndName',
    browserContextId,
    downloadPath: folder,
    eventsEnabled: true,
  })
  const guid = new Promise<string>((resolve, reject) =>
    session.on('Browser.downloadProgress', ({ guid, state }) => {
      if (state === 'completed') resolve(guid)
      if (state === 'canceled') reject(new Error('The download was cancelled.'))
    }),
  )
  await begin()
  return readFile(join(folder, await guid)).finally(() => rm(folder, { recursive: true }))
}

test.serial('a visitor gives the password and has the file; without it they have nothing', async t => {
  const { made, url } = await guarded('correct horse')
  const visitor = await browser().visit(url)
  t.is(await visitor.page.evaluate('document.activeElement.name'), 'password')
  await enter(visitor.page, 'another horse')
  await visitor.reads('The password is wrong.')
  const bytes = await downloaded(visitor.page, () => enter(visitor.page, 'correct horse'))
  t.true(bytes.equals(made.bytes))
  t.notRegex(await visitor.page.content(), /plan/)
  await visitor.page.goto(url)
  await visitor.reads('This link has reached its maximum number of downloads.')
  t.deepEqual(visitor.complaints, [])
})

test.serial('the page speaks the visitor’s language, on a phone as well', async t => {
  const { url } = await guarded('correct horse')
  for (const language of mailLocales) {
    const visitor = await browser().visit(url, { language })
    await visitor.reads(shareText[language].intro)
    await visitor.page.setViewport({ width: 320, height: 568 })
    t.is(await visitor.page.evaluate('document.documentElement.lang'), language)
    t.true(await visitor.page.evaluate('document.documentElement.scrollWidth <= innerWidth'), language)
    t.deepEqual(visitor.complaints, [])
    await visitor.page.close()
  }
})
