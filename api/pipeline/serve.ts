import { countersOf, ownCounters } from '../../policy/counters.ts'
import { CodedError, codeOn } from '../../policy/errors.ts'
import { type Limit, limits } from '../../policy/limits.ts'
import { networkOf } from '../http/address.ts'
import type { Exchange } from '../http/exchange.ts'
import { failure, JsonText, plainJson, type Reply, streamed, success, toCodedError } from '../http/respond.ts'
import type { Services } from '../services.ts'
import { accessOf, reauthenticate } from './access.ts'
import { audit } from './audit.ts'
import { type Caller, callerFor } from './authenticate.ts'
import { checkCaptcha } from './captcha.ts'
import { crossOriginHeaders } from './cross-origin.ts'
import { withinDeadline } from './deadline.ts'
import { type Admission, type Call, commonErrors, type Endpoint } from './endpoint.ts'
import { takeBody, takeQuery } from './input.ts'
import { Counting } from './limiter.ts'

/**
 * What happens to every request, in this order: country, authenticate, captcha, scope, load and permission, limit, parse, handle, envelope.
 * Where the endpoint counts the request itself, a limit that refuses it then is answered all the same, as if it had come first. Never rejects.
 */
export async function serve(endpoint: Endpoint, exchange: Exchange, services: Services): Promise<Reply> {
  let admission: Admission = {}
  if (endpoint.crossOrigin) Object.assign(exchange.headers, crossOriginHeaders)
  try {
    admission = await withinDeadline(admit(endpoint, exchange, services))
    const { caller, app, role, database, counting } = admission
    if (caller) endpoint.checkCaller?.(caller)
    const query = takeQuery(endpoint, exchange)
    const body = await takeBody(endpoint, exchange, caller?.user.id)
    await reauthenticate(endpoint, exchange, services)
    const call = { caller, app, role, database, query, body, exchange, counting } as Call
    const value = await endpoint.handle(call, services)
    if (endpoint.countsItself) await counting?.count()
    if (value === streamed) return streamed
    await audit(endpoint, admission, exchange, services, 'success')
    const code = endpoint.codeAlongside && (value as { code: string }).code
    const reply = endpoint.envelope === false ? bare(endpoint, value) : success(value, code, endpoint.success)
    services.contract?.answered(
      endpoint.name,
      value instanceof JsonText ? JSON.parse(value.text) : value,
      endpoint.response,
    )
    return withHeaders(reply, exchange.headers)
  } catch (error) {
    const thrown = (await limitBefore(admission, exchange)) ?? error
    if (admission.counting?.isRefused) admission = {}
    if (admission.caller && !exchange.response.destroyed)
      endpoint.onRefusal?.(admission.caller, toCodedError(thrown), services)
    await audit(endpoint, admission, exchange, services, toCodedError(thrown).code)
    return withHeaders(refuse(endpoint, exchange, services, thrown), exchange.headers)
  } finally {
    exchange.release()
  }
}

async function admit(endpoint: Endpoint, exchange: Exchange, services: Services): Promise<Admission> {
  const { auth } = endpoint
  if (!endpoint.uncounted && services.isBlocked(exchange.address)) throw new CodedError('COUNTRY_BLOCKED')
  if (auth === 'public') {
    if (!endpoint.uncounted) await countingOf(endpoint, exchange, services).count()
    return {}
  }
  const caller = await callerFor(endpoint, exchange, services)
  const access = await permitted(endpoint, exchange, services, caller, auth).catch(async refusal => {
    await countingOf(endpoint, exchange, services, { caller }, []).count()
    throw refusal
  })
  const admission = { ...access, caller }
  const counting = countingOf(endpoint, exchange, services, admission)
  // A body that has not arrived may never do: what waits for it is counted.
  const mayWait = endpoint.countsItself && exchange.request.complete && !counting.isDoubtful
  if (!mayWait) await counting.count()
  return { ...admission, counting }
}

/** The refusal of a limit, for a request that was refused before it was counted. */
async function limitBefore({ counting }: Admission, { startedAt }: Exchange): Promise<unknown> {
  if (!counting || counting.isCounted) return undefined
  return withinDeadline(counting.count(), startedAt).catch(refusal => refusal)
}

/** Throws CAPTCHA_REQUIRED, or the refusal of `accessOf`. */
async function permitted(
  { beforeCaptcha }: Endpoint,
  exchange: Exchange,
  services: Services,
  caller: Caller,
  auth: Exclude<Endpoint['auth'], 'public'>,
) {
  if (!beforeCaptcha) await checkCaptcha(services, caller, exchange.address)
  return accessOf(auth, exchange, services, caller)
}

/** A refused request counts against the budget only (`rows` empty), an admitted one also against the endpoint's own limits. */
function countingOf(
  endpoint: Endpoint,
  { address }: Exchange,
  { limiter, config, isInside }: Services,
  { caller, app, database }: Admission = {},
  rows: readonly Limit[] = (limits as Record<string, readonly Limit[]>)[endpoint.name] ?? [],
): Counting {
  const source = networkOf(address)
  const counters = (endpoint.unbudgeted ? ownCounters : countersOf)(endpoint.name, rows, {
    user: caller && { id: caller.user.id, plan: caller.plan },
    appId: app?.id,
    databaseId: database?.id,
    uploadTokenId: caller?.uploadToken?.id,
    address: source,
    outsideAddress: isInside(address) ? undefined : source,
    scale: config.rateLimitScale,
    budgetBlockSeconds: config.rateLimitBlockSeconds,
  })
  return new Counting(limiter, counters)
}

function refuse(endpoint: Endpoint, exchange: Exchange, services: Services, thrown: unknown): Reply {
  const error = toCodedError(thrown)
  if (error !== thrown && !exchange.response.destroyed)
    services.log.error(
      { err: thrown, requestId: exchange.requestId, endpoint: endpoint.name, code: error.code },
      'request failed',
    )
  const { terse, statuses, wire = 'management' } = endpoint
  const code = codeOn(wire, error.code)
  const declared = [...commonErrors(endpoint), ...(endpoint.errors ?? [])]
  if (!declared.includes(code)) services.contract?.undeclared(endpoint.name, code, declared)
  return endpoint.refusal?.(error) ?? failure(error, { wire, terse: terse?.includes(code), status: statuses?.[code] })
}

const bare = ({ response }: Endpoint, value: unknown): Reply => (response ? plainJson(value) : (value as Reply))

function withHeaders(reply: Reply, headers: Record<string, string>): Reply {
  return Object.keys(headers).length === 0 ? reply : { ...reply, headers: { ...reply.headers, ...headers } }
}
