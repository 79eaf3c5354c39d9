import test from 'ava'
import { type DomainState, nextStep } from '../../../policy/domains/next-step.ts'

const now = new Date('2026-03-01T12:00:00Z')
const hours = (count: number) => new Date(now.getTime() + count * 3_600_000)

const proved: DomainState = {
  hostname: 'shop.example.com',
  ...{ isProved: true, points: true, delegated: false, answerSeen: false, secured: true },
  ...{ createdAt: hours(-1), orderAt: hours(-1), current: null, ordered: null },
}
const order = (challenge: 'http-01' | 'dns-01' | null, isOpen = true) => ({ isOpen, challenge, createdAt: hours(-0.1) })
const served = (renewIn: number, isServed = true) => ({ renewAt: hours(renewIn), isServed })

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

test('without https a proved name is looked at daily', t => {
  t.deepEqual(waits({ secured: false }), { seconds: 86_400, summary: 'looks for its record again' })
})

test('what proves an order: http where requests arrive here, else DNS, and DNS for a wildcard', t => {
  t.deepEqual(waits({}), { do: 'order', challenge: 'http-01' })
  t.deepEqual(waits({ points: false }), { do: 'order', challenge: 'dns-01' })
  t.deepEqual(waits({ hostname: '*.apps.example.com' }), { do: 'order', challenge: 'dns-01' })
  t.deepEqual(
    waits({ ordered: order(null, false) }),
    { do: 'order', challenge: 'http-01' },
    'not opened before a crash',
  )
})

test('an order goes on as soon as its answer can be seen', t => {
  t.deepEqual(waits({ ordered: order('http-01') }), { do: 'certify' })
  t.deepEqual(waits({ ordered: order(null) }), { do: 'certify' }, 'the authority asks for nothing')
  t.deepEqual(waits({ ordered: order('dns-01'), delegated: true }), { do: 'certify' })
  t.deepEqual(waits({ ordered: order('dns-01'), answerSeen: true }), { do: 'certify' })
  t.deepEqual(waits({ ordered: order('dns-01') }), {
    seconds: 15,
    summary: 'waits for the record _acme-challenge.shop.example.com',
  })
  t.deepEqual(waits({ ordered: order('http-01'), points: false }), {
    seconds: 15,
    summary: 'waits until requests for it arrive here',
  })
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
  t.deepEqual(waits({ current: served(900, false) }), { do: 'serve' })
  t.deepEqual(waits({ current: served(10) }), { seconds: 36_000, summary: 'renews its certificate' })
  t.deepEqual(waits({ current: served(1440) }), {
    seconds: 86_400,
    summary: 'looks again; renews its certificate 2026-04-30',
  })
  t.deepEqual(waits({ current: served(0) }), { do: 'order', challenge: 'http-01' })
  t.deepEqual(waits({ current: served(-1), ordered: order('http-01') }), { do: 'certify' })
})
