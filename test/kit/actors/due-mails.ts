import { type MailSenderOptions, MailSlots } from '../../../workers/loops/mail-sender.ts'

/**
 * Sends what is due, as far as there are slots, each mail once; resolves to the number of attempts. Where `tries` begins without a wait, what
 * failed is due again afterwards.
 */
export async function sendDueMails(options: MailSenderOptions, signal: AbortSignal): Promise<number> {
  const { db, tries } = options
  const isDueAgain = tries?.firstWaitSeconds === 0
  const waiting = { firstWaitSeconds: 3600, maxWaitSeconds: 3600 }
  const slots = new MailSlots(isDueAgain ? { ...options, tries: { ...tries, ...waiting } } : options)
  const begun = await slots.fill(signal)
  await slots.allEnded()
  if (isDueAgain) await db('mails').where({ state: 'queued' }).update({ next_try_at: db.fn.now() })
  return begun
}
