import test from 'ava'
import { makeAuthority } from '../../../activities/certificates/authority.ts'
import { chainFacts } from '../../../activities/certificates/chain.ts'
import { localAuthority } from '../../../activities/certificates/local.ts'
import { newRequest } from '../../../activities/certificates/request.ts'
import { certificateAuthorityContract } from '../../contracts/certificate-authority.ts'

const root = makeAuthority(new Date(), 'domains')

certificateAuthorityContract(test, 'local', () => ({ open: () => localAuthority(() => root), publish() {} }), {
  asksForProof: false,
})

test('the local authority issues certificates below its root, for 90 days', async t => {
  const authority = localAuthority(() => root)
  const { url } = await authority.order({ hostnames: ['own.test'] })
  const { csr } = await newRequest(['own.test'])
  const { notBefore, notAfter, issuer } = chainFacts(await authority.collect(url, csr))
  t.is(notAfter.getTime() - notBefore.getTime(), 90 * 86_400_000)
  t.regex(issuer, /^Berth domains [0-9a-f]{8}$/)
})

test('a CSR that was changed after it was signed is refused', async t => {
  const authority = localAuthority(() => root)
  const { url } = await authority.order({ hostnames: ['own.test'] })
  const { csr } = await newRequest(['own.test'])
  const forged = Buffer.from(csr)
  forged[forged.length - 1]! ^= 1
  for (const wrong of [forged, Buffer.from('no CSR'), Buffer.alloc(0)])
    await t.throwsAsync(authority.finalize(url, wrong), { code: 'badCSR' })
})

test('a URL that is not an order of the local authority is not found', async t => {
  const authority = localAuthority(() => root)
  const of = (value: unknown) => `berth-local:${Buffer.from(JSON.stringify(value)).toString('base64url')}`
  for (const url of ['', 'https://ca.test/order/1', 'berth-local:', of([]), of([1]), of({}), of('a'), of(null)])
    await t.throwsAsync(authority.look(url), { code: 'notFound' }, url)
})
