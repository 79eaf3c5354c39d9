import test from 'ava'
import { AuthorityError } from '../../../activities/certificates/port.ts'
import { certificateAuthorityContract } from '../../contracts/certificate-authority.ts'
import { FakeAuthority } from '../../kit/fakes/certificate-authority.ts'

const published = new Map<string, string>()
const fake = new FakeAuthority((hostname, { kind, token }) => published.get(`${hostname} ${kind} ${token}`))

certificateAuthorityContract(
  test,
  'fake',
  () => ({
    open: () => fake.open(),
    publish: (hostname, { kind, token, value }) => void published.set(`${hostname} ${kind} ${token}`, value),
  }),
  { asksForProof: true },
)

test('the fake authority is away, refuses once, or is slow as a test demands', async t => {
  const own = new FakeAuthority((_, { value }) => value)
  const authority = own.open()
  own.away = new AuthorityError('unreachable', 'away')
  await t.throwsAsync(authority.order({ hostnames: ['a.test'] }), { code: 'unreachable' })
  own.away = null
  own.refusals.order = [new AuthorityError('rateLimited', 'Too many.', 5000)]
  await t.throwsAsync(authority.order({ hostnames: ['a.test'] }), { code: 'rateLimited' })
  const { url } = await authority.order({ hostnames: ['a.test'] })
  own.slow.looks = 2
  await authority.answer(url, 'http-01')
  const statuses = [await authority.look(url), await authority.look(url), await authority.look(url)]
  t.deepEqual(
    statuses.map(({ status }) => status),
    ['pending', 'pending', 'ready'],
  )
  t.is(own.calls.filter(({ step }) => step === 'order').length, 3)
})
