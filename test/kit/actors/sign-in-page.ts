import type { Page } from 'puppeteer-core'
import type { Visitor } from './browser.ts'
import type { Mailbox } from './mailbox.ts'

/** Fills in one of the two forms of the sign-in page, and sends it. */
export async function submit({ page }: Visitor, form: 'address' | 'code', value: string): Promise<void> {
  await page.locator(`#${form} input`).fill(value)
  await page.locator(`#${form} button:not([type])`).click()
}

/** Goes through the sign-in page, with the code that comes by mail. */
export async function signIn(visitor: Visitor, email: string, mailbox: Mailbox): Promise<void> {
  await submit(visitor, 'address', email)
  await visitor.reads('a code is on its way')
  await submit(visitor, 'code', await mailbox.codeFor(email))
}

/** The session token that the pages of a tab keep; empty when there is none. */
export const sessionOf = (page: Page) =>
  page.evaluate(`sessionStorage.getItem('berth_session') ?? ''`) as Promise<string>
