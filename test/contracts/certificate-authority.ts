import type { SerialFn, TestFn } from 'ava'
import { chainFacts, chainTrouble } from '../../activities/certificates/chain.ts'
import {
  AuthorityError,
  type CertificateAuthority,
  type Challenge,
  type Order,
  type OrderStatus,
} from '../../activities/certificates/port.ts'
import { newRequest } from '../../activities/certificates/request.ts'
import { comesTrue } from '../kit/comes-true.ts'

export interface AuthorityEnd {
  /** The authority as one more process opens it: nothing is left in memory of what others did. */
  open(): CertificateAuthority
  /** Puts the answer of a challenge where the authority looks for it. */
  publish(hostname: string, challenge: Challenge): void
}

/** Looks until an order has one of these statuses. */
async function until(authority: CertificateAuthority, url: string, ...statuses: OrderStatus[]): Promise<Order> {
  let order = await authority.look(url)
  await comesTrue(async () => {
    order = await authority.look(url)
    return statuses.includes(order.status)
  }, 30)
  return order
}

/** Brings an order up to `ready`, by the challenges of this kind. */
async function prove(end: AuthorityEnd, { url, authorizations }: Order, kind: Challenge['kind']): Promise<void> {
  for (const { hostname, challenges } of authorizations)
    for (const challenge of challenges.filter(one => one.kind === kind)) end.publish(hostname, challenge)
  await end.open().answer(url, kind)
  await until(end.open(), url, 'ready', 'processing', 'valid')
}

/** All steps of a certificate, each by another process. */
async function certify(end: AuthorityEnd, hostnames: string[], kind: Challenge['kind'] = 'http-01', replaces?: string) {
  const order = await end.open().order({ hostnames, ...(replaces === undefined ? {} : { replaces }) })
  await prove(end, order, kind)
  const { privateKey, csr } = await newRequest(hostnames)
  await end.open().finalize(order.url, csr)
  await until(end.open(), order.url, 'valid')
  return { url: order.url, privateKey, csr, chain: await end.open().collect(order.url, csr) }
}

/** The contract of every certificate authority; `asksForProof`: of one that validates names. */
export function certificateAuthorityContract(
  test: TestFn | SerialFn,
  name: string,
  end: () => AuthorityEnd,
  { asksForProof }: { asksForProof: boolean },
): void {
  test(`${name}: a name gets a certificate, each step by another process`, async t => {
    const { chain, privateKey } = await certify(end(), ['www.one.test'])
    t.is(chainTrouble(chain, { privateKey, hostnames: ['www.one.test'] }), null)
    t.deepEqual(chainFacts(chain).names, ['www.one.test'])
    t.true(chain.match(/BEGIN CERTIFICATE/g)!.length > 1, 'its issuer follows')
  })

  test(`${name}: a domain and all names below it get one certificate, by DNS`, async t => {
    const hostnames = ['wild.test', '*.wild.test']
    const order = await end().open().order({ hostnames })
    t.deepEqual(order.authorizations.map(({ hostname, isWildcard }) => [hostname, isWildcard]).sort(), [
      ['wild.test', false],
      ['wild.test', true],
    ])
    for (const { challenges, isWildcard } of order.authorizations)
      if (isWildcard) t.true(challenges.every(({ kind }) => kind === 'dns-01'))
    const { chain, privateKey } = await certify(end(), hostnames, 'dns-01')
    t.is(chainTrouble(chain, { privateKey, hostnames }), null)
    t.is(chainTrouble(chain, { privateKey, hostnames: ['any.wild.test'] }), null)
    t.regex(chainTrouble(chain, { privateKey, hostnames: ['a.b.wild.test'] }) ?? '', /not valid for/)
  })

  test(`${name}: a step that is repeated has no further effect`, async t => {
    const hostnames = ['repeated.test']
    const { url, authorizations, ...order } = await end().open().order({ hostnames })
    await prove(end(), { url, authorizations, ...order }, 'http-01')
    await end().open().answer(url, 'http-01')
    const { privateKey, csr } = await newRequest(hostnames)
    await Promise.all([end().open().finalize(url, csr), end().open().finalize(url, csr)])
    await until(end().open(), url, 'valid')
    await end().open().finalize(url, csr)
    await end().open().answer(url, 'http-01')
    for (const chain of [await end().open().collect(url, csr), await end().open().collect(url, csr)])
      t.is(chainTrouble(chain, { privateKey, hostnames }), null)
  })

  test(`${name}: a CSR with other names than the order is refused`, async t => {
    const order = await end()
      .open()
      .order({ hostnames: ['csr.test'] })
    await prove(end(), order, 'http-01')
    const other = await newRequest(['csr.test', 'other.test'])
    const error = await t.throwsAsync(end().open().finalize(order.url, other.csr), { instanceOf: AuthorityError })
    t.regex((error as AuthorityError).code, /^(badCSR|unauthorized)$/)
  })

  test(`${name}: an order that does not exist is not found`, async t => {
    const { url } = await end()
      .open()
      .order({ hostnames: ['found.test'] })
    const { csr } = await newRequest(['found.test'])
    const unknown = url.replace(/.{8}$/, '00000000')
    await t.throwsAsync(end().open().look(unknown), { code: 'notFound' })
    await t.throwsAsync(end().open().answer(unknown, 'http-01'), { code: 'notFound' })
    await t.throwsAsync(end().open().finalize(unknown, csr), { code: 'notFound' })
    await t.throwsAsync(end().open().collect(unknown, csr), { code: 'notFound' })
  })

  test(`${name}: a renewal is a window within the life of the certificate, if the authority names one`, async t => {
    const { chain } = await certify(end(), ['renewed.test'])
    const { notBefore, notAfter, ariId } = chainFacts(chain)
    const renewal = await end().open().renewal(chain)
    if (renewal === null) return t.pass()
    const { window, again } = renewal
    t.true(notBefore < window.from && window.from < window.to && window.to < notAfter)
    t.true(again.getTime() > Date.now())
    const next = await certify(end(), ['renewed.test'], 'http-01', ariId ?? undefined)
    t.not(chainFacts(next.chain).serial, chainFacts(chain).serial)
  })

  test(`${name}: an order may name an earlier certificate that the authority does not know`, async t => {
    const foreign = 'aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE'
    await t.notThrowsAsync(certify(end(), ['foreign.test'], 'http-01', foreign))
  })

  if (asksForProof) proofContract(test, name, end)
}

function proofContract(test: TestFn | SerialFn, name: string, end: () => AuthorityEnd): void {
  test(`${name}: challenges of both kinds are offered, and say what has to be found`, async t => {
    const order = await end()
      .open()
      .order({ hostnames: ['offered.test'] })
    t.is(order.status, 'pending')
    t.true((order.expiresAt?.getTime() ?? 0) > Date.now())
    const [{ challenges = [] } = {}] = order.authorizations
    t.deepEqual(challenges.map(({ kind }) => kind).sort(), ['dns-01', 'http-01'])
    const http = challenges.find(({ kind }) => kind === 'http-01')!
    t.is(http.value, `${http.token}.${await end().open().thumbprint()}`)
    t.regex(challenges.find(({ kind }) => kind === 'dns-01')!.value, /^[\w-]{43}$/)
    t.deepEqual((await end().open().look(order.url)).authorizations, order.authorizations)
  })

  test(`${name}: a name that is not proved ends its order, which says why, and another order succeeds`, async t => {
    const order = await end()
      .open()
      .order({ hostnames: ['unproved.test'] })
    await end().open().answer(order.url, 'http-01')
    const { problem, authorizations } = await until(end().open(), order.url, 'invalid')
    t.regex(problem?.code ?? '', /^(connection|unauthorized|dns)$/)
    t.regex(problem?.message ?? '', /\S+ \S+/)
    t.deepEqual(
      authorizations.map(({ status, challenges }) => [status, challenges]),
      [['invalid', []]],
    )
    await end().open().answer(order.url, 'http-01')
    const { csr } = await newRequest(['unproved.test'])
    await t.throwsAsync(end().open().finalize(order.url, csr), { code: 'orderNotReady' })
    await t.notThrowsAsync(certify(end(), ['unproved.test']))
  })

  test(`${name}: nothing is issued before the names are proved`, async t => {
    const { url } = await end()
      .open()
      .order({ hostnames: ['early.test'] })
    const { csr } = await newRequest(['early.test'])
    await t.throwsAsync(end().open().finalize(url, csr), { code: 'orderNotReady' })
    await t.throwsAsync(end().open().collect(url, csr), { code: 'orderNotReady' })
  })

  test(`${name}: a certificate of another key is not collected`, async t => {
    const { url } = await certify(end(), ['keys.test'])
    const { csr } = await newRequest(['keys.test'])
    await t.throwsAsync(end().open().collect(url, csr), { code: 'invalidAnswer' })
  })

  test(`${name}: a wildcard cannot be proved over http`, async t => {
    const { url } = await end()
      .open()
      .order({ hostnames: ['*.http.test'] })
    await t.throwsAsync(end().open().answer(url, 'http-01'), { code: 'unsupportedChallenge' })
  })
}
