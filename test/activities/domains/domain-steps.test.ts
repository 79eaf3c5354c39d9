import test from 'ava'
import { AuthorityError, type CertificateAuthority } from '../../../activities/certificates/port.ts'
import type { DomainSight } from '../../../activities/domains/domain-sight.ts'
import { domainSteps } from '../../../activities/domains/domain-steps.ts'
import { findCertificates, recordOrderFailure } from '../../../db/domains/certificates.ts'
import { sweepDomainDelays } from '../../../db/domains/domain-delays.ts'
import { assignDomain, findDomain, unassignDomain } from '../../../db/domains/domains.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import { sealKeys } from '../../../policy/seal.ts'
import { FakeAuthority } from '../../kit/fakes/certificate-authority.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const keys = sealKeys('ab'.repeat(32))
const elsewhere = { txtSeen: true, cnameSeen: false, points: false, delegated: false, problem: null }

/** A name of an account, an authority, and what is seen of the name, which tests change. */
async function scene(hostname: string) {
  const { db } = await database
  const make = rows(db)
  await make.host('h1', { memoryMb: 65_536 })
  const ana = await make.user()
  const { app } = await make.app(ana.id)
  await assignDomain(db, { app: { id: app.id, owner_id: ana.id }, hostname, plans: defaultPlans })
  // A proxy that has everything: steps that wait for it need no worker.
  await db.raw(
    `insert into edges (id, applied) values ('one', '9999999:9999999:') on conflict (id) do update set seen_at = now()`,
  )
  const validated: string[] = []
  const ca = new FakeAuthority((_, { kind, value }) => {
    validated.push(kind)
    return value
  })
  const it = {
    ...{ db, hostname, ana, app, ca, validated },
    seen: { look: elsewhere, answerSeen: false } as Awaited<ReturnType<DomainSight['look']>>,
    clock: new Date(),
    serveMs: 60_000,
    /** Happens while DNS is asked. */
    meanwhile: async () => {},
    /** Happens once, while the authority is asked for an order. */
    whileOrdering: async () => {},
    row: async () => (await findDomain(db, hostname))!,
    order: async () => (await findCertificates(db, hostname)).ordered,
    certificate: async () => (await findCertificates(db, hostname)).current,
    /** The steps of `workflows/domain.ts` until it would wait; resolves to what for. */
    async run(): Promise<string> {
      for (let n = 0; n < 10; n++) {
        const next = await steps.lookAtDomain(hostname)
        if (next.do === 'end') return 'end'
        if (next.do === 'wait') return next.summary
        const all = {
          order: [steps.openOrder],
          certify: [steps.answerChallenge, steps.awaitValidation, steps.finalizeOrder, steps.collectCertificate],
          serve: [steps.serveCertificate],
        }[next.do]
        for (const step of all) if (!(await step(hostname))) return 'failed'
      }
      throw new Error('it does not come to rest')
    },
  }
  const sight: DomainSight = {
    async look() {
      await it.meanwhile()
      return it.seen
    },
    caaRefusal: async () => null,
  }
  const issues: CertificateAuthority = {
    ...ca.open(),
    async order(request) {
      const happens = it.whileOrdering
      it.whileOrdering = async () => {}
      await happens()
      return ca.open().order(request)
    },
  }
  const stepsWith = (name: string) =>
    domainSteps({ db, keys, sight, authority: { name, issues }, now: () => it.clock, pollMs: 1, serveMs: it.serveMs })
  let steps = stepsWith('https://ca.test')
  const useAuthority = (name: string) => {
    steps = stepsWith(name)
  }
  return Object.assign(it, { steps, useAuthority })
}

test('a name that is proved before it leads here gets its certificate as soon as it does, with the order that waits', async t => {
  const it = await scene('later.shop.dev')
  t.is(await it.run(), 'waits until requests for it arrive here, or for the record _acme-challenge.later.shop.dev')
  t.truthy((await it.order())!.dns_value, 'its owner may set the record instead')
  it.seen = { look: { ...elsewhere, points: true }, answerSeen: false }
  t.regex(await it.run(), /renews its certificate/)
  t.deepEqual([it.validated, it.ca.orders.size], [['http-01'], 1])
})

test('an order that was opened while requests arrived here goes on by DNS', async t => {
  const it = await scene('leaves.shop.dev')
  it.seen = { look: { ...elsewhere, points: true }, answerSeen: false }
  it.ca.refusals.answer = [new AuthorityError('unreachable', 'away')]
  t.is(await it.run(), 'failed')
  it.seen = { look: elsewhere, answerSeen: true }
  it.clock = new Date(it.clock.getTime() + 3_600_000)
  t.regex(await it.run(), /renews its certificate/)
  t.deepEqual(it.validated, ['dns-01'])
})

test('an authority that does not answer is tried less and less often, and an order that it has ended is replaced', async t => {
  const it = await scene('away.shop.dev')
  it.seen = { look: { ...elsewhere, points: true }, answerSeen: false }
  it.ca.away = new AuthorityError('invalidAnswer', 'nonsense')
  const delays: number[] = []
  for (let n = 0; n < 6; n++) {
    t.is(await it.run(), 'failed')
    const { order_at } = await it.row()
    delays.push(Math.round((order_at.getTime() - it.clock.getTime()) / 60_000))
    it.clock = order_at
  }
  t.deepEqual(delays, [1, 1, 2, 4, 8, 15])
  it.ca.away = null
  it.ca.refusals.look = [new AuthorityError('unreachable', 'away')]
  t.is(await it.run(), 'failed')
  const { id, order_url } = (await it.order())!
  Object.assign(it.ca.orders.get(order_url!)!, {
    status: 'invalid',
    problem: { code: 'serverInternal', message: 'lost' },
  })
  it.clock = (await it.row()).order_at
  t.is(await it.run(), 'failed')
  t.is(await it.order(), undefined, `${id} is over, and no repetition helps`)
  t.like(await it.row(), { orders_failed: 1, message: 'lost' })

  const { order_at } = await it.row()
  await assignDomain(it.db, { app: { id: it.app.id, owner_id: it.ana.id }, hostname: it.hostname, plans: defaultPlans })
  t.deepEqual((await it.row()).order_at, order_at, 'its owner sets it again, which orders nothing')
})

test('an attempt to order that ends after its successor changes nothing of the order under way', async t => {
  const it = await scene('late.shop.dev')
  await it.run()
  const lateAfter = async () => {
    await it.db('certificates').where({ hostname: it.hostname }).delete()
    let successor: string | null = null
    it.whileOrdering = async () => {
      t.true(await it.steps.openOrder(it.hostname))
      successor = (await it.order())!.order_url
    }
    const done = await it.steps.openOrder(it.hostname)
    t.truthy(successor)
    t.is((await it.order())?.order_url, successor)
    return done
  }
  t.true(await lateAfter())
  // The first one is the successor's.
  it.ca.refusals.order = [undefined as never, new AuthorityError('rejectedIdentifier', 'No.')]
  t.false(await lateAfter())
  t.like(await it.row(), { orders_failed: 0, code: null })
})

test('an order that the authority has opened goes on after a limit or a step too early, and not before it allows that', async t => {
  const twoHours = 7_200_000
  const refused = (code: string) => new AuthorityError(code, 'Later.', twoHours)
  const it = await scene('limited.shop.dev')
  it.seen = { look: { ...elsewhere, points: true }, answerSeen: false }
  const failures = [
    ...(['answer', 'look', 'finalize', 'collect'] as const).map(step => [step, 'rateLimited'] as const),
    ...(['finalize', 'collect'] as const).map(step => [step, 'orderNotReady'] as const),
  ]
  for (const [step, code] of failures) {
    it.ca.refusals[step] = [refused(code)]
    t.is(await it.run(), 'failed', step)
    t.is(it.ca.refusals[step]!.length, 0, step)
    t.like(await it.row(), { code, orders_failed: 0, order_at: new Date(it.clock.getTime() + twoHours) })
    t.truthy(await it.order(), `${code} of ${step}`)
    it.clock = (await it.row()).order_at
  }
  const { key_sealed } = (await it.order())!
  t.regex(await it.run(), /renews its certificate/)
  t.is(it.ca.orders.size, 1)
  t.deepEqual((await it.certificate())!.key_sealed, key_sealed)
})

test('an authority that asks for ten years is believed for a week, and for less while a certificate serves', async t => {
  const it = await scene('absurd.shop.dev')
  it.seen = { look: { ...elsewhere, points: true }, answerSeen: false }
  const dayMs = 86_400_000
  const refusal = new AuthorityError('rateLimited', 'Later.', 3650 * dayMs)
  const waitedDays = async () => ((await it.row()).order_at.getTime() - it.clock.getTime()) / dayMs
  it.ca.refusals.order = [refusal]
  t.is(await it.run(), 'failed')
  t.is(await waitedDays(), 7)
  it.clock = (await it.row()).order_at
  t.regex(await it.run(), /renews its certificate/)
  const { not_after } = (await it.certificate())!
  it.clock = new Date(not_after!.getTime() - 4 * dayMs)
  it.ca.refusals.order = [refusal]
  t.is(await it.run(), 'failed')
  t.is(await waitedDays(), 0.5)
})

test('a limit on new orders is a refusal, and so is an order that is over, whatever its reason', async t => {
  const it = await scene('over.shop.dev')
  it.ca.refusals.order = [new AuthorityError('rateLimited', 'Too many.')]
  t.is(await it.run(), 'failed')
  t.like(await it.row(), { orders_failed: 1 })
  it.clock = (await it.row()).order_at
  await it.run()
  it.seen = { look: { ...elsewhere, points: true }, answerSeen: false }
  Object.assign(it.ca.orders.get((await it.order())!.order_url!)!, {
    status: 'invalid',
    problem: { code: 'rateLimited', message: 'Too many.' },
  })
  t.is(await it.run(), 'failed')
  t.is(await it.order(), undefined)
  t.like(await it.row(), { orders_failed: 2 })
})

test('the delay of a refused order outlives the name, which its account removes and sets again', async t => {
  const it = await scene('again.shop.dev')
  const ben = await rows(it.db).user()
  const bens = (await rows(it.db).app(ben.id)).app
  const set = (app: { id: string }, owner_id: string) =>
    assignDomain(it.db, { app: { id: app.id, owner_id }, hostname: it.hostname, plans: defaultPlans })
  const orders = () => it.ca.calls.filter(({ step }) => step === 'order').length
  it.ca.refusals.order = [0, 1, 2, 3].map(() => new AuthorityError('rejectedIdentifier', 'No.'))
  t.is(await it.run(), 'failed')
  const { order_at } = await it.row()
  for (let n = 0; n < 2; n++) {
    await unassignDomain(it.db, it.app.id)
    await set(it.app, it.ana.id)
    it.clock = new Date()
    it.seen = {
      look: { ...elsewhere, txtSeen: false, problem: { code: 'recordMissing', message: '' } },
      answerSeen: false,
    }
    await it.run()
    t.like(await it.row(), { code: 'recordMissing' }, 'what is missing is reported meanwhile')
    it.seen = { look: elsewhere, answerSeen: false }
    t.is(await it.run(), 'tries to get a certificate again')
    t.like(await it.row(), { orders_failed: 1, order_at, code: 'rejectedIdentifier', message: 'No.' })
  }
  t.is(orders(), 1)
  it.clock = order_at
  t.is(await it.run(), 'failed')
  const second = await it.row()
  t.is(second.order_at.getTime() - it.clock.getTime(), 7_200_000, 'it grows on')
  await unassignDomain(it.db, it.app.id)
  await set(bens, ben.id)
  t.is(await it.run(), 'failed')
  t.is((await it.row()).orders_failed, 1, 'of another account it is the first')
  await it.db('domain_delays').where({ hostname: it.hostname }).update({ ends_at: new Date() })
  t.is(await sweepDomainDelays(it.db), 1)
})

test('a certificate that begins only later, by a clock that is behind, is collected once the clock is right', async t => {
  const it = await scene('behind.shop.dev')
  it.seen = { look: { ...elsewhere, points: true }, answerSeen: false }
  it.ca.validity.from = () => new Date(Date.now() + 7_200_000)
  for (let n = 0; n < 2; n++) {
    t.is(await it.run(), 'failed')
    t.like(await it.row(), { code: 'notYetValid', orders_failed: 0 })
    t.regex((await it.row()).message!, /not valid before .*clock/)
    it.clock = (await it.row()).order_at
  }
  it.clock = new Date(Date.now() + 10_000_000)
  t.regex(await it.run(), /renews its certificate/)
  t.is(it.ca.orders.size, 1)
})

test('after a change of the authority a name gets a certificate of the new one immediately', async t => {
  const it = await scene('moves.shop.dev')
  it.seen = { look: { ...elsewhere, points: true }, answerSeen: false }
  await it.run()
  const first = (await it.certificate())!
  t.regex(await it.run(), /renews its certificate/)
  t.is((await it.certificate())!.id, first.id)
  it.useAuthority('https://other.test')
  t.regex(await it.run(), /renews its certificate/)
  t.is((await it.certificate())!.authority, 'https://other.test')
})

test('a renewal that the authority moves forward is done immediately, and it is queried again when it says', async t => {
  const it = await scene('revoked.shop.dev')
  it.seen = { look: { ...elsewhere, points: true }, answerSeen: false }
  const inHours = (count: number) => new Date(it.clock.getTime() + count * 3_600_000)
  it.ca.renewalOf = () => ({ window: { from: inHours(1000), to: inHours(1001) }, again: inHours(6) })
  await it.run()
  const first = (await it.certificate())!
  t.is((await it.row()).look_at.getTime(), inHours(6).getTime())
  it.ca.renewalOf = chain => {
    const from = chain === first.chain ? inHours(-2) : inHours(1000)
    return { window: { from, to: new Date(from.getTime() + 1000) }, again: inHours(6) }
  }
  await it.run()
  t.not((await it.certificate())!.id, first.id, 'in the same run')
})

test('an owner hears why a certificate that ends could not be renewed, once for each warning and not before it is due', async t => {
  const it = await scene('ends.shop.dev')
  it.seen = { look: { ...elsewhere, points: true }, answerSeen: false }
  it.ca.validity.days = 89
  const inDays = (count: number) => new Date(begin + count * 86_400_000)
  const begin = it.clock.getTime()
  it.ca.renewalOf = () => ({ window: { from: inDays(77), to: inDays(77) }, again: inDays(90) })
  await it.run()
  const mails = async () =>
    (await it.db('mails').where({ user_id: it.ana.id, template: 'certificate-failing' }).orderBy('created_at')).map(
      ({ fields }) => fields,
    )
  it.clock = inDays(76)
  await it.run()
  t.deepEqual(await mails(), [], 'its authority wants it renewed later')

  it.ca.refusals.order = Array.from({ length: 9 }, () => new AuthorityError('unreachable', 'The authority is away.'))
  it.clock = inDays(77.1)
  t.is(await it.run(), 'failed')
  t.deepEqual(await mails(), [], 'it was due, and has been tried only now')
  const reason = 'The authority is away.'
  for (const [day, left] of [
    [77.2, [11]],
    [77.3, [11]],
    [86.5, [11, 2]],
    [86.6, [11, 2]],
  ] as const) {
    it.clock = inDays(day)
    t.is(await it.run(), 'failed')
    t.deepEqual(
      await mails(),
      left.map(days => ({ hostname: it.hostname, days, reason })),
    )
  }
})

test('a certificate that a proxy refuses is reported until every proxy has it, and keeps no next one from being ordered', async t => {
  const it = await scene('unserved.shop.dev')
  it.seen = { look: { ...elsewhere, points: true }, answerSeen: false }
  it.serveMs = -1 // it waits for nothing: a step outside of an activity cannot
  it.useAuthority('https://ca.test')
  const refuses = (change: 'array_append' | 'array_remove') =>
    it.db.raw(`update edges set refused = ${change}(refused, ?)`, [it.hostname])
  await refuses('array_append')
  const unserved = { code: 'notServed', message: 'Not every proxy has confirmed the certificate.', orders_failed: 0 }
  for (let n = 0; n < 3; n++) {
    t.is(await it.run(), 'failed')
    t.like(await it.row(), unserved)
    it.clock = new Date(it.clock.getTime() + 15_000)
    await it.steps.lookAtDomain(it.hostname)
    t.like(await it.row(), unserved, 'also while it is tried again')
    t.is((await it.certificate())!.served_at, null)
  }
  const first = (await it.certificate())!
  await it.db('certificates').where({ id: first.id }).update({ renew_at: it.clock })
  t.is(await it.run(), 'failed')
  t.not((await it.certificate())!.id, first.id)
  await refuses('array_remove')
  it.serveMs = 60_000
  it.useAuthority('https://ca.test')
  t.regex(await it.run(), /renews its certificate/)
  t.like(await it.row(), { code: null, message: null })
  t.truthy((await it.certificate())!.served_at)
  t.is(it.ca.orders.size, 2)
})

test('a proxy that refuses a certificate changes neither when the next one is tried nor why it waits', async t => {
  const it = await scene('both.shop.dev')
  it.seen = { look: { ...elsewhere, points: true }, answerSeen: false }
  it.serveMs = -1 // it waits for nothing: a step outside of an activity cannot
  it.useAuthority('https://ca.test')
  await it.db.raw('update edges set refused = array_append(refused, ?)', [it.hostname])
  t.is(await it.run(), 'failed')
  const waits = {
    code: 'dns',
    message: 'No record.',
    orders_failed: 1,
    order_at: new Date(it.clock.getTime() + 18_000_000),
  }
  await it.db('domains').where({ hostname: it.hostname }).update(waits)
  t.is(await it.run(), 'failed', 'it is served until then')
  t.like(await it.row(), waits)
})

test('an owner hears of a renewal that waits for a record', async t => {
  const it = await scene('record.shop.dev')
  it.seen = { look: { ...elsewhere, points: true }, answerSeen: false }
  await it.run()
  const inDays = (count: number) => new Date(it.clock.getTime() + count * 86_400_000)
  await it
    .db('certificates')
    .where({ hostname: it.hostname })
    .update({ renew_at: it.clock, not_before: inDays(-80), not_after: inDays(10) })
  it.seen = { look: elsewhere, answerSeen: false }
  await it.run()
  const [mail] = await it.db('mails').where({ user_id: it.ana.id, template: 'certificate-failing' })
  t.regex(mail.fields.reason, /^The platform waits until requests for it arrive here, or for the record /)
})

test('an order that the authority has forgotten is replaced', async t => {
  const it = await scene('forgotten.shop.dev')
  await it.run()
  const first = (await it.order())!
  await it.db('certificates').where({ id: first.id }).update({ order_ends_at: new Date() })
  it.clock = new Date(Date.now() + 1000)
  t.regex(await it.run(), /^waits until/)
  t.not((await it.order())!.order_url, first.order_url)
})

test('a look at the records of one account proves nothing for another that claims the name meanwhile', async t => {
  const it = await scene('claimed.shop.dev')
  const make = rows(it.db)
  const ben = await make.user()
  await make.host('h1', { memoryMb: 65_536 }) // a busy machine may have taken long so far
  const { app } = await make.app(ben.id)
  it.meanwhile = async () => {
    it.meanwhile = async () => {
      it.seen = { look: { ...elsewhere, txtSeen: false }, answerSeen: false }
    }
    await unassignDomain(it.db, it.app.id)
    await assignDomain(it.db, {
      app: { id: app.id, owner_id: ben.id },
      hostname: it.hostname,
      plans: defaultPlans,
    })
  }
  t.is(await it.run(), 'looks for its record in DNS', 'the workflow goes on for the new account')
  t.like(await it.row(), { owner_id: ben.id, proved_at: null, txt_seen: false })
  t.false(await it.steps.openOrder(it.hostname), 'nothing is ordered for what is not proved')
  t.is(it.ca.orders.size, 0)
})

test('the failure of an order is recorded neither with the next order nor with another claim of the name', async t => {
  const it = await scene('failures.shop.dev')
  await it.run()
  const [claim, old] = [await it.row(), (await it.order())!]
  const failure = { code: 'dns', message: 'No record', orderAt: new Date(), refused: true }
  await it.db('certificates').where({ id: old.id }).delete()
  await it.run()
  await recordOrderFailure(it.db, claim, { ...failure, order: old })
  t.truthy(await it.order())
  t.is((await it.row()).orders_failed, 0)
  const earlier = { ...claim, created_at: new Date(claim.created_at.getTime() - 1) }
  await recordOrderFailure(it.db, earlier, { ...failure, order: null })
  t.is((await it.row()).orders_failed, 0)
  await recordOrderFailure(it.db, claim, { ...failure, order: (await it.order())! })
  t.is(await it.order(), undefined)
  t.is((await it.row()).orders_failed, 1)
})
