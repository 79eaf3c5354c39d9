import type { OpenedObject } from '../../db/objects/manifests.ts'
import { openWithoutParts } from '../../db/objects/objects.ts'
import { findShare, type ShareRow, spendDownload } from '../../db/objects/shares.ts'
import { localeAccepted } from '../../policy/accounts/locales.ts'
import { ownCounters } from '../../policy/counters.ts'
import { shareIdPattern } from '../../policy/ids.ts'
import { deriveKey } from '../../policy/keys.ts'
import { linkVisits } from '../../policy/limits.ts'
import { dispositionOf, objectHeaders, privateHeaders } from '../../policy/objects/object-headers.ts'
import type { ObjectName } from '../../policy/objects/object-names.ts'
import { publicUrlOf } from '../../policy/objects/object-urls.ts'
import { readVisit, type Visit, visitCookieName, visitSeconds, visitValue } from '../../policy/objects/share-visits.ts'
import { shareText } from '../../policy/pages/share.ts'
import { networkOf } from '../http/address.ts'
import type { Exchange } from '../http/exchange.ts'
import { escaped, page } from '../http/pages/pages.ts'
import type { Reply } from '../http/respond.ts'
import { withinDeadline } from '../pipeline/deadline.ts'
import type { Services } from '../services.ts'
import { openForAnswer, sendableObject } from './object-download.ts'
import { sendBody, type Toll } from './send-body.ts'
import { isRightPassword } from './share-password.ts'
import { notFound, reads, text } from './text-answers.ts'

/**
 * `GET`, `HEAD` and `POST /s/<share id>`: the shared object, after the password if there is one, as often as the share allows. A share
 * whose object is missing is 404, before a password is requested or a download is counted.
 */
export async function visitShare(id: string, exchange: Exchange, services: Services): Promise<Reply> {
  const posts = exchange.request.method === 'POST'
  const opened = reads(exchange) || posts ? await withinDeadline(openShare(id, exchange, services)) : undefined
  if (!opened) return notFound
  const { share, visit, file } = opened
  const url = publicUrlOf(services.config.urls.public, nameOf(share))
  if (url) return goTo(302, url)
  if (share.remaining === 0 && !isCounted(visit, file)) return spent
  if (share.password_hash && !visit) {
    if (!posts) return sharePage(exchange, false)
    const password = { ownerId: share.owner_id, passwordHash: share.password_hash }
    if (!(await isRightPassword(password, exchange, services))) return sharePage(exchange, true)
    return goTo(303, `/s/${id}`, { 'Set-Cookie': visitCookie(share, { counted: null }, services) })
  }
  return posts ? goTo(303, `/s/${id}`) : download(share, file, visit, exchange, services)
}

const nameOf = ({ owner_id, bucket, key }: ShareRow): ObjectName => ({ ownerId: owner_id, bucket, key })

/**
 * A share, who visits it, and the object that it was created for; undefined when one of them is missing. Throws KEEP_CALM past the limit.
 */
async function openShare(id: string, exchange: Exchange, services: Services) {
  const { db, limiter, config } = services
  const share = shareIdPattern.test(id) ? await findShare(db, id) : undefined
  if (!share) return undefined
  const visited = { link: id, address: networkOf(exchange.address), scale: config.rateLimitScale }
  await limiter.admit(ownCounters('links.share', linkVisits.share, visited))
  const visit = visitOf(share, exchange, services)
  // A page that asks for the password needs no byte of the object.
  const isClosed = share.password_hash !== null && !visit
  const file = await (isClosed ? openWithoutParts(db, nameOf(share)) : openForAnswer(exchange, db, nameOf(share)))
  return file?.object.birth === share.birth ? { share, visit, file } : undefined
}

/** Opening the link downloads the file, unless its owner wants it shown (contract 7.27). */
function download(
  share: ShareRow,
  file: OpenedObject,
  visit: Visit | null,
  exchange: Exchange,
  services: Services,
): Promise<Reply> {
  const { object } = file
  const disposition = dispositionOf(object.content_disposition) ?? 'attachment'
  const headers = { ...objectHeaders(object, { disposition }), ...privateHeaders }
  // Continuing a counted download is free; everything else counts, and may be continued for free.
  const toll: Toll = async ({ range }) => {
    if (range && range.from > 0 && isCounted(visit, file)) return {}
    if (share.remaining === null) return {}
    if (!(await spendDownload(services.db, share.id))) return { refusal: spent }
    return { headers: { 'Set-Cookie': visitCookie(share, { counted: object.generation }, services) } }
  }
  return sendBody(exchange, sendableObject(file, services, headers), toll)
}

const spent = text(410, 'This link has reached its maximum number of downloads.\n')

const isCounted = (visit: Visit | null, { object }: OpenedObject): boolean => visit?.counted === object.generation

const goTo = (status: 302 | 303, url: string, headers: Record<string, string> = {}): Reply => ({
  status,
  headers: { Location: url, 'Cache-Control': 'no-store', 'Referrer-Policy': 'no-referrer', ...headers },
})

const secretOf = ({ config }: Services): Buffer => deriveKey(config.masterKey, 'share-visits')

const visitOf = ({ id }: ShareRow, { request }: Exchange, services: Services): Visit | null =>
  readVisit(secretOf(services), id, request.headers.cookie, new Date())

function visitCookie({ id }: ShareRow, visit: Visit, services: Services): string {
  const value = visitValue(secretOf(services), id, visit, new Date())
  const secure = services.config.urls.files.startsWith('https:') ? '; Secure' : ''
  return `${visitCookieName}=${value}; Max-Age=${visitSeconds}; Path=/s/${id}; HttpOnly; SameSite=Lax${secure}`
}

/** Asks for the password of a share, in the visitor's language. Reveals nothing about the file. */
function sharePage({ request }: Exchange, isWrong: boolean): Reply {
  const language = localeAccepted(request.headers['accept-language'])
  const { title, intro, password, open, wrong } = shareText[language]
  return page({
    status: isWrong ? 403 : 200,
    language,
    title,
    text: [intro],
    form: `<form method="post"><label>${escaped(password)}<input type="password" name="password" autocomplete="off" required autofocus></label>
<button>${escaped(open)}</button></form>${isWrong ? `<p role="alert">${escaped(wrong)}</p>` : ''}`,
    posts: true,
    headers: { Vary: 'Accept-Language' },
  })
}
