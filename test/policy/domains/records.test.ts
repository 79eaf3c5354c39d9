import test from 'ava'
import { isReservedSubdomain } from '../../../policy/apps/subdomains.ts'
import { awaitedAnswer } from '../../../policy/domains/challenges.ts'
import { challengeDelegation, challengeOf, proofRecords, shownRecords } from '../../../policy/domains/records.ts'

const key = Buffer.alloc(32, 7)
const owner = { accountId: '0123456789abcdef01234567', hostname: 'www.example.com' }
const proof = proofRecords(key, owner, 'apps.berth.example')

test('the records of a name have their documented form', t => {
  t.is(proof.cname.name, 'www.example.com')
  t.regex(proof.cname.value, /^custom-[0-9a-f]{20}\.apps\.berth\.example$/)
  t.is(proof.txt.name, '_berth.www.example.com')
  t.regex(proof.txt.value, /^berth-verify=[0-9a-f]{32}$/)
  const delegation = challengeDelegation(key, owner, 'acme.example')
  t.is(delegation.name, '_acme-challenge.www.example.com')
  t.regex(delegation.value, /^[0-9a-f]{20}\.acme\.example$/)
})

test('a record never changes: customers have set it', t => {
  t.is(proof.cname.value, 'custom-a3a26989213f76746699.apps.berth.example')
  t.is(proof.txt.value, 'berth-verify=9059420236d47f1f6da3826e4ca18ef8')
})

test('a record proves one name for one account in one installation, and no record contains another', t => {
  const others = [
    proofRecords(key, { ...owner, accountId: '0123456789abcdef01234568' }, 'apps.berth.example'),
    proofRecords(key, { ...owner, hostname: 'example.com' }, 'apps.berth.example'),
    proofRecords(Buffer.alloc(32, 8), owner, 'apps.berth.example'),
  ]
  const delegation = challengeDelegation(key, owner, 'acme.example')
  const values = [proof, ...others].flatMap(({ cname, txt }) => [cname.value, txt.value])
  const digits = [...values, delegation.value].map(value => /[0-9a-f]{20}/.exec(value)![0])
  t.is(new Set(digits).size, 9)
})

test('no application can have the target of a proof as its subdomain', t => {
  t.true(isReservedSubdomain(proof.cname.value.split('.')[0]!))
  t.true(isReservedSubdomain('custom-shop'))
  t.false(isReservedSubdomain('custom'))
})

test('an owner sees what is missing, what is being validated, and what is done', t => {
  const name = { hostname: owner.hostname, owner_id: owner.accountId, delegated: true }
  const delegated = challengeOf(name, 'value', { key, acmeDnsDomain: 'acme.example' })
  const byHand = challengeOf(name, 'value', { key, acmeDnsDomain: null })
  t.deepEqual(delegated, { record: challengeDelegation(key, owner, 'acme.example'), isSeen: true })
  t.deepEqual(challengeOf(name, null, { key, acmeDnsDomain: 'acme.example' }), delegated, 'for all orders to come')
  t.is(challengeOf(name, null, { key, acmeDnsDomain: null }), null)
  const statuses = (changes: object) =>
    shownRecords({ proof, txtSeen: false, points: false, isServed: false, challenge: null, ...changes }).map(
      ({ type, status }) => `${type} ${status}`,
    )
  t.deepEqual(statuses({}), ['txt pending', 'cname pending'])
  t.deepEqual(statuses({ txtSeen: true }), ['txt active', 'cname pending'])
  t.deepEqual(statuses({ points: true }), ['txt pending', 'cname pending_validation'])
  t.deepEqual(statuses({ txtSeen: true, points: true }), ['txt active', 'cname pending_validation'])
  t.deepEqual(statuses({ txtSeen: true, points: true, isServed: true }), ['txt active', 'cname active'])
  t.deepEqual(statuses({ points: true, isServed: true }), ['txt pending', 'cname active'], 'proved by the CNAME alone')
  t.deepEqual(statuses({ txtSeen: true, isServed: true }), ['txt active', 'cname pending'], 'it leads elsewhere')
  const undelegated = challengeOf({ ...name, delegated: false }, null, { key, acmeDnsDomain: 'acme.example' })
  for (const [challenge, isServed, status] of [
    [byHand, false, 'txt pending'],
    [byHand, true, 'txt pending'],
    [delegated, false, 'cname pending_validation'],
    [delegated, true, 'cname active'],
    [undelegated, true, 'cname pending'],
  ] as const)
    t.is(statuses({ challenge, isServed })[1], status, 'a certificate is no sign of a record that is not in DNS')
  t.deepEqual(shownRecords({ proof, txtSeen: true, points: true, isServed: true, challenge: delegated }), [
    { ...proof.txt, status: 'active' },
    { ...delegated!.record, status: 'active' },
    { ...proof.cname, status: 'active' },
  ])
})

test('an answer in DNS is asked for only where requests do not prove the name', t => {
  const order = { challenge: 'http-01', dns_value: 'value' } as const
  t.is(awaitedAnswer(order, { points: false }), 'value')
  t.is(awaitedAnswer(order, { points: true }), null)
  t.is(awaitedAnswer({ ...order, challenge: 'dns-01' }, { points: true }), 'value', 'the authority offers DNS only')
  t.is(awaitedAnswer({ challenge: 'http-01', dns_value: null }, { points: false }), null)
})
