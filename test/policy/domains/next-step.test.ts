import test from 'ava'
import { type DomainState, nextStep } from '../../../policy/domains/next-step.ts'

const now = new Date('2026-03-01T12:00:00Z')
const hours = (count: number) => new Date(now.getTime() + count * 3_600_000)

const proved: DomainState = {
  hostname: 'shop.example.com',
  ...{ isProved: true, points: true, answerSeen: false, secured: true },
  ...{ createdAt: hours(-1), orderAt: hours(-1), current: null, ordered: null },
}
/** An order whose authority offers these kinds. */
const order = (offered: string, isOpen = true) => ({
  ...{ isOpen, createdAt: hours(-0.1) },
  offer: { http: offered.includes('http'), dns: offered.includes('dns') },
})
const served = (renewIn: number, isServed = true, isOurs = true, askAt: Date | null = null) => ({
  ...{ renewAt: hours(renewIn), isServed, isOurs, askAt },
})

const waits = (state: Partial<DomainState>) => {
  const next = nextStep({ ...proved, ...state }, now)
  return next.do === 'wait' ? { seconds: (next.until.getTime() - now.getTime()) / 1000, summary: next.summary } : next
}

test('an unproved name is looked at often at first, then rarely, and gets no certificate', t => {
  const unproved = { isProved: false, points: true }
  const summary = 'looks for its record in DNS'
  t.deepEqual(waits({ ...unproved, createdAt: hours(-0.1) }), { seconds: 15, summary })
  t.deepEqual(waits({ ...unproved, createdAt: hours(-1) }), { seconds: 120, summary })
  t.deepEqual(waits({ ...unproved, createdAt: hours(-70) }), { seconds: 3600, summary })
  t.deepEqual(
    waits({ ...unproved, createdAt: hours(-80) }),
    { seconds: 3600, summary },
    'its lapse is decided elsewhere',
  )
})

test('a certificate that proxies do not have is given to them, unless the next one is due: they may refuse this one for good', t => {
  t.deepEqual(waits({ current: served(900, false) }), { do: 'serve' })
  t.deepEqual(waits({ current: served(-1, false) }), { do: 'order' })
  t.deepEqual(waits({ current: served(-1, false), ordered: order('http') }), { do: 'certify' })
  t.deepEqual(waits({ current: served(-1, false), orderAt: hours(1) }), { do: 'serve' }, 'the next one has to wait')
  t.deepEqual(waits({ current: served(-1, false), ordered: order('http'), points: false }), { do: 'serve' })
})

test('without https a proved name is looked at daily', t => {
  t.deepEqual(waits({ secured: false }), { seconds: 86_400, summary: 'looks for its record again' })
})

test('a proved name has an order opened, whether or not it leads here', t => {
  t.deepEqual(waits({}), { do: 'order' })
  t.deepEqual(waits({ points: false }), { do: 'order' })
  t.deepEqual(waits({ ordered: order('', false) }), { do: 'order' }, 'not opened before a crash, or over')
})

test('an order goes on as soon as anything that its authority offers can be proved, whatever it was opened for', t => {
  const certify = { do: 'certify' }
  const elsewhere = { points: false }
  t.deepEqual(waits({ ordered: order('http dns') }), certify, 'requests arrive here')
  t.deepEqual(waits({ ordered: order('http dns'), ...elsewhere, answerSeen: true }), certify)
  t.deepEqual(waits({ ordered: order('http') }), certify)
  t.deepEqual(waits({ ordered: order(''), ...elsewhere }), certify, 'the authority asks for nothing')
  const waiting = (summary: string) => ({ seconds: 15, summary })
  t.deepEqual(
    waits({ ordered: order('http dns'), ...elsewhere }),
    waiting('waits until requests for it arrive here, or for the record _acme-challenge.shop.example.com'),
  )
  t.deepEqual(
    waits({ ordered: order('http'), ...elsewhere, answerSeen: true }),
    waiting('waits until requests for it arrive here'),
  )
})

test('a wildcard is proved in DNS alone, once its answer is seen there', t => {
  const wildcard = { hostname: '*.apps.example.com', ordered: order('dns') }
  t.deepEqual(waits({ ...wildcard, answerSeen: true }), { do: 'certify' })
  t.deepEqual(waits(wildcard), { seconds: 15, summary: 'waits for the record _acme-challenge.apps.example.com' })
})

test('after a refusal nothing is ordered before its time, and the wait is a day at most', t => {
  t.deepEqual(waits({ orderAt: hours(2) }), { seconds: 7200, summary: 'tries to get a certificate again' })
  t.deepEqual(waits({ orderAt: hours(200) }), { seconds: 86_400, summary: 'tries to get a certificate again' })
  t.deepEqual(waits({ orderAt: hours(2), current: served(-1) }), {
    seconds: 7200,
    summary: 'tries to get a certificate again',
  })
})

test('a certificate is given to the proxies, and renewed in time', t => {
  t.deepEqual(waits({ current: served(10) }), { seconds: 36_000, summary: 'renews its certificate' })
  t.deepEqual(waits({ current: served(1440) }), {
    seconds: 86_400,
    summary: 'looks again; renews its certificate 2026-04-30',
  })
  t.deepEqual(waits({ current: served(0) }), { do: 'order' })
  t.deepEqual(waits({ current: served(1440, true, false) }), { do: 'order' }, 'of an authority that is not used now')
  t.deepEqual(waits({ current: served(-1), ordered: order('http') }), { do: 'certify' })
})

test('the authority is asked about a renewal as soon as it says, and within a day', t => {
  const asked = (askIn: number, renewIn = 1440) => waits({ current: served(renewIn, true, true, hours(askIn)) })
  const summary = 'looks again; renews its certificate 2026-04-30'
  t.deepEqual(asked(6), { seconds: 21_600, summary })
  t.deepEqual(asked(100), { seconds: 86_400, summary })
  t.deepEqual(asked(6, 10), { seconds: 21_600, summary: 'looks again; renews its certificate 2026-03-01' })
  t.deepEqual(asked(6, 5), { seconds: 18_000, summary: 'renews its certificate' })
})
