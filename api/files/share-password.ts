import { uncountRequest } from '../../db/limits.ts'
import { ownCounters } from '../../policy/counters.ts'
import { linkVisits } from '../../policy/limits.ts'
import { networkOf } from '../http/address.ts'
import { admitBody, inviteBody, readBody } from '../http/body.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Services } from '../services.ts'
import { isPassword } from '../v1/share-passwords.ts'

const formBytes = 4096

/**
 * Whether the form that a visitor posts contains the right password. Every attempt is counted before anything is computed; a right one,
 * and one that found no room to be compared, is uncounted, so that concurrent attempts cannot exceed the limit. Throws KEEP_CALM past
 * the limit, and while too many passwords are being compared.
 */
export async function isRightPassword(
  { ownerId, passwordHash }: { ownerId: string; passwordHash: string },
  exchange: Exchange,
  services: Services,
): Promise<boolean> {
  const { request, response, address } = exchange
  admitBody(request, formBytes)
  inviteBody(request, response)
  const form = new URLSearchParams((await readBody(request, formBytes)).toString())
  const tries = ownCounters('links.password', linkVisits.password, {
    address: networkOf(address),
    scale: services.config.rateLimitScale,
  })
  await services.limiter.admit(tries)
  let isWrong = false
  try {
    isWrong = !(await isPassword(ownerId, form.get('password') ?? '', passwordHash))
  } finally {
    if (!isWrong) await uncountRequest(services.db, tries)
  }
  return !isWrong
}
